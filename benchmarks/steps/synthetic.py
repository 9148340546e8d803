"""Planner and answerer samples of chosen length, from a seed."""

import random
from collections.abc import Callable

from benchmarks.steps.settings import StepSettings
from models.formats.history import HistoryStep
from models.formats.records import RasSample, Task
from models.formats.triples import Triple

# Fewer triples a round than the loop keeps at most, more than it keeps at least.
TRIPLES_A_STEP = (4, 10)
SYLLABLES = (
    "ka", "lo", "mi", "ran", "tes", "vor", "el", "una", "dri", "sho", "bel", "gar", "ith", "mon",
    "pel", "quin", "sta", "tor",
)  # fmt: skip
PREDICATES = (
    "director", "place of birth", "spouse", "publisher", "member of", "located in", "author",
    "founded by", "genre", "capital of", "educated at", "record label", "child", "producer",
)  # fmt: skip
Measure = Callable[[RasSample], int]


def target_lengths(settings: StepSettings) -> list[int]:
    """Prompt lengths in random order, spread evenly over the distribution's quantiles."""
    count = settings.batches * settings.batch_size
    low, high = settings.min_tokens, settings.max_tokens
    shares = [index / max(count - 1, 1) for index in range(count)]
    if settings.lengths == "uniform":
        lengths = [round(low + share * (high - low)) for share in shares]
    else:
        lengths = [round(low * (high / low) ** share) for share in shares]
    random.Random(settings.seed).shuffle(lengths)
    return lengths


def make_samples(settings: StepSettings, prompt_tokens: Measure) -> list[RasSample]:
    """One sample for each target length.

    Args:
        settings: sizes and seed.
        prompt_tokens: tokens of a sample's prompt.
    """
    rng = random.Random(settings.seed + 1)
    return [
        _sample(number, target, rng, prompt_tokens)
        for number, target in enumerate(target_lengths(settings))
    ]


def _sample(number: int, target: int, rng: random.Random, prompt_tokens: Measure) -> RasSample:
    """The sample with the most triples whose prompt is no longer than `target`, at least one."""
    task: Task = "plan" if number % 2 else "answer"
    question = f"Who is the {rng.choice(PREDICATES)} of {_name(rng)}?"
    label = f"[SUBQ] Where was {_name(rng)} born?" if task == "plan" else _name(rng)
    identity = f"synthetic{number}/{'plan/0' if task == 'plan' else 'answer'}"
    # A triple takes more than four tokens, so these are more than enough.
    most = max(target // 4, 1)
    steps = _steps(most, rng)

    def with_triples(count: int) -> RasSample:
        return RasSample(identity, task, question, _first_triples(steps, count), label)

    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        fits = prompt_tokens(with_triples(middle)) <= target
        low, high = (middle, high) if fits else (low, middle - 1)
    return with_triples(low)


def _steps(triples: int, rng: random.Random) -> list[HistoryStep]:
    """A history of at least `triples` triples, every step about one new entity."""
    steps: list[HistoryStep] = []
    while triples > 0:
        subject = _name(rng)
        size = rng.randint(*TRIPLES_A_STEP)
        found = [Triple(subject, rng.choice(PREDICATES), _name(rng)) for _ in range(size)]
        steps.append(HistoryStep(f"What is known about {subject}?", tuple(found)))
        triples -= size
    return steps


def _first_triples(steps: list[HistoryStep], count: int) -> list[HistoryStep]:
    kept: list[HistoryStep] = []
    for step in steps:
        if count <= 0:
            break
        kept.append(HistoryStep(step.subquery, step.triples[:count]))
        count -= len(step.triples)
    return kept


def _name(rng: random.Random) -> str:
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))) for _ in range(2)]
    return " ".join(word.capitalize() for word in words)
