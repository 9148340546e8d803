"""Condition triplets of the facts that a passage states.

Condition: entity and aspect. Proof: the sentence that states the fact. Conclusion: the claim, to be
read alone (Tri-RAG §III-A, supervision construction in §III-B).
"""

from collections.abc import Iterable, Sequence

from data_gen.entity_text import mentions
from data_gen.weak_patterns import split_sentences
from models.formats.claims import anchor, claim, relation_words
from models.formats.conditions import ConditionTriplet
from models.formats.triples import Triple

# Words of a sentence that is quoted; what is longer is a list or a box without its markup.
LONGEST_PROOF = 60


def conditions_of_facts(text: str, facts: Iterable[Triple]) -> list[ConditionTriplet]:
    """One triplet a fact that the text states; the proof is the sentence with the fact's object.

    text: a passage as the extractor reads it, its title first. The proof is empty where the object
    stands in no sentence of up to 60 words.
    """
    stated = list(facts)
    title, _, rest = text.partition(": ")
    has_title = any(fact.subject == title for fact in stated)
    sentences = split_sentences(rest if has_title else text)
    return [
        ConditionTriplet(
            anchor(fact.subject, relation_words(fact.predicate)),
            _stating(sentences, fact),
            claim(fact),
        )
        for fact in stated
    ]


def _stating(sentences: Sequence[str], fact: Triple) -> str:
    """The sentence that holds the object, one that names the subject too before others."""
    short = [sentence for sentence in sentences if len(sentence.split()) <= LONGEST_PROOF]
    holding = [sentence for sentence in short if fact.object in sentence]
    both = [sentence for sentence in holding if mentions(sentence, fact.subject)]
    return next(iter([*both, *holding]), "")
