"""Cards of built data sets: the figures of RAS Table 4 and others, counted in one pass."""

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.tables import markdown_table
from data_gen.samples.labels import sample_prompt
from data_gen.streaming.counts import CountTokens, NameTally, TokenSpread, spread_of
from data_gen.streaming.groups import FirstByKey, text_key
from models.formats.records import ConditionSample, InstructionSample, RasSample, TriplesSample
from models.formats.triples import Triple, format_triples

_BATCH = 256
logger = logging.getLogger(__name__)
WORDS_UNIT = "whitespace words"


def graph_sizes(triples: Sequence[Triple]) -> tuple[int, int]:
    """Return nodes and edges of a graph; a triple is two edges, with its inverse (RAS eq. 5)."""
    nodes = {text for triple in triples for text in (triple.subject, triple.object)}
    return len(nodes), 2 * len(set(triples))


class TaskFigures:
    """One column of RAS Table 4."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._input, self._output, self._subq = (TokenSpread(count_tokens) for _ in range(3))
        self._steps: Counter[int] = Counter()
        self._nodes: Counter[int] = Counter()
        self._edges: Counter[int] = Counter()
        self._labels: Counter[str] = Counter()

    def add(self, sample: RasSample) -> None:
        """Count one sample."""
        nodes, edges = graph_sizes([t for step in sample.history for t in step.triples])
        self._input.add(sample_prompt(sample))
        self._output.add(sample.label)
        self._steps[len(sample.history)] += 1
        self._nodes[nodes] += 1
        self._edges[edges] += 1
        if sample.task == "plan":
            self._labels[sample.label.split(" ", 1)[0]] += 1
            if sample.label.startswith("[SUBQ]"):
                self._subq.add(sample.label)

    def figures(self) -> dict[str, Any]:
        """Return the column."""
        figures: dict[str, Any] = {
            "queries": self._steps.total(),
            "input_tokens": self._input.figures(),
            "output_tokens": self._output.figures(),
            "subqueries": spread_of(self._steps),
            "nodes": spread_of(self._nodes),
            "edges": spread_of(self._edges),
            "empty_histories": self._steps[0],
        }
        if subq := self._subq.figures():
            figures["subq_tokens"] = subq
        if self._labels:
            figures["labels"] = dict(self._labels)
        return figures


class RasFigures:
    """Both columns of RAS Table 4: planning and answering."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._tasks = {task: TaskFigures(count_tokens) for task in ("plan", "answer")}

    def add(self, sample: RasSample) -> None:
        """Count one sample."""
        self._tasks[sample.task].add(sample)

    def figures(self) -> dict[str, Any]:
        """Return the columns by task."""
        return {task: figures.figures() for task, figures in self._tasks.items()}


class TriplesFigures:
    """Sizes of text-to-triples samples."""

    def __init__(self, count_tokens: CountTokens) -> None:
        self._input, self._output = TokenSpread(count_tokens), TokenSpread(count_tokens)
        self._triples: Counter[int] = Counter()
        self._predicates = NameTally()

    def add(self, sample: TriplesSample) -> None:
        """Count one sample."""
        self._input.add(sample.text)
        self._output.add(format_triples(sample.triples))
        self._triples[len(sample.triples)] += 1
        for triple in sample.triples:
            self._predicates.add(triple.predicate)

    def figures(self) -> dict[str, Any]:
        """Return the sizes and the thirty most frequent predicates."""
        return {
            "samples": self._triples.total(),
            "input_tokens": self._input.figures(),
            "output_tokens": self._output.figures(),
            "triples": spread_of(self._triples),
            "predicates": self._predicates.most_common(30),
        }


