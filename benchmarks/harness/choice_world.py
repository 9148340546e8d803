"""A world in which only the outcome tells which of several plans is right, and a tiny model of it.

The backbone is a tiny Llama that was pre-trained on every prompt of the loop: it plans at chance
between asking for the thing and asking for its year, reads passages, and answers from what was read
or says that it does not know. The first plan finds the passage; the second finds another one.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from tqdm import tqdm

from common.errors import UserError
from models.files.backbone import SMOLLM2, load_tokenizer
from models.formats.planning import HistoryStep, Plan, PlanAction, format_plan
from models.formats.prompts import passage_text
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    RasSample,
    TriplesSample,
    write_records,
)
from models.formats.triples import Triple
from models.graph_llm import GraphLLM, GraphLLMConfig
from models.parts.loss import IGNORE_INDEX, label_loss
from models.text_to_triples import TextToTriples, TextToTriplesConfig
from training.recipe.collator import Collator
from training.recipe.graph_samples import graph_samples
from training.recipe.samples import TrainingSample, passage_samples

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

# Names are words of one token, with and without a space before, so that a tiny model copies them.
NAME = re.compile(r"Ġ[A-Z][a-z]{3,8}")
UNKNOWN = "unknown"
YEAR_QUESTION = "Which year was it?"
RIGHT, WRONG, NONE = "right", "wrong", "none"
COMPONENT: dict[str, Any] = {
    "max_input_tokens": 400, "max_output_tokens": 48,
    "lora_rank": 8, "lora_alpha": 16.0, "lora_dropout": 0.0,
}  # fmt: skip
# Copying is learnt all at once, by some draws later than by others.
MOST_TRAININGS, LEARNT = 4, 0.98
# Enough for the prompts' words and the names; each name is counted so often.
VOCABULARY, NAME_WEIGHT = 1500, 20
SIZES: dict[str, Any] = {
    "hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 4,
}  # fmt: skip


class ChoiceWorldError(UserError, RuntimeError):
    """A model that did not learn its world; the message says what to give it."""


@dataclass(frozen=True)
class ChoiceWorld:
    """Things, each with a maker, and passages that tell it; others tell years."""

    things: Sequence[tuple[str, str]]

    @classmethod
    def drawn(cls, count: int, seed: int) -> ChoiceWorld:
        """Draw so many things with names of their own."""
        vocabulary = load_tokenizer(SMOLLM2).get_vocab()
        names = sorted(
            token[1:] for token in vocabulary if NAME.fullmatch(token) and token[1:] in vocabulary
        )
        drawn = random.Random(seed).sample(names, 2 * count)
        return cls(list(zip(drawn[:count], drawn[count:], strict=True)))

    @property
    def passages(self) -> list[PassageRecord]:
        """Return the passages of things, then those of years."""
        told = [PassageRecord(t, t, f"{t} was made by {maker}.") for t, maker in self.things]
        years = [PassageRecord(f"y{n}", f"Year {n}", f"A note on the year {n}.") for n in range(9)]
        return [*told, *years]

    def questions(self, known: float = 1.0) -> list[QuestionRecord]:
        """Return a question a thing; known: the share whose gold answer is the passage's."""
        golds = [
            maker if n < known * len(self.things) else "Nobody Knows"
            for n, (_, maker) in enumerate(self.things)
        ]
        return [
            QuestionRecord(f"q{n}", question_of(thing), gold, supporting_facts=[(thing, 0)])
            for n, ((thing, _), gold) in enumerate(zip(self.things, golds, strict=True))
        ]

    def samples(self, plans: Sequence[str]) -> tuple[list[RasSample], list[TriplesSample]]:
        """Return what the model has learnt: each kind of plan as often, reading and answering."""
        facts = {thing: Triple(thing, "maker", maker) for thing, maker in self.things}
        nothing = HistoryStep(YEAR_QUESTION)
        ras = []
        for thing, maker in self.things:
            question, found = question_of(thing), HistoryStep(question_of(thing), (facts[thing],))
            ras += [
                RasSample(
                    f"{thing}/{kind}", "plan", question, [], format_plan(plan_of(thing, kind))
                )
                for kind in plans
            ]
            ras += [
                RasSample(f"{thing}/found", "answer", question, [found], maker),
                RasSample(f"{thing}/nothing", "answer", question, [nothing], UNKNOWN),
                RasSample(f"{thing}/not", "answer", question, [], UNKNOWN),
            ]
        triples = [
            TriplesSample(
                passage.id,
                passage_text(passage.title, passage.text),
                [facts[passage.id]] if passage.id in facts else [],
            )
            for passage in self.passages
        ]
        return ras, triples


def question_of(thing: str) -> str:
    """Return the question about a thing."""
    return f"Who made {thing}?"


def plan_of(thing: str, kind: str) -> Plan:
    """Return a plan of a kind for the question about a thing."""
    subqueries = {RIGHT: question_of(thing), WRONG: YEAR_QUESTION}
    if kind in subqueries:
        return Plan(PlanAction.SUBQ, subqueries[kind])
    return Plan(PlanAction.SUFFICIENT)


def is_wrong(plan: str) -> bool:
    """Return whether a drawn plan begins as those of the kind do that finds nothing."""
    beginning = " ".join(YEAR_QUESTION.split()[:2])
    return plan.strip().startswith(format_plan(Plan(PlanAction.SUBQ, beginning)))


