"""The exports of a component: what each needs and holds, and a check that it computes the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors
from torch import Tensor, nn

from common.errors import UserError
from inference.engines.component_loader import layer_tensors, prefix_states
from inference.engines.contract import Request, Sampling
from inference.engines.served import collate_requests, to_subgraphs
from inference.opening.components import (
    Component,
    conditions_requests,
    helper_requests,
    reader_inputs,
    triples_requests,
)
from inference.retrieval.passages import Passage
from models.condition_extractor import COMPONENT as TRI_RAG
from models.condition_extractor import Adaptation, ConditionExtractor
from models.files.backbone import DTYPES, backbone_id, load_backbone, load_tokenizer
from models.files.checkpoint import CONFIG_FILE, FORMAT_VERSION, check_backbone, write_json
from models.files.sentence_encoder import load_sentence_encoder
from models.files.text_table import TextFeatures
from models.formats.helpers import decompose_prompt
from models.formats.planning import History, HistoryStep
from models.formats.records import Task
from models.formats.triples import Triple
from models.graph_llm import COMPONENT as RAS
from models.graph_llm import GRAPH_ENCODER_FILE, GraphLLM, GraphLLMConfig, load_graph_encoder
from models.helper import COMPONENT as HELPER
from models.helper import Helper, HelperConfig
from models.parts.adapters import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from models.parts.graph import GraphBatch
from models.parts.prefix_tuning import PROMPT_EMBEDDINGS, save_prefix
from models.text_to_triples import MODEL_FOLDER, TextToTriples

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Target = Literal["hf", "peft", "prefix", "graph"]
TARGETS: tuple[Target, ...] = ("hf", "peft", "prefix", "graph")
NEEDS: dict[Target, str] = {
    "hf": "weights of a language model, merged",
    "peft": "a LoRA adapter",
    "prefix": "a prompt in every layer",
    "graph": "a graph encoder",
}
PASSAGES = (
    Passage("1", "Ada Brandt", "Ada Brandt (3 May 1921 - 1990) was a Danish film director."),
    Passage("2", "The Long Pier", "The Long Pier is a 1954 drama directed by Ada Brandt."),
    Passage("3", "Odense", "Odense is the third largest city of Denmark. It lies on Funen."),
)
QUESTION = "When was the director of The Long Pier born?"
STEPS = (
    HistoryStep(QUESTION, (Triple("The Long Pier", "director", "Ada Brandt"),)),
    HistoryStep("Ada Brandt date of birth", (Triple("Ada Brandt", "born", "3 May 1921"),)),
)
NEW_TOKENS = 32
Source = GraphLLM | TextToTriples | ConditionExtractor | Helper
Inputs = dict[str, Tensor]
COMPONENT = "graph_encoder"
PREFIX_FILE = "prefix.safetensors"
PEFT_FOLDER = "peft"
# What `load_graph_encoder` and whoever places the graph token must know.
KEPT = (
    *("graph", "encoder", "graph_position", "compare_dates", "instructions"),
    *("backbone", "backbone_id"),
)


class ExportError(UserError, RuntimeError):
    """A component cannot be exported as asked, or what was written differs from it."""


def write_graph_encoder(folder: Path, config: Mapping[str, Any], out: Path) -> None:
    """Write `graph_encoder.safetensors` and a `config.json` with its sizes and sentence encoder."""
    shutil.copyfile(folder / GRAPH_ENCODER_FILE, out / GRAPH_ENCODER_FILE)
    kept = {name: config[name] for name in KEPT if name in config}
    settings = {"component": COMPONENT, "format_version": FORMAT_VERSION, **kept}
    write_json(out / CONFIG_FILE, settings)


def write_merged(folder: Path, config: Mapping[str, Any], out: Path, dtype: str) -> None:
    """Write the whole language model, adapters added into its weights, and its tokenizer, which
    puts BOS in front by itself: components were trained with it, and servers take a text as it is.

    dtype: of the written weights; "auto" is the backbone's own. The sum is made in float32.

    Raises:
        BackboneMismatchError: the backbone's name now means another model.
    """
    if config["lora_rank"] == 0:
        model, tokenizer = _load(str(folder / MODEL_FOLDER), None)
        stored = model.dtype
    else:
        model, tokenizer = _load(config["backbone"], config["backbone_revision"])
        check_backbone(config, backbone_id(model), folder)
        stored = model.dtype
        from peft import PeftModel

        adapted = PeftModel.from_pretrained(model.float(), str(folder))
        model = adapted.merge_and_unload()  # type: ignore[operator]
    model.to(DTYPES.get(dtype, stored)).save_pretrained(out)  # type: ignore[arg-type]
    if not model.config.is_encoder_decoder:
        _add_bos_by_itself(tokenizer)
    tokenizer.save_pretrained(out)


def _add_bos_by_itself(tokenizer: PreTrainedTokenizerBase) -> None:
    bos, bos_id = tokenizer.bos_token, tokenizer.bos_token_id
    if bos_id is None or tokenizer("a")["input_ids"][0] == bos_id:
        return
    backend: Any = tokenizer.backend_tokenizer  # type: ignore[attr-defined]
    first = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, bos_id)]
    )
    kept = [backend.post_processor] if backend.post_processor else []
    backend.post_processor = processors.Sequence([*kept, first])


def _load(name: str, revision: str | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return load_backbone(name, "auto", revision), load_tokenizer(name, revision)


def write_prefix(folder: Path, config: Mapping[str, Any], out: Path) -> None:
    """Write `prefix.safetensors` (per layer l: `k.l` and `v.l`, [n, key heads, head size], float32)
    and the folder `peft`, which `PeftModel.from_pretrained` reads.

    Raises as `prefix_states`.
    """
    whole = prefix_states(folder, config)
    save_file(layer_tensors(whole), out / PREFIX_FILE, metadata={"format": "pt"})
    (out / PEFT_FOLDER).mkdir()
    save_prefix(whole, str(config["backbone"]), out / PEFT_FOLDER)


def write_adapter(folder: Path, out: Path) -> None:
    """Write the LoRA adapter alone, as PEFT and vLLM load it."""
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        shutil.copyfile(folder / name, out / name)


def targets_of(folder: Path, config: Mapping[str, Any]) -> tuple[Target, ...]:
    """Return the targets that a component's configuration allows."""
    if config["component"] == TRI_RAG and config["adaptation"] != Adaptation.lora:
        return () if config["adaptation"] == Adaptation.pretrained else ("prefix",)
    if config["component"] == RAS and GraphLLMConfig.from_dict(config, folder).graph is not None:
        return ("hf", "peft", "graph")
    return ("hf", "peft") if config["lora_rank"] > 0 else ("hf",)


