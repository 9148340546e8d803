"""Condition triplets from facts and from supporting sentences."""

import pytest

from data_gen.labelling.patterns import split_sentences
from data_gen.samples.conditions import conditions_of_facts, conditions_of_sentences
from models.formats.conditions import ConditionTriplet
from models.formats.triples import Triple

TEXT = "Dus Lakh: Dus Lakh is a 1966 film. It was directed by D. Goel. Goel also sang."


def test_the_proof_is_the_sentence_that_states_the_fact() -> None:
    facts = [
        Triple("Dus Lakh", "publication date", "1966"),
        Triple("Dus Lakh", "director", "D. Goel"),
        Triple("Dus Lakh", "genre", "comedy"),
    ]
    assert conditions_of_facts(TEXT, facts) == [
        ConditionTriplet(
            "Dus Lakh; publication date",
            "Dus Lakh is a 1966 film.",
            "Dus Lakh was released in 1966.",
        ),
        ConditionTriplet(
            "Dus Lakh; director", "It was directed by D. Goel.", "Dus Lakh was directed by D. Goel."
        ),
        ConditionTriplet("Dus Lakh; genre", "", "The genre of Dus Lakh is comedy."),
    ]


@pytest.mark.parametrize(
    ("title", "sentence", "condition", "conclusion"),
    [
        (
            "Jeff Porcaro",
            "Jeffrey Thomas Porcaro (April 1, 1954 – August 5, 1992) was an American drummer.",
            "Jeff Porcaro; American drummer",
            "Jeff Porcaro was an American drummer.",
        ),
        (
            "Odense Boldklub",
            " The club has won three Danish championships, and five trophies.",
            "Odense Boldklub; won three Danish championships",
            "Odense Boldklub has won three Danish championships.",
        ),
        (
            "Kelly Reichardt",
            'Her credits include "Old Joy", "Night Moves" and others.',
            'Kelly Reichardt; credits include "Old Joy',
            'Kelly Reichardt\'s credits include "Old Joy".',
        ),
        (
            "Gaetano Donizetti",
            "He was born in Bergamo.",
            "Gaetano Donizetti; born in Bergamo",
            "Gaetano Donizetti was born in Bergamo.",
        ),
    ],
)
def test_sentences_are_made_to_speak_of_the_title(
    title: str, sentence: str, condition: str, conclusion: str
) -> None:
    (triplet,) = conditions_of_sentences(title, [sentence], [0])
    assert (triplet.condition, triplet.conclusion) == (condition, conclusion)
    assert triplet.proof in sentence


@pytest.mark.parametrize(
    "sentence",
    ["Rattigan's play has been filmed.", "Born in St. Louis, he is a writer.", "In 1990 it ended."],
)
def test_sentences_about_something_else_are_left_out(sentence: str) -> None:
    assert conditions_of_sentences("The Deep Blue Sea", [sentence], [0]) == []


def test_sentences_end_where_they_end() -> None:
    text = 'He met Dr. No in St. Louis. "Who?" J. R. Smith asked. It was 3.5 m! Then it ended.'
    assert split_sentences(text) == [
        "He met Dr. No in St. Louis.",
        '"Who?"',
        "J. R. Smith asked.",
        "It was 3.5 m!",
        "Then it ended.",
    ]
    assert split_sentences(" ") == []
