"""How many questions TH-RAG's one retrieval brings all facts of, by its ranking, K_1 and hops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.scripted_world.gold_world import GoldWorld
from benchmarks.scripted_world.loops import WorldLoops
from benchmarks.scripted_world.measure import Conditions
from benchmarks.scripted_world.world_model import WorldModel
from inference.hierarchy.index import Evidence, HierarchyIndex
from inference.loops.th_rag import ThRagSettings
from models.formats.prompts import passage_text
from models.formats.triples import Triple

OURS = (ThRagSettings.link_weight, ThRagSettings.name_weight)
RANKINGS = {"paper": (0.0, 0.0), "links": (OURS[0], 0.0), "links and names": OURS}
SENTENCES = (10, 30, 50, 100, 200)


async def th_rag_reach(given: Conditions, folder: Path) -> list[dict[str, Any]]:
    """Shares of the questions all of whose facts are in the evidence, one row a ranking and K_1.

    All sentences are searched, which is what a model's choice of the right topics can only narrow;
    K_2 is the loop's. folder: for the hierarchy.
    """
    model = WorldModel(given.world)
    loops = WorldLoops(given.world, given.topics, model, given.encoder)
    index = await loops.hierarchy(folder)
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


def told_by(world: GoldWorld, evidence: Sequence[Evidence], passages: int) -> set[Triple]:
    """The facts on the sentences' edges and in the first K_2 different passages around them."""
    around = list(dict.fromkeys(item.chunk for item in evidence))[:passages]
    told = {fact for p in around for fact in world.facts[passage_text(p.title, p.text)]}
    return told.union(*(item.triples for item in evidence))
