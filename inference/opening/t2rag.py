"""A T²RAG loop from what a command line says."""

import logging
from collections.abc import Mapping, Sequence

from inference.engines.contract import Engine
from inference.indexes.propositions.index import PropositionIndex, open_index
from inference.indexes.propositions.parts import PropositionIndexError
from inference.indexes.propositions.search import PassageSearch, PropositionSearch, Search
from inference.loops.model import GraphReader
from inference.loops.t2rag import T2RagLoop, T2RagSettings
from inference.loops.t2rag_steps import Decomposer, HelperResolver, PromptedResolver, Resolver
from inference.opening.components import Component, helper_requests
from inference.opening.loop_options import LoopOptions
from inference.retrieval.open_retriever import build_retriever
from inference.retrieval.passages import Passage
from models.files.sentence_encoder import load_sentence_encoder
from models.formats.passages import passage_key
from models.formats.records import HelperTask

logger = logging.getLogger(__name__)

DECOMPOSE: HelperTask = "decompose"
RESOLVE: HelperTask = "resolve"


def build_t2rag(
    options: LoopOptions,
    engine: Engine,
    reader: GraphReader | None,
    helpers: Mapping[str, Component],
    corpus: Sequence[Passage],
) -> T2RagLoop:
    """The loop on an engine that serves the helpers.

    Raises PropositionIndexError, IndexMismatchError, EmptyCorpusError.
    """
    requests = {task: helper_requests(component) for task, component in helpers.items()}
    settings = T2RagSettings(
        options.top_k, options.max_rounds, max_answer_tokens=options.max_answer_tokens
    )
    resolver: Resolver
    if RESOLVE in requests:
        resolver = HelperResolver(engine, requests[RESOLVE], not options.without_passages)
    else:
        resolver = PromptedResolver(engine, not options.without_passages)
    search = _search(options, corpus)
    decomposer = Decomposer(engine, requests.get(DECOMPOSE))
    return T2RagLoop(engine, decomposer, resolver, search, settings, reader)


def _search(options: LoopOptions, corpus: Sequence[Passage]) -> Search:
    if options.granularity == "passage":
        if options.without_passages:
            raise PropositionIndexError(
                "--without-passages leaves nothing to resolve from with --granularity passage: "
                "give one of the two"
            )
        return PassageSearch(
            build_retriever(
                options.retriever, corpus, options.encoder, options.index, options.title_weight
            )
        )
    if options.propositions is None:
        raise PropositionIndexError(
            "--loop t2rag searches propositions: name their index with --propositions, after "
            "inference/build_propositions.py has made it"
        )
    index = open_index(options.propositions, load_sentence_encoder(options.encoder))
    passages = {passage.id: passage for passage in corpus}
    _check_corpus(index, passages, options)
    return PropositionSearch(index, passages)


def _check_corpus(
    index: PropositionIndex, passages: Mapping[str, Passage], options: LoopOptions
) -> None:
    """Refuse a corpus that lacks a passage of the index or has another text for it."""
    for name, key in index.documents.items():
        if name not in passages or passage_key(passages[name]) != key:
            raise PropositionIndexError(
                f"{options.propositions} holds document '{name}', which the corpus does not hold "
                "with that title and text: name the corpus that it was built from"
            )
    missing = len(passages) - len(index.documents)
    if missing:
        logger.warning(
            "%d of %d passages are not in %s and will not be found; add them with "
            "inference/build_propositions.py",
            missing,
            len(passages),
            options.propositions,
        )
