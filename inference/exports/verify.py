"""Whether an export computes what its component does: loaded by plain libraries, same tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import PeftModel
from safetensors.torch import load_file
from torch import Tensor, nn

from inference.components import Component
from inference.engines.contract import Request
from inference.engines.graph_inputs import collate_requests, to_subgraphs
from inference.exports.prefix import PEFT_FOLDER, PREFIX_FILE
from inference.exports.sample_requests import sample_requests
from inference.exports.targets import Target
from models.backbone import load_backbone, load_tokenizer
from models.condition_extractor import COMPONENT as TRI_RAG
from models.condition_extractor import ConditionExtractor
from models.graph import GraphBatch
from models.graph_llm import COMPONENT as RAS
from models.graph_llm import GraphLLM, load_graph_encoder
from models.instruction_tuned import COMPONENT as HELPER
from models.instruction_tuned import InstructionTuned
from models.lora import ADAPTER_WEIGHTS
from models.prefix_tuning import PROMPT_EMBEDDINGS
from models.sentence_encoder import load_sentence_encoder
from models.text_table import TextFeatures
from models.text_to_triples import TextToTriples

NEW_TOKENS = 32
Source = GraphLLM | TextToTriples | ConditionExtractor | InstructionTuned
Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Verified:
    """On how many sample prompts an export gave what its component gives."""

    prompts: int
    equal: int


@torch.inference_mode()
def verify_export(component: Component, target: Target, out: Path) -> Verified:
    """Load an export and its component in float32 and compare them on sample prompts.

    The greedy tokens are compared; of a graph encoder the graph tokens; of a prefix also the
    numbers of its two files.
    """
    source = _source(component)
    requests = sample_requests(component)
    if target == "graph":
        assert isinstance(source, GraphLLM)
        return _compare_encoders(source, requests, out)
    if target == "prefix" and not _same_numbers(out):
        return Verified(len(requests), 0)
    pad = int(
        load_tokenizer(component.backbone, component.config["backbone_revision"]).pad_token_id
    )
    whole = source if isinstance(source, ConditionExtractor) else source.backbone
    written = _written(component, target, out)
    equal = sum(
        torch.equal(_greedy(whole, inputs, pad), _greedy(written, inputs, pad))
        for inputs in _inputs(source, requests)
    )
    return Verified(len(requests), equal)


def _source(component: Component) -> Source:
    kinds: dict[str, type[Source]] = {
        RAS: GraphLLM,
        TRI_RAG: ConditionExtractor,
        HELPER: InstructionTuned,
    }
    kind = kinds.get(component.config["component"], TextToTriples)
    return kind.from_pretrained(component.folder, dtype="float32")


def _written(component: Component, target: Target, out: Path) -> nn.Module:
    """An export as transformers or PEFT alone load it."""
    if target == "hf":
        return load_backbone(str(out), "float32").eval()
    backbone = load_backbone(component.backbone, "float32", component.config["backbone_revision"])
    folder = out / PEFT_FOLDER if target == "prefix" else out
    return PeftModel.from_pretrained(backbone, str(folder)).eval()


def _inputs(source: Source, requests: Sequence[Request]) -> list[Inputs]:
    """What `generate` is given each time: ids, or embeddings with the graph token in its place."""
    inputs: list[Inputs] = []
    features = _features(source) if isinstance(source, GraphLLM) else None
    for request in requests:
        input_ids = torch.tensor([request.input_ids])
        mask = torch.ones_like(input_ids)
        if isinstance(source, GraphLLM):
            graph = _graph([request], features) if features is not None else None
            embeddings = source.embed_inputs(input_ids, mask, graph)
            inputs.append({"inputs_embeds": embeddings, "attention_mask": mask})
        else:
            inputs.append({"input_ids": input_ids, "attention_mask": mask})
    return inputs


def _features(source: GraphLLM) -> TextFeatures | None:
    if source.graph_encoder is None:
        return None
    return TextFeatures(load_sentence_encoder(source.settings.encoder))


def _graph(requests: Sequence[Request], features: TextFeatures) -> GraphBatch:
    return collate_requests([to_subgraphs(request.subgraphs) for request in requests], features)


def _greedy(model: nn.Module, inputs: Inputs, pad_token_id: int) -> Tensor:
    generate: Callable[..., Tensor] = model.generate  # type: ignore[assignment]
    return generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=pad_token_id)


def _compare_encoders(source: GraphLLM, requests: Sequence[Request], out: Path) -> Verified:
    written = load_graph_encoder(out, source.settings)
    features = _features(source)
    assert written is not None and source.graph_encoder is not None and features is not None
    graph = _graph(requests, features)
    same = (written(graph) == source.graph_encoder(graph)).all(dim=-1)
    return Verified(len(requests), int(same.sum()))


def _same_numbers(out: Path) -> bool:
    """Whether a prefix's two files hold the same keys and values."""
    layers = load_file(out / PREFIX_FILE)
    columns = [layers[f"{kind}.{layer}"] for layer in range(len(layers) // 2) for kind in "kv"]
    whole = load_file(out / PEFT_FOLDER / ADAPTER_WEIGHTS)[PROMPT_EMBEDDINGS]
    return torch.equal(torch.stack(columns, dim=1).reshape(whole.shape), whole)
