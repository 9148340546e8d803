"""A few requests as a component gets them, to compare an export with it."""

from inference.components import (
    Component,
    conditions_requests,
    helper_requests,
    reader_inputs,
    triples_requests,
)
from inference.engines.contract import Request, Sampling
from inference.retrieval.passages import Passage
from models.condition_extractor import COMPONENT as TRI_RAG
from models.formats.decomposer import decompose_prompt
from models.formats.history import History, HistoryStep
from models.formats.records import Task
from models.formats.triples import Triple
from models.graph_llm import COMPONENT as RAS
from models.instruction_tuned import COMPONENT as HELPER

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


def sample_requests(component: Component) -> list[Request]:
    """Passages for an extractor, questions for a helper, plans and answers of growing histories
    for RAS."""
    if component.config["component"] == HELPER:
        ask = helper_requests(component)
        return [ask(decompose_prompt(text)) for text in (QUESTION, *(p.text for p in PASSAGES))]
    if component.config["component"] != RAS:
        is_tri_rag = component.config["component"] == TRI_RAG
        make = conditions_requests(component) if is_tri_rag else triples_requests(component)
        return [make(passage) for passage in PASSAGES]
    read = reader_inputs(component)
    tasks: tuple[Task, ...] = ("plan", "answer")
    histories = [History(QUESTION, STEPS[:length]) for length in range(len(STEPS) + 1)]
    return [read(task, history, Sampling()).request for task in tasks for history in histories]
