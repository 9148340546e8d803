"""rollout.py on tiny components: its lines, their likelihoods, and what it refuses."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import inference.evaluate
import inference.rollout
from evaluation.rewards import RewardWeights, reward_parts
from inference.engines.served import collate_requests
from inference.loops.kind import ReadingOptions
from inference.rollouts.log import held
from inference.rollouts.outcome import Judge, SearchCountingTrace
from inference.rollouts.recording import triples_of
from inference.rollouts.run import Rollout, RolloutError, check, digest_of, roll_out
from models.files.checkpoint import component_fingerprint
from models.files.sentence_encoder import load_sentence_encoder
from models.files.text_table import TextFeatures
from models.formats.model_calls import ModelCall
from models.formats.records import QuestionRecord, RasSample, TriplesSample, write_records
from models.formats.trajectories import Trajectory
from models.graph_llm import GraphLLM
from models.processors.ras import RasProcessor
from tests.components import ras_component
from tests.inference.rollout_material import (
    PASSAGES,
    QUESTIONS,
    decided,
    likelihoods,
    trajectories,
    write_material,
)
from tests.run_main import Run, json_runner, openings_of, run_main
from tests.tiny import tiny_tokenizer

Refused = Callable[..., str]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("material")
    (folder / "options.json").write_text(json.dumps(write_material(folder)))
    return folder


@pytest.fixture
def options(material: Path) -> list[str]:
    found: list[str] = json.loads((material / "options.json").read_text())
    return found


@pytest.fixture
def run(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:  # fmt: skip
    """Run a command in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return json_runner(monkeypatch, capsys, tmp_path / "cache", *options)


def rollout(run: Run, out: str, *more: object) -> list[Trajectory]:
    run(inference.rollout.main, "--out", out, *more)
    return trajectories(Path(out))