def write_world(folder: Path, world: ChoiceWorld, known: float = 1.0) -> None:
    """Write the world's questions and corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    write_records(folder / "corpus.jsonl", world.passages)
    write_records(folder / "questions.jsonl", world.questions(known))


def write_components(
    folder: Path, world: ChoiceWorld, plans: Sequence[str], steps: int, seed: int
) -> None:
    """Pre-train a backbone on the world's prompts and write it with components that add nothing.

    A folder that has them is left as it is. steps: of a training, which is repeated where the model
    has not learnt to read and to answer by then. Raises ChoiceWorldError.
    """
    if (folder / "t2t" / "config.json").is_file():
        return
    backbone = folder / "backbone"
    ras = GraphLLMConfig(str(backbone), graph=None, **COMPONENT)
    t2t = TextToTriplesConfig(str(backbone), **COMPONENT)
    plan_samples, triples = world.samples(plans)

    def encoded(tokenizer: PreTrainedTokenizerBase) -> list[TrainingSample]:
        reading, writing = ras.processor(tokenizer), t2t.processor(tokenizer)
        return [
            *graph_samples([reading.encode_sample(each) for each in plan_samples], None),
            *passage_samples([writing.encode_sample(each) for each in triples]),
        ]

    whole = load_tokenizer(SMOLLM2)
    names = [name for pair in world.things for name in pair]
    texts = [str(whole.decode(sample.input_ids)) for sample in encoded(whole)]
    tokenizer = small_tokenizer(whole, texts, names)
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer), tie_word_embeddings=True, max_position_embeddings=2048,
            bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id, **SIZES,
        )
    )  # fmt: skip
    # Anything is copied as it was, a name in a sentence often as it begins an answer.
    every = list(range(len(tokenizer)))
    within, alone = [f" {name}" for name in names], names
    said, again = (
        torch.tensor([*every, *NAME_WEIGHT * [int(ids[0]) for ids in tokenizer(forms).input_ids]])
        for forms in (within, alone)
    )
    samples = encoded(tokenizer)
    # Which plan is the right one nobody tells.
    open_ids = {each.id for each in plan_samples if each.task == "plan"}
    told = [each for each in samples if each.sample_id not in open_ids]
    for number in range(MOST_TRAININGS):
        pretrain(model, samples, said, again, steps, seed + number)
        if (right := share_right(model, told)) >= LEARNT:
            break
    else:
        raise ChoiceWorldError(
            f"seed {seed}: after {MOST_TRAININGS} times {steps} steps the model reads and answers "
            f"{right:.0%} as it was taught, where {LEARNT:.0%} are needed: give it more steps"
        )
    model.save_pretrained(backbone)
    tokenizer.save_pretrained(backbone)
    torch.manual_seed(seed)
    GraphLLM.from_config(ras).save_pretrained(folder / "ras")
    TextToTriples.from_config(t2t).save_pretrained(folder / "t2t")


def small_tokenizer(
    whole: PreTrainedTokenizerBase, texts: Sequence[str], names: Sequence[str]
) -> PreTrainedTokenizerBase:
    """Return a tokenizer of the texts alone, in which every name is one token."""
    often = [form for name in names for form in (name, f" {name}")] * NAME_WEIGHT
    return whole.train_new_from_iterator([*texts, *often], VOCABULARY)


def pretrain(
    model: LlamaForCausalLM,
    samples: Sequence[TrainingSample],
    said: torch.Tensor,
    again: torch.Tensor,
    steps: int,
    seed: int,
    batch_size: int = 24,
) -> None:
    """Train all weights on the samples' labels, and to copy `said` as `again` [n]."""
    collate = Collator(cast("int", model.config.pad_token_id))
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    model.train()
    loss = torch.tensor(0.0)
    with tqdm(total=steps, desc="pre-train", unit=" steps") as bar:
        for _ in range(steps):
            batch = collate(chance.sample(list(samples), min(batch_size, len(samples))))
            states = model.model(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
            ).last_hidden_state
            loss, _, _ = label_loss(states, batch["labels"], model.lm_head, None, model.config)
            loss = loss + model(**repeated_ids(said, again, generator)).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            bar.set_postfix(loss=f"{float(loss.detach()):.3f}")
            bar.update()
    model.eval()


def share_right(
    model: LlamaForCausalLM, samples: Sequence[TrainingSample], batch_size: int = 24
) -> float:
    """Return the share of samples of which each label token is the most probable one."""
    collate = Collator(cast("int", model.config.pad_token_id))
    right = 0
    for start in range(0, len(samples), batch_size):
        batch = collate(samples[start : start + batch_size])
        labels = batch.pop("labels")[:, 1:]
        with torch.no_grad():
            logits = model(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
            ).logits
        same = logits[:, :-1].argmax(dim=-1) == labels
        right += int((same | (labels == IGNORE_INDEX)).all(dim=1).sum())
    return right / len(samples)


def repeated_ids(
    said: torch.Tensor,
    again: torch.Tensor,
    chance: torch.Generator,
    batch_size: int = 16,
    length: int = 32,
) -> dict[str, torch.Tensor]:
    """Return ids drawn from `said` and then their like in `again`, as labels: they teach to copy.

    said, again: [n], row by row the same in two forms.
    """
    drawn = torch.randint(len(said), (batch_size, length), generator=chance)
    first, second = said[drawn], again[drawn]
    labels = torch.cat([torch.full_like(first, IGNORE_INDEX), second], dim=1)
    return {"input_ids": torch.cat([first, second], dim=1), "labels": labels}
