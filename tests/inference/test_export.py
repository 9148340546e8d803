"""Exports: what each component can become, loaded by plain libraries, refused where it cannot."""

import json
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from inference.export import export, main
from inference.exports.targets import PREFIX_FILE, ExportError, Target, Verified, verify_export
from inference.opening.components import Component, triples_requests
from inference.retrieval.passages import Passage
from models.files.checkpoint import MANIFEST_FILE
from models.formats.prompts import passage_text, triples_prompt
from models.parts.adapters import ADAPTER_WEIGHTS
from tests.components import (
    helper_component,
    ras_component,
    stirred_backbone,
    t2t_component,
    tri_rag_component,
)
from tests.run_main import run_main

CASES: list[tuple[str, Target]] = [
    ("t2t", "hf"),
    ("t2t", "peft"),
    ("ras", "hf"),
    ("ras", "peft"),
    ("ras", "graph"),
    ("soft_prompt", "prefix"),
    ("prefix_tuning", "prefix"),
    ("lora", "hf"),
    ("lora", "peft"),
    ("helper", "hf"),
    ("helper", "peft"),
]


@pytest.fixture(scope="module")
def components(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Component]:
    """One component of each kind on one tiny backbone, every adapter far from zero."""
    folder = tmp_path_factory.mktemp("components")
    backbone = stirred_backbone(folder / "backbone")
    folders = {
        "t2t": t2t_component(folder / "t2t", backbone, stirred=0.5),
        "ras": ras_component(folder / "ras", backbone, stirred=0.5),
        "helper": helper_component(folder / "helper", backbone, stirred=0.5),
    }
    for adaptation in ("soft_prompt", "prefix_tuning", "lora", "pretrained"):
        folders[adaptation] = tri_rag_component(folder / adaptation, backbone, adaptation)
    return {name: Component.open(path) for name, path in folders.items()}


@pytest.mark.parametrize(("name", "target"), CASES)
def test_an_export_gives_the_components_tokens(
    components: dict[str, Component], name: str, target: Target, tmp_path: Path
) -> None:
    export(components[name], target, tmp_path / "out")
    verified = verify_export(components[name], target, tmp_path / "out")
    assert verified.prompts >= 3
    assert verified.equal == verified.prompts


def test_a_merged_models_tokenizer_starts_as_training_did(
    components: dict[str, Component], tmp_path: Path
) -> None:
    """A server gives it the prompt's text alone."""
    export(components["t2t"], "hf", tmp_path / "out")
    passage = Passage("1", "Ada", "Ada is 3.")
    trained = triples_requests(components["t2t"])(passage).input_ids
    text = triples_prompt(passage_text(passage.title, passage.text))
    assert tuple(AutoTokenizer.from_pretrained(tmp_path / "out")(text)["input_ids"]) == trained


def test_verification_notices_other_weights(
    components: dict[str, Component], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(components["t2t"], "peft", out)
    weights = {key: -tensor for key, tensor in load_file(out / ADAPTER_WEIGHTS).items()}
    # A and B both negated would cancel.
    weights |= {key: -tensor for key, tensor in weights.items() if "lora_A" in key}
    save_file(weights, out / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    assert verify_export(components["t2t"], "peft", out) == Verified(3, 0)


def test_verification_notices_that_a_prefixs_files_differ(
    components: dict[str, Component], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(components["soft_prompt"], "prefix", out)
    states = load_file(out / PREFIX_FILE)
    save_file({**states, "k.0": states["k.0"] + 1e-3}, out / PREFIX_FILE)
    assert verify_export(components["soft_prompt"], "prefix", out).equal == 0


def test_a_merged_model_stands_alone(components: dict[str, Component], tmp_path: Path) -> None:
    export(components["t2t"], "hf", tmp_path, dtype="bfloat16")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert model.dtype == torch.bfloat16
    assert not isinstance(model, PeftModel)
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token == "</s>"


def test_the_manifest_says_what_it_was_made_of(
    components: dict[str, Component], tmp_path: Path
) -> None:
    export(components["ras"], "graph", tmp_path)
    manifest = json.loads((tmp_path / MANIFEST_FILE).read_text())
    assert set(manifest["files"]) == {"config.json", "graph_encoder.safetensors"}
    assert manifest["component_fingerprint"] == components["ras"].fingerprint
    assert manifest["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize(
    ("name", "target", "remedy"),
    [
        ("t2t", "prefix", "hf or peft"),
        ("soft_prompt", "hf", "export it to prefix"),
        ("lora", "graph", "hf or peft"),
        ("pretrained", "prefix", "it learned nothing"),
    ],
)
def test_what_a_component_has_not_is_refused(
    components: dict[str, Component], name: str, target: Target, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=remedy):
        export(components[name], target, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_else_is_kept(
    components: dict[str, Component], tmp_path: Path
) -> None:
    (tmp_path / "thesis.tex").write_text("do not lose me")
    with pytest.raises(ExportError, match="is no export"):
        export(components["t2t"], "peft", tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "do not lose me"
    export(components["t2t"], "peft", tmp_path / "new")
    export(components["ras"], "peft", tmp_path / "new")


def test_the_command_verifies_and_reports(
    components: dict[str, Component],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = ["--checkpoint", components["ras"].folder, "--to", "hf", "--out", tmp_path / "out"]
    run_main(monkeypatch, main, *options, "--verify", "--json")
    outcome = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert outcome["prompts_compared"] == outcome["prompts_equal"] == 6
    assert outcome["bytes"] > 0
