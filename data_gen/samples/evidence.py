"""The forms in which a loop's evidence is read, made from the triples and passages of a step."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from data_gen.sources.splits import hash_fraction
from models.facts.grounding import Grounding, split_sentences
from models.formats.conditions import ConditionTriplet, anchor, claim, format_condition
from models.formats.planning import HistoryStep
from models.formats.prompts import passage_text
from models.formats.records import PassageRecord
from models.formats.triples import Triple

Form = Literal["facts", "triplets", "sentences", "passages", "full"]
"""facts: triples (RAS, T²RAG, Trig-Nav). triplets: whole condition triplets in their place
(Tri-RAG). sentences: triples and the sentences that state them. passages: the text in the triples'
place (RAS Table 2, "No Text-to-Triple"). full: triples, sentences and passages (TH-RAG)."""


def drawn_form(question: str, forms: Sequence[Form], seed: int) -> Form:
    """Return the form of all samples of a question, by its id.

    Each is drawn as often as the others, one that is named twice twice as often.
    """
    return forms[int(hash_fraction(f"{question}/form", seed) * len(forms))]


def in_form(step: HistoryStep, passages: Sequence[PassageRecord], form: Form) -> HistoryStep:
    """Return a step as a loop of this form shows it. passages: those found, best first."""
    if form == "facts":
        return step
    texts = tuple(passage_text(passage.title, passage.text) for passage in passages)
    if form == "passages":
        return HistoryStep(step.subquery, (), texts)
    grounds = [(p.title, Grounding(p.title, split_sentences(p.text))) for p in passages]
    stated = [_stated(triple, grounds, step.subquery) for triple in step.triples]
    if form == "triplets":
        blocks = [_block(triple, s) for triple, (_, s) in zip(step.triples, stated, strict=True)]
        return HistoryStep(step.subquery, (), tuple(blocks))
    sentences = dict.fromkeys(passage_text(title, text) for title, text in stated if text)
    return replace(step, texts=(*sentences, *(texts if form == "full" else ())))


def _stated(
    triple: Triple, grounds: Sequence[tuple[str, Grounding]], subquery: str
) -> tuple[str, str]:
    """Return the title and the sentence that state a triple, of the first passage that does.

    grounds: the passages' titles and sentences; subquery: what was asked.
    """
    for title, grounding in grounds:
        if sentence := grounding.sentence_of(triple, asked=subquery):
            return title, sentence
    return "", ""


def _block(triple: Triple, proof: str) -> str:
    condition = anchor(triple.subject, triple.predicate)
    return format_condition(ConditionTriplet(condition, proof, claim(triple)))
