"""Helpers as loops ask them: the ids of training, several beside each other on one backbone."""

from pathlib import Path

import pytest
import torch

from inference.engines.contract import Request, Sampling
from inference.engines.transformers.engine import TransformersEngine
from inference.opening.components import Component, helper_requests, open_helper
from models.files.checkpoint import BackboneMismatchError, CheckpointError
from models.formats.helpers import SubqueryInput, decompose_prompt, subquery_writer_prompt
from models.helper import Helper, HelperConfig
from models.processors.passages import InstructionProcessor
from tests.components import helper_component, stirred_backbone, t2t_component
from tests.tiny import tiny_backbone, tiny_tokenizer

QUESTIONS = [f"Who directed Film {number}?" for number in range(5)]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stirred_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def helpers(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("helpers")
    scales = {"decompose": 0.3, "subquery": 0.6}
    return {
        task: helper_component(folder / task, backbone, task, scale)
        for task, scale in scales.items()
    }


def test_a_request_has_the_ids_of_training(helpers: dict[str, Path]) -> None:
    make_request = helper_requests(Component.open(helpers["subquery"], "helper"), "subquery")
    prompt = subquery_writer_prompt(
        SubqueryInput("Who?", "Dawn", "Dawn is a film. " * 40, ("When?",))
    )
    request = make_request(prompt)
    processor = InstructionProcessor(tiny_tokenizer(), 300, 20)
    assert request.input_ids == tuple(processor.encode_prompt(prompt).input_ids)
    assert len(request.input_ids) <= 300
    assert (request.adapter, request.sampling) == ("subquery", Sampling(max_new_tokens=20))


async def test_a_helper_for_several_tasks_is_loaded_once_and_asked_under_each(
    backbone: Path, tmp_path: Path
) -> None:
    both, tasks = tmp_path / "both", ("decompose", "subquery")
    settings = HelperConfig(str(backbone), tasks=tasks, lora_rank=4, max_output_tokens=20)
    Helper.from_config(settings).save_pretrained(both)
    adapters = dict.fromkeys(tasks, both)
    engine = TransformersEngine(str(backbone), adapters, dtype="float32", device="cpu")
    prompt = decompose_prompt(QUESTIONS[0])
    asked = [helper_requests(open_helper(both, task), task)(prompt) for task in settings.tasks]
    first, second = await engine.generate(asked)
    assert [request.adapter for request in asked] == ["decompose", "subquery"]
    assert first.token_ids == second.token_ids
    loaded = {engine.served.by_name[task].adapter for task in tasks}
    assert loaded == {"component_0"}
    await engine.close()


@pytest.mark.parametrize("merge_adapters", [False, True])
async def test_helpers_run_beside_each_other(
    backbone: Path, helpers: dict[str, Path], merge_adapters: bool
) -> None:
    engine = TransformersEngine(
        str(backbone), helpers, dtype="float32", device="cpu", merge_adapters=merge_adapters
    )
    makers = {task: helper_requests(Component.open(path), task) for task, path in helpers.items()}
    requests = [make(decompose_prompt(q)) for q in QUESTIONS for make in makers.values()]
    served = await engine.generate(requests)
    for task in helpers:
        module = Helper.from_pretrained(helpers[task], dtype="float32")
        for request, completion in zip(requests, served, strict=True):
            if request.adapter == task:
                ids = torch.tensor([request.input_ids])
                output = module.generate(ids, torch.ones_like(ids), max_new_tokens=20)
                text = tiny_tokenizer().decode(output[0, ids.shape[1] :], skip_special_tokens=True)
                assert completion.text.strip() == text.strip()
    texts = {task: [c.text for r, c in zip(requests, served, strict=True) if r.adapter == task]
             for task in helpers}  # fmt: skip
    assert texts["decompose"] != texts["subquery"]
    by_text = Request(prompt=decompose_prompt(QUESTIONS[0]), adapter="decompose",
                      sampling=Sampling(20))  # fmt: skip
    assert (await engine.generate([by_text]))[0].text == served[0].text
    await engine.close()


def test_a_helper_of_another_backbone_is_refused(helpers: dict[str, Path], tmp_path: Path) -> None:
    other = tiny_backbone(tmp_path / "other", hidden_size=32)
    with pytest.raises(BackboneMismatchError, match="was trained on"):
        TransformersEngine(str(other), helpers, dtype="float32", device="cpu")


def test_what_is_no_helper_is_refused(backbone: Path, tmp_path: Path) -> None:
    folder = t2t_component(tmp_path / "t2t", backbone)
    with pytest.raises(CheckpointError, match="'helper' is needed"):
        Component.open(folder, "helper")
