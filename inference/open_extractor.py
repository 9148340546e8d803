"""Opens the extractor of triples that loops and builders share, over its persistent cache."""

from pathlib import Path

from inference.components import Component, prompted_triples_request, triples_requests
from inference.engines.contract import Engine
from inference.extraction import HELD, RequestMaker, TripleExtractor, held_to
from inference.triple_cache import TripleCache
from models.cache import cache_folder
from models.formats.grammars import triples_regex


def extractor_name(component: Component | str, constrain: bool = False) -> str:
    """What tells an extractor from others, in the cache and in indexes of its triples."""
    name = component.fingerprint if isinstance(component, Component) else f"prompted {component}"
    return name + (HELD if constrain else "")


def open_extractor(
    engine: Engine,
    component: Component | str,
    cache: Path | None,
    constrain: bool = False,
) -> TripleExtractor:
    """The text-to-triples model, or an untrained one by its name, over its persistent cache;
    `constrain` holds it to its grammar.
    """
    make_request: RequestMaker = prompted_triples_request
    if isinstance(component, Component):
        make_request = triples_requests(component)
    if constrain:
        make_request = held_to(triples_regex(), make_request)
    path = cache or cache_folder() / "triples.sqlite"
    return TripleExtractor(
        engine, make_request, TripleCache(path, extractor_name(component, constrain))
    )
