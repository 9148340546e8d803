"""The questions that a method can answer at all, by the corpus and the method's limits alone.

Nothing here runs a loop: what a loop found or answered does not enter, so a loop that loses a
question within reach is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.scripted_world.gold_world import GoldWorld
from benchmarks.scripted_world.loops import Settings, WorldLoops
from benchmarks.scripted_world.measure import Conditions, depth
from benchmarks.scripted_world.world_model import WorldModel
from inference.indexes.hierarchy.index import EvidenceSentence, HierarchyIndex
from inference.loops.th_rag import ThRagSettings
from inference.retrieval.bm25 import Bm25Retriever
from inference.retrieval.passages import Hit
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord
from models.formats.triples import Triple

Search = Callable[[Sequence[str], int], list[list[Hit]]]
OURS = (ThRagSettings.link_weight, ThRagSettings.name_weight)
RANKINGS = {"paper": (0.0, 0.0), "links": (OURS[0], 0.0), "links and names": OURS}
SENTENCES = (10, 30, 50, 100, 200)


async def questions_in_reach(
    name: str, settings: Settings, given: Conditions, folder: Path
) -> list[bool]:
    """Return whether a loop's method can answer each question with a model that never errs.

    RAS and Trig-Nav can ask for any fact that their retriever finds, T²RAG for as many in a row as
    it has rounds. Where Trig-Nav answers from sub-answers alone, what its judge read of a
    question's facts in the first passages is lost, unless that is all of them. folder: for TH-RAG's
    hierarchy, one that does not exist yet.
    """
    if name == "tri_rag" and settings.tri_rag.max_rounds == 1:
        return await _searched_once(given, settings)
    if name == "tri_rag":
        most = settings.tri_rag.max_rounds - 1
        return [has_conditions(record, most) for record in given.questions]
    if name == "t2rag":
        return [depth(record) <= settings.t2rag.max_rounds for record in given.questions]
    if name in ("ras", "trig_nav"):
        search = Bm25Retriever(given.world.passages, settings.title_weight).search
        top_k = settings.ras.top_k if name == "ras" else settings.trig_nav_evidence.top_k
        judged = name == "trig_nav" and settings.trig_nav.judge
        alone = judged and not settings.trig_nav.shows_known
        return [_is_found(record, given.world, search, top_k, alone) for record in given.questions]
    if name == "th_rag":
        index = await _gold_hierarchy(given, folder)
        return [_is_told(record, given, index, settings.th_rag) for record in given.questions]
    return [True] * len(given.questions)


async def _searched_once(given: Conditions, settings: Settings) -> list[bool]:
    """Return whether the m triplets nearest to a question claim each of its facts (Algorithm 2)."""
    loops = WorldLoops(given.world, given.topics, WorldModel(given.world), given.encoder)
    base, limits = await loops.knowledge_base(), settings.tri_rag
    found = base.search([record.question for record in given.questions], limits.top_k)
    reach = []
    for record, hits in zip(given.questions, found, strict=True):
        triplets = [triplet for hit in hits for triplet in hit.entry.triplets][: limits.selected]
        told = {fact for t in triplets for fact in given.world.told.get(t.conclusion, [])}
        reach.append(set(record.evidences) <= told)
    return reach


def _is_found(
    record: QuestionRecord, world: GoldWorld, search: Search, top_k: int, alone: bool
) -> bool:
    """Return whether a search for the question, or one for each fact, brings the passages.

    A fact is searched in words and as a triplet with one open end. alone: a question some of whose
    facts the search for it tells, and not all, is out of reach.
    """
    wanted = set(record.evidences)
    missing = wanted - _told_in(search([record.question], top_k), world)
    if not missing or (alone and missing != wanted):
        return not missing
    queries = [part.question for part in record.question_decomposition]
    for fact in missing:
        queries += [f"{fact.subject} {fact.predicate}", f"{fact.predicate} {fact.object}"]
    return missing <= _told_in(search(queries, top_k), world)


def _told_in(found: Sequence[Sequence[Hit]], world: GoldWorld) -> set[Triple]:
    """Return the facts of the passages found."""
    passages = {hit.passage for hits in found for hit in hits}
    return {fact for p in passages for fact in world.facts[passage_text(p.title, p.text)]}


def has_conditions(record: QuestionRecord, most: int) -> bool:
    """Return whether Tri-RAG's searches can name a condition of each fact of the question.

    A condition names what its claim is about. So each fact must be about a name that stands in the
    question or is the object of a fact found before, and there may be no more of them than the
    `most` searches that come after the one for the question itself.
    """
    open_facts, known = list(record.evidences), {record.question}
    while found := [f for f in open_facts if any(f.subject in text for text in known)]:
        open_facts = [fact for fact in open_facts if fact not in found]
        known.update(fact.object for fact in found)
    return not open_facts and len(set(record.evidences)) <= most


def _is_told(
    record: QuestionRecord, given: Conditions, index: HierarchyIndex, settings: ThRagSettings
) -> bool:
    """Return whether TH-RAG's one retrieval brings every fact of the question.

    Searched are the sentences under all subtopics of its facts, which is the right choice; of these
    the K_1 nearest to the question count, and the K_2 first passages around them.
    """
    graph, wanted = index.graph, set(record.evidences)
    subtopics = {
        int(place[number, 1])
        for number, fact in enumerate(graph.facts)
        if Triple(fact.subject, fact.predicate, fact.object) in wanted
        for place in (graph.subject_place, graph.object_place)
    }
    scored = index.score(record.question)
    weights = settings.link_weight, settings.name_weight
    evidence = index.evidence(scored, subtopics, settings.sentences, *weights)
    return wanted <= told_by(given.world, evidence, settings.passages)


async def _gold_hierarchy(given: Conditions, folder: Path) -> HierarchyIndex:
    """Return the index that a model without errors writes."""
    loops = WorldLoops(given.world, given.topics, WorldModel(given.world), given.encoder)
    return await loops.hierarchy(folder)


async def th_rag_reach(given: Conditions, folder: Path) -> list[dict[str, Any]]:
    """Return the shares of questions all of whose facts TH-RAG retrieves, by ranking and K_1.

    All sentences are searched, which is what a model's choice of the right topics can only narrow;
    K_2 is the loop's. folder: for the hierarchy.
    """
    index = await _gold_hierarchy(given, folder)
    return [
        {"ranking": name, "sentences": most, **_shares(given, index, most, weights)}
        for name, weights in RANKINGS.items()
        for most in SENTENCES
    ]


def _shares(
    given: Conditions, index: HierarchyIndex, most: int, weights: tuple[float, float]
) -> dict[str, Any]:
    reached: dict[int, list[bool]] = {}
    for record in given.questions:
        evidence = index.evidence(index.score(record.question), None, most, *weights)
        whole = set(record.evidences) <= told_by(given.world, evidence, ThRagSettings.passages)
        reached.setdefault(len(record.evidences), []).append(whole)
    by_hops = {f"{hops} hops": mean(reached[hops]) for hops in sorted(reached)}
    return {"all": mean(whole for wholes in reached.values() for whole in wholes), **by_hops}


def told_by(world: GoldWorld, evidence: Sequence[EvidenceSentence], passages: int) -> set[Triple]:
    """Return facts on the sentences' edges and in the first K_2 different passages around them."""
    around = list(dict.fromkeys(item.chunk for item in evidence))[:passages]
    told = {fact for p in around for fact in world.facts[passage_text(p.title, p.text)]}
    return told.union(*(item.triples for item in evidence))
