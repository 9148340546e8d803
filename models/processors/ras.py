"""From a history to token ids and graphs, the same for training and for every engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from models.facts.comparisons import derive_comparisons
from models.formats.planning import History, HistoryStep
from models.formats.prompts import answer_prompt, plan_prompt
from models.formats.records import RasSample, Task
from models.formats.triples import Triple
from models.parts.graph import Subgraph, build_subgraph
from models.parts.loss import IGNORE_INDEX
from models.processors.passages import LabelCutError, text_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)
_PROMPTS: dict[Task, Callable[[History, bool], str]] = {
    "plan": plan_prompt,
    "answer": answer_prompt,
}


@dataclass(frozen=True, eq=False)
class EncodedPrompt:
    """A prompt as the model takes it.

    `input_ids`: BOS where the tokenizer has one, the graph placeholder, the prompt's tokens.
    `graph_position`: index of the placeholder, None without one. `subgraphs`: one a history step.
    `cut_triples`, `cut_texts`, `cut_steps`: what did not fit and was left out of text and graphs.
    """

    input_ids: list[int]
    graph_position: int | None
    subgraphs: list[Subgraph]
    cut_triples: int
    cut_steps: int
    text: str
    cut_texts: int = 0


@dataclass(frozen=True, eq=False)
class EncodedSample:
    """A prompt followed by its label and EOS; the label begins at `labels_start`."""

    sample_id: str
    task: Task
    input_ids: list[int]
    labels_start: int
    graph_position: int | None
    subgraphs: list[Subgraph]
    cut_triples: int

    @property
    def labels(self) -> list[int]:
        """Targets aligned with `input_ids`; the prompt is masked with -100."""
        return [IGNORE_INDEX] * self.labels_start + self.input_ids[self.labels_start :]


class RasProcessor:
    """Turns histories into prompts, ids and graphs (RAS §3.1, §3.3, App. D.2).

    `max_input_tokens` bounds the prompt with BOS and graph token, `max_output_tokens` the label
    with EOS (paper: 2,500 and 300). `graph_token=False` leaves the placeholder out (the ablation
    without graph encoding). `compare_dates` adds derived comparisons to the last step's triples.
    `instructions=False` names the task in the place of the paper's instructions.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_input_tokens: int = 2500,
        max_output_tokens: int = 300,
        graph_token: bool = True,
        compare_dates: bool = True,
        instructions: bool = True,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_input_tokens = max_input_tokens
        self.max_output_tokens = max_output_tokens
        self.compare_dates = compare_dates
        self.instructions = instructions
        self._start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        self.graph_position = len(self._start) if graph_token else None
        if graph_token:
            self._start = [*self._start, tokenizer.pad_token_id]

    def encode_prompt(self, task: Task, history: History) -> EncodedPrompt:
        """Prompt ids and graphs of a history, cut where it exceeds `max_input_tokens`.

        First the oldest step's texts and then its triples go, the last of them first, then the next
        step's; when nothing of them is left, whole steps go, the oldest first. The instruction and
        the question always stay, even where they alone exceed the limit. Triples with a blank field
        are left out.
        """
        history = self._complete(history)
        text, ids = self._tokenize_prompt(task, history)
        cut = 0
        if len(ids) > self.max_input_tokens:
            cut = self._smallest_cut(task, history)
            text, ids = self._tokenize_prompt(task, cut_history(history, cut))
        kept = cut_history(history, cut)
        triples, texts = _counts(history)
        kept_triples, kept_texts = _counts(kept)
        return EncodedPrompt(
            input_ids=ids,
            graph_position=self.graph_position,
            subgraphs=[build_subgraph(step.triples) for step in kept.steps],
            cut_triples=triples - kept_triples,
            cut_steps=len(history.steps) - len(kept.steps),
            text=text,
            cut_texts=texts - kept_texts,
        )

    def encode_sample(self, sample: RasSample) -> EncodedSample:
        """Ids, label start and graphs of a training sample.

        Raises LabelCutError when the label and EOS need more than `max_output_tokens`.
        """
        ids = text_ids(self.tokenizer, sample.label, split_special_tokens=True)
        label_ids = [*ids, self.tokenizer.eos_token_id]
        if len(label_ids) > self.max_output_tokens:
            raise LabelCutError(
                sample.id, len(label_ids), self.max_output_tokens, "max_output_tokens"
            )
        prompt = self.encode_prompt(sample.task, sample.prompt_history)
        return EncodedSample(
            sample_id=sample.id,
            task=sample.task,
            input_ids=prompt.input_ids + label_ids,
            labels_start=len(prompt.input_ids),
            graph_position=prompt.graph_position,
            subgraphs=prompt.subgraphs,
            cut_triples=prompt.cut_triples,
        )

    def _complete(self, history: History) -> History:
        """The history with distinct, whole triples a step and the derived comparisons."""
        steps = [
            replace(step, triples=tuple(dict.fromkeys(filter(_is_whole, step.triples))))
            for step in history.steps
        ]
        if steps and self.compare_dates:
            found = [triple for step in steps for triple in step.triples]
            derived = derive_comparisons(found, history.question)
            steps[-1] = replace(steps[-1], triples=(*steps[-1].triples, *derived))
        return replace(history, steps=tuple(steps))

    def _smallest_cut(self, task: Task, history: History) -> int:
        """Fewest cuts that fit, by bisection; all of them where nothing fits."""
        low, high = 1, sum(_counts(history)) + len(history.steps)
        while low < high:
            middle = (low + high) // 2
            _, ids = self._tokenize_prompt(task, cut_history(history, middle))
            low, high = (low, middle) if len(ids) <= self.max_input_tokens else (middle + 1, high)
        return low if high else 0

    def _tokenize_prompt(self, task: Task, history: History) -> tuple[str, list[int]]:
        text = _PROMPTS[task](history, self.instructions)
        return text, self._start + text_ids(self.tokenizer, text, split_special_tokens=True)


def cut_history(history: History, cuts: int) -> History:
    """The history with its first `cuts` cuts made, in the order that `encode_prompt` states."""
    steps: list[HistoryStep] = []
    for step in history.steps:
        texts = step.texts[: max(0, len(step.texts) - cuts)]
        cuts -= len(step.texts) - len(texts)
        triples = step.triples[: max(0, len(step.triples) - cuts)]
        cuts -= len(step.triples) - len(triples)
        steps.append(replace(step, triples=triples, texts=texts))
    return replace(history, steps=tuple(steps[cuts:]))


def _counts(history: History) -> tuple[int, int]:
    """Return the number of triples and of texts."""
    triples = sum(len(step.triples) for step in history.steps)
    return triples, sum(len(step.texts) for step in history.steps)


def _is_whole(triple: Triple) -> bool:
    return all(field.strip() for field in (triple.subject, triple.predicate, triple.object))
