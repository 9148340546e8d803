"""Checkpoint folders as what loops need of them: requests made as in training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from inference.engines.contract import Request, Sampling
from inference.extraction import RequestMaker
from inference.loops.graph_reader import InputMaker, ReaderInput
from inference.retrieval.passages import Passage
from models.backbone import load_tokenizer
from models.checkpoint import (
    NotACheckpointError,
    component_fingerprint,
    read_component_config,
)
from models.condition_extractor_config import ConditionExtractorConfig
from models.condition_processor import ConditionProcessor
from models.formats.history import History
from models.formats.prompts import passage_text
from models.formats.records import HelperTask, Task
from models.instruction_tuned import InstructionTunedConfig
from models.passage_processor import PassageProcessor
from models.ras_processor import RasProcessor
from models.text_to_triples_processor import TextToTriplesProcessor

RAS_ADAPTER = "ras"
T2T_ADAPTER = "t2t"
EXTRACTOR_ADAPTER = "tri_rag"
SHIPPED = Path(__file__).resolve().parent.parent / "checkpoints"
DEFAULT_CHECKPOINTS = {
    RAS_ADAPTER: SHIPPED / "ras_smollm2",
    T2T_ADAPTER: SHIPPED / "t2t_smollm2",
    EXTRACTOR_ADAPTER: SHIPPED / "tri_rag_smollm2",
}


@dataclass(frozen=True)
class Component:
    """One checkpoint folder: its configuration and a fingerprint of its files."""

    folder: Path
    config: Mapping[str, Any]
    fingerprint: str

    @classmethod
    def open(cls, folder: str | Path, kind: str | None = None) -> "Component":
        """Read a folder of `kind` (ras, t2t, tri_rag, helper; None: any).

        Raises CheckpointError with the reason.
        """
        folder = Path(folder)
        return cls(folder, read_component_config(folder, kind), component_fingerprint(folder))

    @property
    def backbone(self) -> str:
        """Name of the backbone that the component was trained on."""
        return str(self.config["backbone"])


def open_helper(folder: Path, task: HelperTask) -> Component:
    """Read the folder of a helper that was trained for `task`.

    Raises CheckpointError where it is none, or was trained for another task.
    """
    component = Component.open(folder, "helper")
    if component.config["task"] != task:
        raise NotACheckpointError(
            f"{folder} is a helper for the task '{component.config['task']}', and '{task}' is "
            "needed here. Give the folder of a helper that was trained for it."
        )
    return component


def triples_requests(component: Component) -> RequestMaker:
    """Requests to a text-to-triples component, with the prompt of its training."""
    config = component.config
    processor = TextToTriplesProcessor(
        _tokenizer(component),
        config["max_source_tokens"],
        config["max_target_tokens"],
        bool(config["is_encoder_decoder"]),
    )
    return _passage_requests(processor, T2T_ADAPTER)


def conditions_requests(component: Component) -> RequestMaker:
    """Requests to a condition extractor, with the prompt of its training."""
    settings = ConditionExtractorConfig.from_dict(component.config)
    processor = ConditionProcessor(_tokenizer(component), settings)
    return _passage_requests(processor, EXTRACTOR_ADAPTER)


def helper_requests(component: Component) -> Callable[[str], Request]:
    """Requests to a helper, for prompts as its format in models/formats/ makes them.

    The adapter's name is the helper's task, under which an engine is to serve it.
    """
    settings = InstructionTunedConfig.from_dict(component.config)
    processor = settings.processor(_tokenizer(component))
    sampling = Sampling(max_new_tokens=settings.max_output_tokens)

    def make_request(prompt: str) -> Request:
        input_ids = tuple(processor.encode_prompt(prompt).input_ids)
        return Request(input_ids=input_ids, adapter=settings.task, sampling=sampling)

    return make_request


def _passage_requests(processor: PassageProcessor[Any], adapter: str) -> RequestMaker:
    sampling = Sampling(max_new_tokens=processor.max_target_tokens)

    def make_request(passage: Passage) -> Request:
        prompt = processor.encode_prompt(passage_text(passage.title, passage.text))
        return Request(input_ids=tuple(prompt.input_ids), adapter=adapter, sampling=sampling)

    return make_request


def _tokenizer(component: Component) -> PreTrainedTokenizerBase:
    return load_tokenizer(component.backbone, component.config.get("backbone_revision"))


def reader_inputs(component: Component) -> InputMaker:
    """Requests to a RAS component: ids and graphs from the processor of its training."""
    config = component.config
    has_graph = config.get("graph") is not None
    processor = RasProcessor(
        _tokenizer(component),
        config["max_input_tokens"],
        config["max_output_tokens"],
        graph_token=has_graph,
        compare_dates=config["compare_dates"],
    )

    def make_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
        prompt = processor.encode_prompt(task, history)
        request = Request(
            input_ids=tuple(prompt.input_ids),
            adapter=RAS_ADAPTER,
            subgraphs=tuple(prompt.subgraphs) if has_graph else None,
            sampling=sampling,
        )
        too_long = len(prompt.input_ids) > processor.max_input_tokens
        return ReaderInput(request, prompt.cut_triples, prompt.cut_steps, too_long)

    return make_input
