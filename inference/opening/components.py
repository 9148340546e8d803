"""Checkpoint folders as what loops need of them: requests made as in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inference.engines.contract import (
    EXTRACTOR_ADAPTER,
    RAS_ADAPTER,
    T2T_ADAPTER,
    Request,
    Sampling,
)
from inference.indexes.extraction import RequestMaker
from inference.loops.model import InputMaker, ReaderInput, chat_request
from inference.retrieval.passages import Passage
from models.condition_extractor import ConditionExtractorConfig
from models.files.backbone import load_tokenizer
from models.files.checkpoint import component_fingerprint, read_component_config
from models.formats.paper_prompts import paper_triples
from models.formats.planning import History
from models.formats.prompts import passage_text, triples_prompt
from models.formats.reading import READING_INSTRUCTION
from models.formats.records import (
    HelperTask,
    InstructionSample,
    RasSample,
    Task,
    TriplesSample,
)
from models.graph_llm import GraphLLMConfig
from models.helper import HelperConfig, read_helper_config
from models.processors.passages import InstructionProcessor, PassageProcessor
from models.text_to_triples import TextToTriplesConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_PROMPTED_TRIPLES_TOKENS = 512
MAX_PROMPTED_READING_TOKENS = 64


@dataclass(frozen=True)
class Component:
    """One checkpoint folder: its configuration and a fingerprint of its files."""

    folder: Path
    config: Mapping[str, Any]
    fingerprint: str

    @classmethod
    def open(cls, folder: str | Path, kind: str | None = None) -> Component:
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
    read_helper_config(folder, task)
    return Component.open(folder)


def triples_requests(component: Component) -> RequestMaker:
    """Return the requests to a text-to-triples component, with the prompt of its training."""
    processor = TextToTriplesConfig.read(component.folder).processor(_tokenizer(component))
    make_request = _passage_requests(processor, T2T_ADAPTER)

    def make_triples_request(passage: Passage) -> Request:
        text = passage_text(passage.title, passage.text)
        return replace(make_request(passage), made_from=TriplesSample(passage.id, text, []))

    return make_triples_request


def prompted_triples_request(passage: Passage) -> Request:
    """Return a request for triples to a model that was not trained for them (after RAS Fig. 19)."""
    prompt = triples_prompt(passage_text(passage.title, passage.text), few_shot=True)
    return chat_request(prompt, MAX_PROMPTED_TRIPLES_TOKENS)


def paper_triples_request(passage: Passage) -> Request:
    """Return the same by the paper's prompt word for word."""
    prompt = paper_triples(passage_text(passage.title, passage.text))
    return chat_request(prompt, MAX_PROMPTED_TRIPLES_TOKENS)


def prompted_reading_request(prompt: str) -> Request:
    """Return a request for what a passage answers, to a model that was not trained for it."""
    return chat_request(f"{READING_INSTRUCTION}\n\n{prompt}", MAX_PROMPTED_READING_TOKENS)


def conditions_requests(component: Component) -> RequestMaker:
    """Return the requests to a condition extractor, with the prompt of its training."""
    processor = ConditionExtractorConfig.read(component.folder).processor(_tokenizer(component))
    return _passage_requests(processor, EXTRACTOR_ADAPTER)


def helper_processor(component: Component) -> InstructionProcessor:
    """Return what turns prompts into a helper's ids, as in its training."""
    return HelperConfig.read(component.folder).processor(_tokenizer(component))


def helper_requests(component: Component, task: HelperTask) -> Callable[[str], Request]:
    """Return the requests to a helper, for prompts as its format in models/formats/ makes them.

    The adapter's name is the task, under which an engine is to serve it.
    """
    settings, processor = HelperConfig.read(component.folder), helper_processor(component)
    sampling = Sampling(max_new_tokens=settings.max_output_tokens)

    def make_request(prompt: str) -> Request:
        input_ids = tuple(processor.encode_prompt(prompt).input_ids)
        made_from = InstructionSample("", task, prompt, "")
        return Request(input_ids=input_ids, adapter=task, sampling=sampling, made_from=made_from)

    return make_request


def _passage_requests(processor: PassageProcessor[Any], adapter: str) -> RequestMaker:
    sampling = Sampling(max_new_tokens=processor.max_output_tokens)

    def make_request(passage: Passage) -> Request:
        prompt = processor.encode_prompt(passage_text(passage.title, passage.text))
        return Request(input_ids=tuple(prompt.input_ids), adapter=adapter, sampling=sampling)

    return make_request


def _tokenizer(component: Component) -> PreTrainedTokenizerBase:
    return load_tokenizer(component.backbone, component.config["backbone_revision"])


def reader_inputs(
    component: Component, derive_comparisons: bool | None = None, graph_encode: bool = True
) -> InputMaker:
    """Return the requests to a RAS component: ids and graphs from the processor of its training.

    derive_comparisons: whether triples that compare what was found join a prompt
    (`models/facts/comparisons.py`); None: as in the component's training. graph_encode: False
    leaves the graphs out, so that the text alone is read (RAS Table 2, inference).
    """
    settings = GraphLLMConfig.read(component.folder)
    if derive_comparisons is not None:
        settings = replace(settings, compare_dates=derive_comparisons)
    if not graph_encode:
        settings = replace(settings, graph=None)
    has_graph = settings.graph is not None
    processor = settings.processor(_tokenizer(component))

    def make_input(task: Task, history: History, sampling: Sampling) -> ReaderInput:
        prompt = processor.encode_prompt(task, history)
        request = Request(
            input_ids=tuple(prompt.input_ids),
            adapter=RAS_ADAPTER,
            subgraphs=tuple(prompt.subgraphs) if has_graph else None,
            graph_encode=graph_encode,
            sampling=sampling,
            made_from=RasSample("", task, history.question, list(history.steps), ""),
        )
        too_long = len(prompt.input_ids) > processor.max_input_tokens
        return ReaderInput(
            request, prompt.cut_triples, prompt.cut_steps, too_long, prompt.cut_texts
        )

    return make_input
