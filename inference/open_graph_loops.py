"""The loops over graphs of topics and of a question's own, with everything that they need."""

from collections.abc import Mapping

from inference.components import Component, helper_requests
from inference.engines.contract import Engine
from inference.extraction import TripleExtractor
from inference.hierarchy.database import HierarchyError
from inference.hierarchy.index import HierarchyIndex
from inference.loop_options import LoopOptions
from inference.loops.graph_evidence import EvidenceGatherer, EvidenceSettings
from inference.loops.graph_reader import GraphReader
from inference.loops.model_steps import ModelSteps
from inference.loops.th_rag import CHOICE_STEPS, ThRagLoop, ThRagSettings
from inference.loops.trig_nav import TrigNavLoop, TrigNavSettings
from inference.retrieval.passages import Retriever
from models.formats.records import HelperTask
from models.sentence_encoder import load_sentence_encoder

CHOOSER: HelperTask = "choose_topics"


def open_th_rag(
    options: LoopOptions, engine: Engine, reader: GraphReader, helpers: Mapping[str, Component]
) -> ThRagLoop:
    """TH-RAG over the hierarchy that the options name; a trained chooser chooses at both levels.

    `reader` answers where a RAS component is named. Raises HierarchyError, IndexMismatchError.
    """
    if options.hierarchy is None:
        raise HierarchyError(
            "--loop th_rag answers from a hierarchy: name it with --hierarchy, after "
            "inference/build_hierarchy.py has made it"
        )
    index = HierarchyIndex.load(options.hierarchy, load_sentence_encoder(options.encoder))
    least_topics, least_subtopics = ThRagSettings.topics[0], ThRagSettings.subtopics[0]
    settings = ThRagSettings(
        topics=(min(least_topics, options.most_topics), options.most_topics),
        subtopics=(min(least_subtopics, options.most_subtopics), options.most_subtopics),
        sentences=options.sentences,
        passages=options.passages,
        link_weight=options.link_weight,
        name_weight=options.name_weight,
        traversal=options.traversal,  # type: ignore[arg-type]
        max_answer_tokens=options.max_answer_tokens,
    )
    answers = reader if options.ras is not None else None
    chooser = helper_requests(helpers[CHOOSER]) if CHOOSER in helpers else None
    steps = ModelSteps(engine, dict.fromkeys(CHOICE_STEPS.values(), chooser) if chooser else None)
    return ThRagLoop(steps, index, settings, answers)


def open_trig_nav(
    options: LoopOptions,
    engine: Engine,
    reader: GraphReader,
    extractor: TripleExtractor,
    retriever: Retriever,
    helpers: Mapping[str, Component],
) -> TrigNavLoop:
    """Trig-Nav over a corpus; `reader` answers where a RAS component is named."""
    evidence = EvidenceSettings(
        options.top_k,
        options.max_triples,
        options.knowledge,  # type: ignore[arg-type]
    )
    encoder = load_sentence_encoder(options.encoder)
    gatherer = EvidenceGatherer(retriever, extractor, encoder, evidence)
    settings = TrigNavSettings(
        options.judge, options.recall, max_answer_tokens=options.max_answer_tokens
    )
    steps = ModelSteps(engine, {task: helper_requests(c) for task, c in helpers.items()})
    answers = reader if options.ras is not None else None
    return TrigNavLoop(steps, gatherer, settings, answers)
