"""Components, passages and questions that rollouts are tried on, and what of a line is fixed."""

from dataclasses import replace
from pathlib import Path

from models.formats.model_calls import ModelCall
from models.formats.records import (
    PassageRecord,
    QuestionRecord,
    TriplesSample,
    read_records,
    write_records,
)
from models.formats.trajectories import Trajectory, TrajectoryBill
from tests.components import CHAT_TEMPLATE, ras_component, stirred_backbone, t2t_component
from tests.tiny import tiny_tokenizer

PASSAGES = [
    PassageRecord(str(i), f"Film{i}", f"Film{i} is a film by Ana{i} from 19{i:02d}.")
    for i in range(3)
]
QUESTIONS = [
    QuestionRecord(
        f"q{i}", f"Who directed Film{i}?", f"Ana{i}", type="who", supporting_facts=[(f"Film{i}", 0)]
    )
    for i in range(3)
]


def write_material(folder: Path) -> list[str]:
    """Write components, a corpus and questions; returns the options that name them."""
    backbone = stirred_backbone(folder / "backbone")
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(backbone)
    ras = ras_component(folder / "ras", backbone, stirred=0.3)
    t2t = t2t_component(folder / "t2t", backbone, max_output_tokens=6)
    write_records(folder / "corpus.jsonl", PASSAGES)
    write_records(folder / "questions.jsonl", QUESTIONS)
    return [
        *("--loop", "ras", "--ras", str(ras), "--t2t", str(t2t), "--top-k", "1"),
        *("--dataset", str(folder / "questions.jsonl"), "--corpus", str(folder / "corpus.jsonl")),
        *("--retriever", "bm25", "--max-answer-tokens", "4", "--engine", "transformers"),
        *("--extraction", "all", "--span-reader", "none", "--passage-reader", "none"),
        *("--dtype", "float32", "--group", "2", "--backbone", str(backbone)),
    ]


def trajectories(folder: Path) -> list[Trajectory]:
    """Return the trajectories of a finished rollout, in order."""
    return list(read_records(folder / "trajectories.jsonl", Trajectory))


def decided(made: Trajectory) -> Trajectory:
    """Return a trajectory without what hangs on who read a passage first, and on rounding.

    Who of several read it pays for it; the last bits of a likelihood are those of a batch.
    """
    calls = [_decided(call) for call in made.calls]
    free = TrajectoryBill(searches=made.bill.searches, rounds=made.bill.rounds)
    return replace(made, calls=calls, bill=free)


def _decided(call: ModelCall) -> ModelCall:
    if call.is_sampled or not isinstance(call.sample, TriplesSample):
        return replace(call, logprobs=None)
    distinct = replace(call.sample, triples=list(dict.fromkeys(call.sample.triples)))
    return ModelCall(call.component, call.version, "cache", "", distinct)


def likelihoods(made: list[Trajectory]) -> list[float]:
    """Return the log-probabilities of all sampled tokens, one after the other."""
    calls = (call for each in made for call in each.sampled_calls)
    return [value for call in calls for value in call.logprobs or ()]
