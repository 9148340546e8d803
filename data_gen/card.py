"""Cards of built data sets: the figures of RAS Table 4, as JSON and as a page to read."""

import json
import logging
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_gen.labels import sample_prompt
from models.formats.records import ConditionSample, InstructionSample, RasSample, TriplesSample
from models.formats.triples import Triple, format_triples

logger = logging.getLogger(__name__)
WORDS_UNIT = "whitespace words"
CountTokens = Callable[[Sequence[str]], list[int]]


def token_counter(name: str) -> tuple[CountTokens, str]:
    """A function that counts tokens of texts, and what it counts.

    `name` is a backbone whose tokenizer is used, or "words". A tokenizer that cannot be loaded
    is replaced by words, and the second value says so.
    """
    if name != "words":
        try:
            from models.backbone import load_tokenizer

            tokenizer = load_tokenizer(name)
            return (
                lambda texts: [len(ids) for ids in _token_ids(tokenizer, texts)],
                f"tokens of {name}",
            )
        except Exception as error:
            logger.warning("tokenizer %s not available (%s): counting words", name, error)
    return lambda texts: [len(text.split()) for text in texts], WORDS_UNIT


def _token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return ids


def spread(values: Sequence[int]) -> dict[str, float]:
    """Minimum, mean, median, 90th percentile and maximum; empty for no values."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "min": ordered[0],
        "mean": round(statistics.fmean(ordered), 1),
        "median": statistics.median(ordered),
        "p90": ordered[int(0.9 * (len(ordered) - 1))],
        "max": ordered[-1],
    }


def graph_sizes(triples: Sequence[Triple]) -> tuple[int, int]:
    """Nodes and edges of a graph; each triple counts two edges, with its inverse (RAS eq. 5)."""
    nodes = {text for triple in triples for text in (triple.subject, triple.object)}
    return len(nodes), 2 * len(set(triples))


def task_figures(samples: Sequence[RasSample], count_tokens: CountTokens) -> dict[str, Any]:
    """One column of RAS Table 4."""
    graphs = [graph_sizes([t for step in s.history for t in step.triples]) for s in samples]
    subqueries = [s.label for s in samples if s.task == "plan" and s.label.startswith("[SUBQ]")]
    figures: dict[str, Any] = {
        "queries": len(samples),
        "input_tokens": spread(count_tokens([sample_prompt(s) for s in samples])),
        "output_tokens": spread(count_tokens([s.label for s in samples])),
        "subqueries": spread([len(s.history) for s in samples]),
        "nodes": spread([nodes for nodes, _ in graphs]),
        "edges": spread([edges for _, edges in graphs]),
        "empty_histories": sum(not s.history for s in samples),
    }
    if subqueries:
        figures["subq_tokens"] = spread(count_tokens(subqueries))
    if any(s.task == "plan" for s in samples):
        figures["labels"] = dict(Counter(s.label.split(" ", 1)[0] for s in samples))
    return figures


def ras_figures(samples: Sequence[RasSample], count_tokens: CountTokens) -> dict[str, Any]:
    """Both columns of RAS Table 4: planning and answering."""
    by_task = {task: [s for s in samples if s.task == task] for task in ("plan", "answer")}
    return {task: task_figures(chosen, count_tokens) for task, chosen in by_task.items()}


def triples_figures(samples: Sequence[TriplesSample], count_tokens: CountTokens) -> dict[str, Any]:
    """Sizes of text-to-triples samples."""
    targets = [format_triples(sample.triples) for sample in samples]
    predicates = Counter(t.predicate for sample in samples for t in sample.triples)
    return {
        "samples": len(samples),
        "input_tokens": spread(count_tokens([sample.text for sample in samples])),
        "output_tokens": spread(count_tokens(targets)),
        "triples": spread([len(sample.triples) for sample in samples]),
        "predicates": dict(predicates.most_common(30)),
    }


def conditions_figures(
    samples: Sequence[ConditionSample], count_tokens: CountTokens
) -> dict[str, Any]:
    """Sizes of condition triplets, field by field, and how many a passage gives."""
    aspects = Counter(sample.condition.rpartition("; ")[2] for sample in samples)
    return {
        "triplets": len(samples),
        "passages": len({sample.text for sample in samples}),
        "triplets_of_a_passage": spread(list(Counter(s.text for s in samples).values())),
        "text_tokens": spread(count_tokens(list({sample.text for sample in samples}))),
        **{
            f"{name}_tokens": spread(count_tokens([getattr(s, name) for s in samples]))
            for name in ("condition", "proof", "conclusion")
        },
        "empty_proofs": sum(not sample.proof for sample in samples),
        "aspects": dict(aspects.most_common(30)),
    }


def instruction_figures(
    samples: Sequence[InstructionSample], count_tokens: CountTokens
) -> dict[str, Any]:
    """Sizes of a helper's samples, and the labels that come most."""
    labels = Counter(sample.label for sample in samples)
    return {
        "samples": len(samples),
        "sources": len({sample.source_id for sample in samples}),
        "input_tokens": spread(count_tokens([sample.prompt for sample in samples])),
        "output_tokens": spread(count_tokens([sample.label for sample in samples])),
        "distinct_labels": len(labels),
        "common_labels": dict(labels.most_common(12)),
    }


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write card.json and card.md into `folder`."""
    text = json.dumps(card, ensure_ascii=False, indent=2)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")
    (folder / "card.md").write_text(card_page(card), encoding="utf-8")


def card_page(card: Mapping[str, Any]) -> str:
    """The card as Markdown: one section a key, nested figures as tables or lists."""
    lines = [f"# {card['title']}", ""]
    for key, value in card.items():
        if key != "title":
            lines += [f"## {key.replace('_', ' ')}", "", *_section(value), ""]
    return "\n".join(lines)


def _section(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"- {name}: {_inline(item)}" for name, item in value.items()] or ["none"]
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        return _table(value) if "sha256" in value[0] or "relation" in value[0] else _blocks(value)
    if isinstance(value, list):
        return [f"- {_inline(item)}" for item in value] or ["none"]
    return [str(value)]


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inline(item)}" for name, item in value.items()) or "none"
    return str(value)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = list(rows[0])
    body = [" | ".join(str(row[column]) for column in columns) for row in rows]
    rule = " | ".join("---" for _ in columns)
    return [f"| {line} |" for line in (" | ".join(columns), rule, *body)]


def _blocks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    blocks = []
    for row in rows:
        blocks += ["```json", json.dumps(row, ensure_ascii=False, indent=1), "```"]
    return blocks
