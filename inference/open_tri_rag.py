"""A Tri-RAG loop from what a command line says."""

from collections.abc import Sequence

from inference.engines.contract import Engine
from inference.knowledge_base.store import KnowledgeBase, KnowledgeBaseError
from inference.loop_options import LoopOptions
from inference.loops.graph_reader import GraphReader
from inference.loops.tri_rag import TriRagLoop, TriRagSettings
from inference.retrieval.passages import Passage
from models.sentence_encoder import load_sentence_encoder


def open_tri_rag(
    options: LoopOptions, engine: Engine, reader: GraphReader, corpus: Sequence[Passage]
) -> TriRagLoop:
    """Tri-RAG over the knowledge base that the options name.

    `reader` answers where a RAS component is named. Raises KnowledgeBaseError, also for a corpus
    that lacks a document of the knowledge base.
    """
    if options.kb is None:
        raise KnowledgeBaseError(
            "--loop tri_rag answers from a knowledge base: name it with --kb, after "
            "inference/build_kb.py has made it"
        )
    base = KnowledgeBase.load(options.kb, load_sentence_encoder(options.encoder))
    documents = {passage.id: passage for passage in corpus}
    unknown = [s for entry in base.entries for s in entry.sources if s not in documents]
    if unknown:
        raise KnowledgeBaseError(
            f"{options.kb} holds document '{unknown[0]}', which the corpus does not: name the "
            "corpus that it was built from"
        )
    settings = TriRagSettings(
        options.top_k,
        options.selected,
        options.evidence_budget,
        options.max_rounds,
        options.max_answer_tokens,
    )
    facts_reader = reader if options.ras is not None else None
    return TriRagLoop(engine, base, settings, facts_reader, documents.__getitem__)