class ConditionsFigures:
    """Sizes of condition triplets, field by field, and how many a passage gives.

    Passages are known by their text; what tells them apart is kept in `folder`.
    """

    def __init__(self, count_tokens: CountTokens, folder: Path) -> None:
        self._count_tokens = count_tokens
        self._fields = {
            name: TokenSpread(count_tokens) for name in ("condition", "proof", "conclusion")
        }
        self._texts = FirstByKey(folder, "figures")
        self._waiting: list[str] = []
        self._empty_proofs = 0
        self._aspects = NameTally()

    def add(self, sample: ConditionSample) -> None:
        """Count one triplet."""
        for name, tokens in self._fields.items():
            tokens.add(getattr(sample, name))
        self._empty_proofs += not sample.proof
        self._aspects.add(sample.condition.rpartition("; ")[2])
        self._waiting.append(sample.text)
        if len(self._waiting) >= _BATCH:
            self._flush()

    def figures(self) -> dict[str, Any]:
        """Return the sizes and the thirty most frequent aspects."""
        self._flush()
        sizes: Counter[int] = Counter()
        lengths: Counter[int] = Counter()
        for counts, tokens in self._texts.sizes_and_values():
            sizes.update(counts.tolist())
            lengths.update(tokens.tolist())
        return {
            "triplets": self._texts.count,
            "passages": sizes.total(),
            "triplets_of_a_passage": spread_of(sizes),
            "text_tokens": spread_of(lengths),
            **{f"{name}_tokens": tokens.figures() for name, tokens in self._fields.items()},
            "empty_proofs": self._empty_proofs,
            "aspects": self._aspects.most_common(30),
        }

    def _flush(self) -> None:
        # The triplets of a passage follow each other: its text is counted once a batch.
        texts = list(dict.fromkeys(self._waiting))
        lengths = dict(zip(texts, self._count_tokens(texts), strict=True))
        for text in self._waiting:
            self._texts.add(text_key(text), lengths[text])
        self._waiting = []


class InstructionFigures:
    """Sizes of a helper's samples, and the labels that come most.

    What tells sources and labels apart is kept in `folder`.
    """

    def __init__(self, count_tokens: CountTokens, folder: Path) -> None:
        self._input, self._output = TokenSpread(count_tokens), TokenSpread(count_tokens)
        self._sources = FirstByKey(folder, "figures_sources")
        self._labels = FirstByKey(folder, "figures_labels")
        self._common = NameTally()

    def add(self, sample: InstructionSample) -> None:
        """Count one sample."""
        self._input.add(sample.prompt)
        self._output.add(sample.label)
        self._sources.add(text_key(sample.source_id))
        self._labels.add(text_key(sample.label))
        self._common.add(sample.label)

    def figures(self) -> dict[str, Any]:
        """Return the sizes and the twelve most frequent labels."""
        return {
            "samples": self._labels.count,
            "sources": self._sources.distinct(),
            "input_tokens": self._input.figures(),
            "output_tokens": self._output.figures(),
            "distinct_labels": self._labels.distinct(),
            "common_labels": self._common.most_common(12),
        }


def token_counter(name: str) -> tuple[CountTokens, str]:
    """Return a function that counts tokens of texts, and what it counts.

    `name` is a backbone whose tokenizer is used, or "words". A tokenizer that cannot be loaded
    is replaced by words, and the second value says so.
    """
    if name != "words":
        try:
            from models.files.backbone import load_tokenizer

            tokenizer = load_tokenizer(name)

            def count(texts: Sequence[str]) -> list[int]:
                if not texts:
                    return []
                ids = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
                return [len(own) for own in ids]

            return count, f"tokens of {name}"
        except Exception as error:
            logger.warning("tokenizer %s not available (%s): counting words", name, error)
    return lambda texts: [len(text.split()) for text in texts], WORDS_UNIT


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write card.json and card.md into `folder`."""
    text = json.dumps(card, ensure_ascii=False, indent=2)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")
    (folder / "card.md").write_text(card_page(card), encoding="utf-8")


def card_page(card: Mapping[str, Any]) -> str:
    """Return the card as Markdown: one section a key, nested figures as tables or lists."""
    lines = [f"# {card['title']}", ""]
    for key, value in card.items():
        if key != "title":
            lines += [f"## {key.replace('_', ' ')}", "", *_section(value), ""]
    return "\n".join(lines)


def _section(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"- {name}: {_inline(item)}" for name, item in value.items()] or ["none"]
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        if "sha256" in value[0] or "relation" in value[0]:
            columns = list(dict.fromkeys(column for row in value for column in row))
            return markdown_table(
                columns, [[row.get(name, "") for name in columns] for row in value]
            )
        blocks = (json.dumps(row, ensure_ascii=False, indent=1) for row in value)
        return [line for block in blocks for line in ("```json", block, "```")]
    if isinstance(value, list):
        return [f"- {_inline(item)}" for item in value] or ["none"]
    return [str(value)]


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inline(item)}" for name, item in value.items()) or "none"
    return str(value)