def check_target(folder: Path, config: Mapping[str, Any], target: Target) -> None:
    """Refuse a target that the component has nothing for.

    Raises:
        ExportError: naming what the target needs and what can be had instead.
    """
    possible = targets_of(folder, config)
    if target not in possible:
        instead = f"export it to {' or '.join(possible)}" if possible else "it learned nothing"
        raise ExportError(
            f"{folder} holds the component '{config['component']}', which has not {NEEDS[target]}: "
            f"{target} is not possible; {instead}"
        )


def check_out(out: Path, marker: str) -> None:
    """Refuse a folder that holds something else; an earlier export is replaced.

    marker: the file that an export has.

    Raises:
        ExportError: naming the folder.
    """
    if out.exists() and not (out.is_dir() and ((out / marker).is_file() or not any(out.iterdir()))):
        raise ExportError(f"{out} exists and is no export: name a new folder")


def sample_requests(component: Component) -> list[Request]:
    """Return requests: passages, questions for a helper, plans and answers for RAS."""
    if component.config["component"] == HELPER:
        ask = helper_requests(component, HelperConfig.read(component.folder).tasks[0])
        return [ask(decompose_prompt(text)) for text in (QUESTION, *(p.text for p in PASSAGES))]
    if component.config["component"] != RAS:
        is_tri_rag = component.config["component"] == TRI_RAG
        make = conditions_requests(component) if is_tri_rag else triples_requests(component)
        return [make(passage) for passage in PASSAGES]
    read = reader_inputs(component)
    tasks: tuple[Task, ...] = ("plan", "answer")
    histories = [History(QUESTION, STEPS[:length]) for length in range(len(STEPS) + 1)]
    return [read(task, history, Sampling()).request for task in tasks for history in histories]


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
        HELPER: Helper,
    }
    kind = kinds.get(component.config["component"], TextToTriples)
    return kind.from_pretrained(component.folder, dtype="float32")


def _written(component: Component, target: Target, out: Path) -> nn.Module:
    """Return an export as transformers or PEFT alone load it."""
    from peft import PeftModel

    if target == "hf":
        return load_backbone(str(out), "float32").eval()
    backbone = load_backbone(component.backbone, "float32", component.config["backbone_revision"])
    folder = out / PEFT_FOLDER if target == "prefix" else out
    return PeftModel.from_pretrained(backbone, str(folder)).eval()


def _inputs(source: Source, requests: Sequence[Request]) -> list[Inputs]:
    """Return the inputs of `generate`: ids, or embeddings with the graph token in its place."""
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
    """Return whether a prefix's two files hold the same keys and values."""
    layers = load_file(out / PREFIX_FILE)
    columns = [layers[f"{kind}.{layer}"] for layer in range(len(layers) // 2) for kind in "kv"]
    whole = load_file(out / PEFT_FOLDER / ADAPTER_WEIGHTS)[PROMPT_EMBEDDINGS]
    return torch.equal(torch.stack(columns, dim=1).reshape(whole.shape), whole)