@pytest.fixture
def refused(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The one line of a rollout that is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache"))

    def run_refused(*more: object) -> str:
        with pytest.raises(SystemExit) as error:
            run_main(monkeypatch, inference.rollout.main, *options, "--out", "out", *more)
        return str(error.value)

    return run_refused


def test_a_rollout_and_its_lines(run: Run, material: Path) -> None:
    results = run(
        inference.rollout.main, "--out", "out", "--temperature", 0.8, "--seed", 3,
        "--weights", "recall=0.5",
    )  # fmt: skip
    assert json.loads(Path("out/results.json").read_text()) == results
    made = trajectories(Path("out"))
    assert [each.key for each in made] == [(q.id, n) for q in QUESTIONS for n in range(2)]
    assert (results["trajectories"], results["errors"]) == (len(made), 0)
    fingerprints = {name: component_fingerprint(material / name) for name in ("ras", "t2t")}
    for each, question in zip(made, [q for q in QUESTIONS for _ in range(2)], strict=True):
        assert (each.seed, each.temperature, each.type) == (3, 0.8, "who")
        parts = reward_parts(each, question)
        assert parts == each.reward_parts
        assert each.reward == RewardWeights(recall=0.5).total(parts)
        assert (each.f1, each.em) == (parts["f1"], parts["em"])
        assert each.bill.rounds == each.bill.searches == len(each.steps) >= 1
        for call in each.calls:
            assert call.version == fingerprints[str(call.component)]
            check_call(call, each)
        [answer] = [
            call for call in each.calls if call.sample and call.sample.id.endswith("answer")
        ]
        assert answer.is_sampled and answer.text.strip() == each.answer
    # Passages are read by a greedy model, each once, and from then on out of its cache.
    sources = results["calls"]
    assert sources["greedy"] + sources["cache"] == sum(len(each.steps) for each in made)
    assert sources["sampled"] == sum(len(each.sampled_calls) for each in made)
    assert len({each.answer for each in made}) > len(QUESTIONS)


def check_call(call: ModelCall, made: Trajectory) -> None:
    if call.component == "t2t":
        assert isinstance(call.sample, TriplesSample) and not call.is_sampled
        assert call.sample.id in {name for step in made.steps for name, _ in step.passages}
        return
    assert isinstance(call.sample, RasSample) and call.sample.question_id == made.id
    assert (call.sample.label, call.sample.question) == (call.text, made.question)
    assert call.finish_reason in ("stop", "length") and call.subgraphs is not None
    # The prompt and the graphs that a training would make of the sample.
    prompt = RasProcessor(tiny_tokenizer()).encode_prompt(
        call.sample.task, call.sample.prompt_history
    )
    assert call.input_ids == prompt.input_ids
    assert call.subgraphs == list(map(triples_of, prompt.subgraphs))


def test_likelihoods_are_those_of_a_forward_pass(run: Run, material: Path) -> None:
    temperature = 0.7
    made = rollout(run, "out", "--temperature", temperature, "--limit", 2)
    model = GraphLLM.from_pretrained(material / "ras").eval()
    features = TextFeatures(load_sentence_encoder("hash"))
    calls = [call for each in made for call in each.sampled_calls]
    assert any(any(call.subgraphs or ()) for call in calls) or len(calls) >= 6
    for call in calls:
        assert (
            isinstance(call.sample, RasSample) and call.input_ids and call.logprobs_of == "sampled"
        )
        encoded = model.settings.processor(tiny_tokenizer()).encode_prompt(
            call.sample.task, call.sample.prompt_history
        )
        ids = torch.tensor([[*call.input_ids, *call.token_ids]])
        with torch.no_grad():
            embeds = model.embed_inputs(ids, None, collate_requests([encoded.subgraphs], features))
            logits = model.model(inputs_embeds=embeds).logits[0, len(call.input_ids) - 1 : -1]
        chosen = torch.tensor(call.token_ids)[:, None]
        expected = (logits / temperature).log_softmax(dim=-1).gather(1, chosen)[:, 0]
        assert call.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


@pytest.mark.slow
def test_a_trajectory_is_the_same_alone_in_company_and_in_a_shard(run: Run) -> None:
    whole = rollout(run, "whole")
    fixed = list(map(decided, whole))
    alone = rollout(run, "alone", "--concurrency", 1, "--max-batch-size", 1)
    assert list(map(decided, alone)) == fixed
    assert likelihoods(alone) == pytest.approx(likelihoods(whole), abs=1e-4)
    parts = [*rollout(run, "a", "--shard", "1/2"), *rollout(run, "b", "--shard", "2/2")]
    assert sorted(map(decided, parts), key=lambda each: each.key) == fixed
    fewer = rollout(run, "fewer", "--limit", 1, "--group", 1)
    assert list(map(decided, fewer)) == fixed[:1]
    other = rollout(run, "other", "--seed", 1)
    assert [each.answer for each in other] != [each.answer for each in whole]


def test_components_that_draw_are_named(run: Run, refused: Refused) -> None:
    made = rollout(run, "out", "--sample", "t2t", "--limit", 1)
    sampled = [call for each in made for call in each.sampled_calls]
    assert {call.component for call in sampled} == {"t2t"}
    assert len({call.seed for call in sampled}) == len(sampled) == 2
    assert {call.source for each in made for call in each.calls if call.component == "ras"} == {
        "greedy"
    }
    message = refused("--sample", "reader")
    assert message.endswith(
        "--sample reader: the loop has no such component; it has ras, t2t, backbone"
    )


def test_greedy_trajectories_are_one_a_question(run: Run, refused: Refused) -> None:
    assert "2 trajectories of a question would be the same" in refused("--temperature", 0)
    assert "give a number of 0 or more" in refused("--temperature", -1)
    assert "give a number of 0 or more" in refused("--temperature", "nan")
    [made] = rollout(run, "out", "--temperature", 0, "--group", 1, "--limit", 1)
    assert made.sampled_calls == []


def test_an_endpoint_is_refused_before_any_question(refused: Refused) -> None:
    # The data set is not even looked for.
    message = refused("--engine", "openai", "--ras", "none", "--dataset", "nowhere.jsonl")
    assert "an API endpoint gives texts without token ids" in message
    assert not Path("out").exists()


def test_gain_is_measured_against_an_evaluation(
    run: Run, refused: Refused, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "name a finished evaluation with --baseline" in refused("--weights", "gain=1")
    assert "no such folder" in refused("--weights", "gain=1", "--baseline", "nowhere")
    without = [word for word in options if word not in ("--group", "2")]
    run_main(monkeypatch, inference.evaluate.main, *without, "--limit", "2", "--out", "base")
    path = Path("base/traces.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["f1"] = 0.5
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = rollout(run, "out", "--baseline", "base", "--weights", "gain=1", "f1=0", "--limit", 3)
    gains = [each.reward_parts["gain"] for each in made]
    assert gains[:2] == [each.reward_parts["f1"] - 0.5 for each in made[:2]]  # type: ignore[operator]
    # The third question was not evaluated: no gain, and no reward where that counts.
    assert gains[4:] == [None, None] and [each.reward for each in made[4:]] == [None, None]
    assert json.loads(Path("out/results.json").read_text())["without"]["gain"] == 2


def test_questions_without_annotations_are_counted_and_never_zero(run: Run, tmp_path: Path) -> None:
    bare = replace(QUESTIONS[0], answer="", supporting_facts=[])
    write_records(tmp_path / "bare.jsonl", [bare, QUESTIONS[1]])
    given: tuple[Any, ...] = ("--dataset", tmp_path / "bare.jsonl", "--weights", "recall=1")
    made = rollout(run, "out", *given)
    for each in made[:2]:
        assert (each.em, each.f1, each.reward) == (None, None, None)
        assert (each.reward_parts["f1"], each.reward_parts["recall"]) == (None, None)
    assert all(each.reward is not None and each.f1 is not None for each in made[2:])
    results = json.loads(Path("out/results.json").read_text())
    assert [results["without"][name] for name in ("f1", "recall", "reward", "searches")] == [
        2, 2, 2, 0,
    ]  # fmt: skip


def test_a_reward_that_no_question_tells_is_refused(refused: Refused, tmp_path: Path) -> None:
    write_records(tmp_path / "bare.jsonl", [replace(q, supporting_facts=[]) for q in QUESTIONS])
    given = ("--dataset", tmp_path / "bare.jsonl", "--weights", "recall=0.3")
    assert "no question has supporting_facts" in refused(*given)
    assert not Path("out/progress.jsonl").exists()


def test_a_trajectory_that_fails_has_no_line_and_is_made_again(run: Run, tmp_path: Path) -> None:
    given = ("--loop", "ras_static", "--dataset", tmp_path / "some.jsonl")
    whole = [replace(q, context=[(q.answer, [f"{q.answer} made it."])]) for q in QUESTIONS[:2]]
    write_records(tmp_path / "some.jsonl", [whole[0], replace(whole[1], context=[])])
    assert [each.id for each in rollout(run, "out", *given)] == ["q0", "q0"]
    results = json.loads(Path("out/results.json").read_text())
    assert (results["errors"], results["trajectories"]) == (2, 2)
    assert results["failed"][0]["id"] == "q1" and "context" in results["failed"][0]["error"]
    write_records(tmp_path / "some.jsonl", whole)
    before = Path("out/trajectories.jsonl").read_bytes()
    made = rollout(run, "out", *given, "--resume")
    assert [each.key for each in made] == [("q0", 0), ("q0", 1), ("q1", 0), ("q1", 1)]
    assert Path("out/trajectories.jsonl").read_bytes().startswith(before)
    # What is whole is left as it is, its results too.
    results = Path("out/results.json").read_text()
    assert rollout(run, "out", *given, "--resume") == made
    assert Path("out/results.json").read_text() == results


def test_a_folder_has_one_rollout_at_a_time(refused: Refused) -> None:
    with held(Path("out")):
        assert "another rollout is being made there" in refused("--limit", 1)
    assert not Path("out").exists()


def test_resuming_loses_and_mixes_nothing(run: Run, refused: Refused, tmp_path: Path) -> None:
    write_records(tmp_path / "some.jsonl", QUESTIONS[:2])
    given = ("--dataset", tmp_path / "some.jsonl", "--resume")
    made = rollout(run, "out", *given[:2])
    assert "holds 4 trajectories, some of questions that --limit 1" in refused(*given, "--limit", 1)
    assert trajectories(Path("out")) == made
    answered = replace(QUESTIONS[0], answer=made[0].answer)
    found = replace(QUESTIONS[0], supporting_facts=[("Nowhere", 0)])
    for changed in (answered, found, replace(QUESTIONS[0], question="Who?")):
        write_records(tmp_path / "some.jsonl", [changed, QUESTIONS[1]])
        said = refused(*given)
        assert "jsonl:1: the trajectories of 'q0' are of another question, answer" in said
    write_records(tmp_path / "some.jsonl", QUESTIONS[:2])
    write_records(tmp_path / "corpus.jsonl", PASSAGES[:2])
    assert "begun with corpus_sha256" in refused(*given, "--corpus", tmp_path / "corpus.jsonl")


def test_a_corpus_is_hashed_once(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_records(tmp_path / "corpus.jsonl", PASSAGES)
    opened = openings_of(tmp_path / "corpus.jsonl", monkeypatch)
    rollout(run, "out", "--corpus", tmp_path / "corpus.jsonl", "--limit", 1, "--group", 1)
    # And read once to be searched.
    assert len(opened) == 2


def test_shards_of_one_rollout_have_its_digest(run: Run) -> None:
    whole = rollout(run, "out")
    # Lines from before `plan_ahead` was resolved in the settings have it too.
    settings = json.loads(Path("out/settings.json").read_text())
    assert settings["plan_ahead"] is True
    assert digest_of({**settings, "plan_ahead": None}) == whole[0].rollout
    parts = [rollout(run, f"part{n}", "--shard", f"{n}/2", "--seed", n) for n in (1, 2)]
    assert {made.rollout for made in (*whole, *parts[0], *parts[1])} == {whole[0].rollout}
    other = rollout(run, "other", "--limit", 1, "--weights", "recall=0.5")
    assert other[0].rollout != whole[0].rollout


@pytest.mark.slow
@pytest.mark.parametrize(
    "loop",
    # A tiny model's texts only end where they are cut, after hundreds of tokens in these.
    ["ircot", *(pytest.param(n, marks=[pytest.mark.exhaustive])
                for n in ("single", "react", "self_ask", "trig_nav"))],
)  # fmt: skip
def test_other_loops_draw_from_the_backbone(loop: str, run: Run, material: Path) -> None:
    given = ("--loop", loop, "--sample", "backbone", "--limit", 1, "--max-rounds", 1)
    made = rollout(run, "out", *given)
    for each in made:
        assert each.sampled_calls and each.bill.searches == len(each.steps)
        for call in each.sampled_calls:
            assert (call.component, call.version) == (None, str(material / "backbone"))
            assert call.sample is None and call.messages and call.input_ids is None
    assert len({each.sampled_calls[0].text for each in made}) == 2
    again = rollout(run, "again", *given, "--concurrency", 1, "--max-batch-size", 1)
    assert list(map(decided, again)) == list(map(decided, made))


def test_a_loop_without_components_draws_from_the_backbone_unasked(run: Run) -> None:
    given = ("--loop", "single", "--limit", 1, "--group", 1)
    [made] = rollout(run, "out", *given)
    assert [call.component for call in made.sampled_calls] == [None]


def test_plans_that_are_held_to_their_grammar(run: Run) -> None:
    made = rollout(run, "out", "--constrain", "--limit", 1, "--max-rounds", 2)
    plans = [c for each in made for c in each.sampled_calls if c.constraint is not None]
    assert plans and {c.constraint[0] for c in plans if c.constraint} == {"regex"}
    for call in plans:
        assert isinstance(call.sample, RasSample) and call.sample.task == "plan"
        assert call.malformed == 0 or call.finish_reason == "length"
        assert call.logprobs is not None and all(value <= 0 for value in call.logprobs)


def test_components_of_two_versions_are_not_mixed(
    run: Run, refused: Refused, material: Path, tmp_path: Path
) -> None:
    rollout(run, "out", "--limit", 1)
    path = Path("out/trajectories.jsonl")
    lines = path.read_text().splitlines()
    assert "holds a rollout: go on with --resume" in refused("--limit", 1)
    assert "begun with seed = 0, and 1 is given" in refused("--limit", 1, "--resume", "--seed", 1)
    other = ras_component(tmp_path / "other", material / "backbone", stirred=0.5)
    assert "was begun with ras = " in refused("--limit", 1, "--resume", "--ras", other)
    row = json.loads(lines[1])
    row["calls"][-1]["version"] = "another"
    path.write_text(f"{lines[0]}\n{json.dumps(row)}\n")
    message = refused("--limit", 1, "--resume")
    assert "trajectories.jsonl:2: ras was 'another'" in message
    path.write_text(f"{lines[0]}\n{lines[0].replace('Film0', 'Film9')}\n")
    assert "trajectories.jsonl:2: field 'number': 0 of 'q0' is there twice" in refused(
        "--limit", 1, "--resume"
    )


def test_what_is_checked_before_any_work(material: Path) -> None:
    task = Rollout(
        ReadingOptions(), material / "q", None, material / "o", weights=RewardWeights(gain=1)
    )
    with pytest.raises(RolloutError, match="--baseline"):
        check(task)
    early = replace(task, options=ReadingOptions(speculate_answer=True), weights=RewardWeights())
    with pytest.raises(RolloutError, match="leave out --speculate-answer"):
        check(early)


@pytest.mark.parametrize(("group", "concurrency"), [(2, 3), (2, 4), (4, 2)])
def test_a_questions_trajectories_begin_together(group: int, concurrency: int) -> None:
    running: list[str] = []
    waves: list[list[str]] = []

    class Loop:
        async def answer(self, record: QuestionRecord, trace: SearchCountingTrace) -> None:
            running.append(record.id)
            waves.append([*running])
            # The first of a question is done long before the others.
            for _ in range(len(waves) % group * 5):
                await asyncio.sleep(0)
            running.remove(record.id)

    records = [QuestionRecord(f"q{n}", "Who?", "x") for n in range(6)]
    jobs = [(record, number) for record in records for number in range(group)]
    judge = Judge(0, 1.0, RewardWeights(), {})
    made: list[Trajectory] = []
    failed = asyncio.run(roll_out(Loop(), jobs, judge, concurrency, made.append))  # type: ignore[arg-type]
    assert not failed
    assert {each.key for each in made} == {(record.id, number) for record, number in jobs}
    assert max(map(len, waves)) <= concurrency
    # A question begins only once all of another is done.
    assert max(len(set(wave)) for wave in waves) == max(1, concurrency // group)
