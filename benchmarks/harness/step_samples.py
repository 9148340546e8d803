"""Made-up samples of each recipe, and samples cut or repeated to a given number of tokens."""

import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.settings import StepSettings
from benchmarks.harness.workload import make_samples
from common.errors import UserError
from data_gen.build_world import build_world
from models.files.backbone import load_tokenizer
from models.formats.records import (
    ConditionSample,
    RasSample,
    TriplesSample,
    read_records,
    write_records,
)
from training.recipe.recipe import Recipe
from training.recipe.samples import TrainingSample
from training.recipe.settings import T2TSettings

# Tokens of prompt and label together; "recipe" leaves samples as they are, "mixed" spreads
# them from short to long.
SHORT = 128
# BOS and a graph's token, one more of the prompt, one of the label.
LEAST_TOKENS = 4
# Prompts of planner and answerer samples, where the recipe's own limit is not below.
PROMPT_TOKENS = (120, 900)


class LengthError(UserError, ValueError):
    """A length that no sample can have; the message says which can."""


def write_samples(
    recipe: Recipe[Any, Any], settings: T2TSettings, path: Path, count: int, seed: int
) -> None:
    """Write so many samples for a recipe, of a fictional world or of made-up names."""
    if recipe.record_type is RasSample:
        write_records(path, _planner_samples(recipe, settings, count, seed))
        return
    with tempfile.TemporaryDirectory() as temporary:
        world = Path(temporary) / "world"
        build_world(1, seed, world, entities=max(count, 200), progress=False)
        texts = [s for s in read_records(world / "triples.jsonl", TriplesSample) if s.triples]
    random.Random(seed).shuffle(texts)
    texts = [texts[number % len(texts)] for number in range(count)]
    texts = [replace(sample, id=f"{n}/{sample.id}") for n, sample in enumerate(texts)]
    if recipe.record_type is ConditionSample:
        write_records(path, [item for sample in texts for item in _conditions(sample)])
    else:
        write_records(path, texts)


def _planner_samples(
    recipe: Recipe[Any, Any], settings: T2TSettings, count: int, seed: int
) -> list[RasSample]:
    tokenizer = load_tokenizer(settings.model.backbone, settings.model.revision)
    processor = recipe.config(settings, ()).processor(tokenizer)
    limit = settings.model.max_input_tokens
    low, high = (min(tokens, limit) for tokens in PROMPT_TOKENS)
    sizes = StepSettings(batches=count, batch_size=1, min_tokens=low, max_tokens=high, seed=seed)
    return make_samples(
        sizes, lambda s: len(processor.encode_prompt(s.task, s.prompt_history).input_ids)
    )


def _conditions(sample: TriplesSample) -> list[ConditionSample]:
    """Return a condition triplet of each fact; the fact's sentence is its proof."""
    return [
        ConditionSample(
            f"{sample.id}/{number}",
            # Passages of one text are one sample.
            f"{sample.text} ({sample.id})",
            f"{fact.subject} has the {fact.predicate}",
            f"{fact.subject} {fact.predicate} {fact.object}.",
            f"{fact.object} is the {fact.predicate} of {fact.subject}",
        )
        for number, fact in enumerate(sample.triples)
    ]


def target_lengths(lengths: str, count: int, longest: int) -> list[int] | None:
    """Return tokens of each sample; None leaves them as they are.

    lengths: recipe, short, long, mixed or a number. longest: that the recipe takes.

    Raises:
        LengthError: another word, or a number that no sample can have.
    """
    named = {"short": min(SHORT, longest), "long": longest}
    if lengths == "recipe":
        return None
    if lengths == "mixed":
        low, shares = named["short"], [n / max(count - 1, 1) for n in range(count)]
        return [round(low * (longest / low) ** share) for share in shares]
    if lengths not in named and not lengths.isdecimal():
        words = "recipe, short, long, mixed or a number of tokens"
        raise LengthError(f"--lengths {lengths}: give {words}")
    tokens = named.get(lengths) or int(lengths)
    if not LEAST_TOKENS <= tokens <= longest:
        raise LengthError(
            f"--lengths {lengths}: a sample has {LEAST_TOKENS} to {longest} tokens under this "
            "recipe (BOS, a graph's token, the prompt and a label); give a number between them, or "
            "raise model.max_input_tokens"
        )
    return [tokens] * count


def resized(samples: Sequence[TrainingSample], lengths: Sequence[int]) -> list[TrainingSample]:
    """Return samples of so many tokens each: prompts repeated or cut, labels cut where they must.

    Raises:
        LengthError: samples of an encoder-decoder model, whose two texts have lengths of their own.
    """
    if any(sample.label_ids is not None for sample in samples):
        raise LengthError("--lengths: an encoder-decoder recipe is measured with --lengths recipe")
    return [_resized(*pair) for pair in zip(samples, lengths, strict=True)]


def _resized(sample: TrainingSample, tokens: int) -> TrainingSample:
    label = sample.input_ids[sample.labels_start :][: tokens - LEAST_TOKENS + 1]
    prompt = np.resize(sample.input_ids[: sample.labels_start], tokens - len(label))
    ids = np.concatenate([prompt, label]).astype(np.int32)
    return replace(sample, input_ids=ids, labels_start=len(prompt))
