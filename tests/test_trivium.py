"""The `trivium` command: every command is listed and runs; the doctor says what to mend."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from common.provenance import PACKAGES
from models.files.backbone import CONVERTED_BYTES
from models.files.checkpoint import verify_component
from tests.processes import ROOT, fresh
from trivium import commands, doctor, main, page
from trivium.rooms import WITH_COMMANDS, modules, room


def test_every_command_is_listed_once_under_a_name_of_its_own() -> None:
    listed = [module for group in commands.PURPOSES.values() for module in group]
    there = {name for name, path in modules().items() if room(path) in WITH_COMMANDS}
    assert sorted(listed) == sorted(
        [*there, "evaluation.compare", "trivium.doctor", "trivium.rooms", "trivium.page"]
    )
    assert len(commands.commands()) == len(listed)
    assert all(commands.summary(module) for module in listed)


def test_the_list_names_them_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["trivium"])
    main.main()
    words = capsys.readouterr().out.split()
    assert set(commands.commands()) <= set(words)


def test_an_unknown_name_gets_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["trivium", "evalute"])
    with pytest.raises(SystemExit, match=r"no command 'evalute'. The nearest: evaluate, "):
        main.main()
    assert commands.find_command("train_ras") == commands.find_command("train-ras")


def test_a_command_runs_under_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["trivium", "compare", "--help"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: trivium compare")


def test_completion_in_bash_offers_names() -> None:
    asked = 'COMP_WORDS=(trivium evalu); COMP_CWORD=1; _trivium; echo "${COMPREPLY[@]}"'
    script = main.completion("bash") + asked
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["evaluate", "evaluate-all"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_completion_in_zsh_is_a_script() -> None:
    script = main.completion("zsh")
    subprocess.run(["zsh", "-n", "-c", script], capture_output=True, check=True)


def test_the_doctor_finds_this_machine_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["trivium doctor", "--json"])
    doctor.main()
    findings = json.loads(capsys.readouterr().out.splitlines()[-1])["findings"]
    by_name = {finding["what"]: finding for finding in findings}
    assert "wrong" not in {finding["level"] for finding in findings}
    assert by_name["torch"]["found"] == torch.__version__
    assert by_name["ras_smollm2"]["found"] == "whole"


def test_the_doctor_names_what_is_wrong_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRIVIUM_CACHE", str(tmp_path / "file" / "cache"))
    found = doctor.cache()
    assert found.level == "wrong" and "TRIVIUM_CACHE" in found.remedy
    broken = tmp_path / "checkpoints" / "helper_smollm2"
    shutil.copytree(ROOT / "checkpoints" / "helper_smollm2", broken)
    verify_component(broken)
    with (broken / "config.json").open("a") as config:
        config.write(" ")
    [found] = doctor.components(tmp_path / "checkpoints")
    assert found.level == "wrong" and found.remedy.startswith("git checkout")
    [found] = doctor.components(tmp_path / "nowhere")
    assert found.level == "hint"
    monkeypatch.setattr(doctor, "TORCH", "1.0.0")
    assert "torch" in {f.what for f in doctor.packages() if f.level == "wrong"}


# What a command imports once it loads a model or trains, which takes seconds.
HEAVY = (
    *("accelerate", "datasets", "peft", "sentence_transformers", "torch_geometric"),
    *("transformers.modeling_utils", "transformers.models.llama", "transformers.trainer"),
)
# Goes to each command's own parser, as --help does, and prints what was imported, by who was first.
LOOKED_AT = """
import json, sys
from trivium.commands import PURPOSES
from trivium.page import parser_of
brought = {}
for module in (module for modules in PURPOSES.values() for module in modules):
    parser_of(module)
    for name in sys.argv[1:]:
        if any(loaded == name or loaded.startswith(f"{name}.") for loaded in list(sys.modules)):
            brought.setdefault(name, module)
print(json.dumps(brought))
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_help_of_no_command_imports_what_models_and_trainings_need() -> None:
    done = fresh("-c", LOOKED_AT, *HEAVY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


@pytest.mark.slow
def test_the_page_of_commands_is_of_today() -> None:
    text = page.page()
    assert page.PAGE.read_text(encoding="utf-8") == text, "run `trivium commands --write`"
    assert all(f"\n### {name}\n" in text for name in commands.commands())


def test_the_doctor_says_that_torch_is_missing() -> None:
    program = """
import sys
sys.modules["torch"] = None
from trivium import doctor
sys.argv = ["trivium doctor", "--json"]
doctor.main()
"""
    done = fresh("-c", program)
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout.splitlines()[-1])["findings"]
    by_name = {finding["what"]: finding for finding in findings}
    assert by_name["torch"]["found"] == "not installed" and by_name["torch"]["level"] == "wrong"
    assert by_name["torch"]["remedy"].startswith("pip install torch==")
    assert (
        by_name["native dtype"]["level"] == "wrong" and by_name["ras_smollm2"]["found"] == "whole"
    )


def test_the_doctor_knows_the_size_of_the_backbone() -> None:
    assert doctor.BACKBONE_BYTES == CONVERTED_BYTES
    assert set(doctor.NEEDED) <= set(PACKAGES)


@pytest.mark.slow
def test_as_a_process_a_wrong_machine_ends_with_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "TRIVIUM_CACHE": str(tmp_path / "file" / "cache")}
    done = fresh("-m", "trivium.main", "doctor", env=environment)
    assert done.returncode == 1 and "cache: set TRIVIUM_CACHE to a folder" in done.stdout
