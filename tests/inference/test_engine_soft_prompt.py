"""Soft prompts in the transformers engine: the module's own tokens, in any company."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from inference.engines.contract import PromptTooLongError, Request, Sampling
from inference.engines.transformers.engine import TransformersEngine
from inference.exports.targets import write_merged
from models.condition_extractor import ConditionExtractor
from models.files.checkpoint import BackboneMismatchError, read_component_config
from tests.components import stirred_backbone, t2t_component, tri_rag_component
from tests.tiny import tiny_llama, tiny_tokenizer

TEXTS = ["Ada is 3.", "Ben lives in Rome. " * 9, "", "It rained on the coast. " * 3]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stirred_backbone(tmp_path_factory.mktemp("tiny"))


def own_tokens(folder: Path, text: str, count: int) -> list[int]:
    """What the module that was trained generates for one passage."""
    module = ConditionExtractor.from_pretrained(folder)
    prompt = module.settings.processor(tiny_tokenizer()).encode_prompt(text).input_ids
    input_ids = torch.tensor([prompt])
    output = module.generate(
        input_ids, torch.ones_like(input_ids), max_new_tokens=count, do_sample=False
    )
    return [int(token) for token in output[0, len(prompt) :]]


@pytest.mark.parametrize("merge_adapters", [False, True])
@pytest.mark.parametrize("adaptation", ["soft_prompt", "prefix_tuning", "lora", "pretrained"])
async def test_tokens_are_the_modules_own_in_any_company(
    adaptation: str, merge_adapters: bool, backbone: Path, tmp_path: Path
) -> None:
    extractor = tri_rag_component(tmp_path / "tri_rag", backbone, adaptation)
    other = tri_rag_component(tmp_path / "other", backbone, "soft_prompt")
    t2t = t2t_component(tmp_path / "t2t", backbone, stirred=0.3)
    adapters = {"t2t": t2t, "tri_rag": extractor, "other": other}
    engine = TransformersEngine(
        str(backbone), adapters, dtype="float32", device="cpu", merge_adapters=merge_adapters
    )
    processor = engine.processor("tri_rag")
    requests = []
    for text in TEXTS:
        ids = tuple(processor.encode_prompt(text).input_ids)  # type: ignore[call-arg,arg-type]
        for adapter in ("tri_rag", None, "other", "t2t"):
            requests.append(Request(input_ids=ids, adapter=adapter, sampling=Sampling(16)))
    together = await engine.generate(requests)
    alone = [(await engine.generate([request]))[0] for request in requests]
    assert [done.token_ids for done in together] == [done.token_ids for done in alone]
    for number, text in enumerate(TEXTS):
        ours, plain = together[4 * number], together[4 * number + 1]
        assert list(ours.token_ids) == own_tokens(extractor, text, 16)
        assert (ours.token_ids == plain.token_ids) == (adaptation == "pretrained")
    await engine.close()


async def test_a_prompt_in_front_of_an_adapter_is_made_with_the_adapter_on(
    backbone: Path, tmp_path: Path
) -> None:
    """Against the same prompt trained on the model with the adapter in its weights."""
    t2t = t2t_component(tmp_path / "t2t", backbone, stirred=0.3)
    prompt = tri_rag_component(tmp_path / "prompt", backbone)
    whole = tmp_path / backbone.name
    write_merged(t2t, read_component_config(t2t), whole, "float32")
    copied = tmp_path / "copied"
    shutil.copytree(prompt, copied)
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "backbone": str(whole)}))
    (copied / "manifest.json").unlink()
    texts = [f"{text} And so on." for text in TEXTS]
    expected = [own_tokens(copied, text, 16) for text in texts]
    for merge_adapters in (False, True):
        engine = TransformersEngine(
            str(backbone), {"t2t": t2t, "prompt": prompt}, "float32", "cpu",
            merge_adapters=merge_adapters,
        )  # fmt: skip
        processor = engine.processor("prompt")
        requests = [
            Request(
                input_ids=tuple(processor.encode_prompt(text).input_ids),
                adapter="t2t",
                soft_prompt="prompt",
                sampling=Sampling(16),
            )
            for text in texts
        ]
        done = await engine.generate(requests)
        assert [list(one.token_ids) for one in done] == expected
        await engine.close()


async def test_a_prompt_takes_its_share_of_the_context(backbone: Path, tmp_path: Path) -> None:
    folder = tri_rag_component(tmp_path / "tri_rag", backbone)
    engine = TransformersEngine(str(backbone), {"tri_rag": folder}, device="cpu")
    ids = tuple([5] * 4080)
    await engine.generate([Request(input_ids=ids, sampling=Sampling(16))])
    with pytest.raises(PromptTooLongError, match="holds 4091"):
        await engine.generate([Request(input_ids=ids, adapter="tri_rag", sampling=Sampling(16))])
    await engine.close()


def test_a_prompt_of_another_backbone_is_refused(backbone: Path, tmp_path: Path) -> None:
    folder = tri_rag_component(tmp_path / "tri_rag", backbone)
    other = tmp_path / "other"
    tiny_llama(hidden_size=32).save_pretrained(other)
    tiny_tokenizer().save_pretrained(other)
    with pytest.raises(BackboneMismatchError, match=f"{backbone.name}.*other"):
        TransformersEngine(str(other), {"tri_rag": folder}, device="cpu")
    with pytest.raises(BackboneMismatchError, match=f"{backbone.name}.*other"):
        ConditionExtractor.from_pretrained(folder, backbone=str(other))
