"""Condition triplets of facts, of supporting sentences and of passages rewritten as tables."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from data_gen.facts.entities import entity_key, mentions
from data_gen.labelling.patterns import split_sentences
from data_gen.sources.splits import hash_fraction
from models.formats.conditions import ConditionTriplet, anchor, claim, relation_words
from models.formats.records import TriplesSample
from models.formats.triples import Triple

# Words of a sentence that is quoted; what is longer is a list or a box without its markup.
LONGEST_PROOF = 60
# What a sentence about a passage's subject may begin with in the subject's place.
_PRONOUN = re.compile(r"(?:He|She|It|They)\b")
_POSSESSIVE = re.compile(r"(?:His|Her|Its|Their)\b")
_THE_KIND = re.compile(
    r"(?:The|This) (?:film|movie|song|single|album|novel|book|play|series|show|band|group|team|"
    r"club|company|school|university|city|town|village|station|game|magazine|building|museum)\b"
)
_BRACKETS = re.compile(r"\s*\([^()]*\)")
_LINKING = re.compile(
    r"^[\s,;:]*(?:(?:is|was|are|were|has been|had been|has|had|also|became)\s+)*"
    r"(?:(?:an?|the|one of the)\s+)?",
    re.IGNORECASE,
)
_VERB = (
    r"(?:is|was|are|were|has|have|had|became|won|wrote|began|made|took|led|sold|held|rose|grew|"
    r"fell|ran|came|went|met|sang|spent|left|built|[a-z]{3,}ed|[a-z]{3,}[^s\W]s)\b"
)
_CLAUSE_END = re.compile(
    r"[,;]|\s(?:which|who|whose|that|where|when|while|but)\s"
    r"|\sand (?=(?:is|was|are|were|has|had|later|also|he|she|it|they)\b)"
)
# What a cut must not leave at the end.
_LOOSE_END = re.compile(
    r"(?:\s(?:a|an|the|and|or|of|in|on|at|by|for|from|with|to|as|its|his|her))+$"
)
ASPECT_WORDS = 7
FEWEST_ROWS = 2

# As boxes name them; any other relation stands under its own name.
_LABELS = {
    "director": ("Directed by",),
    "producer": ("Produced by",),
    "composer": ("Music by", "Composed by"),
    "author": ("Written by", "Author"),
    "screenwriter": ("Written by", "Screenplay by"),
    "performer": ("Artist", "Performed by"),
    "cast member": ("Starring",),
    "publisher": ("Publisher", "Published by"),
    "publication date": ("Release date", "Released"),
    "country of origin": ("Country",),
    "country of citizenship": ("Nationality", "Citizenship"),
    "date of birth": ("Born",),
    "date of death": ("Died",),
    "place of birth": ("Place of birth", "Birthplace"),
    "place of death": ("Place of death", "Resting place"),
    "inception": ("Founded", "Established"),
    "founded by": ("Founder", "Founders"),
    "spouse": ("Spouse", "Spouse (s)"),
    "headquarters location": ("Headquarters",),
    "educated at": ("Alma mater", "Education"),
}


def conditions_of_facts(text: str, facts: Iterable[Triple]) -> list[ConditionTriplet]:
    """Return a triplet for each fact that the text states; the proof is its sentence.

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
    """Return the sentence that holds the object, one that names the subject too before others."""
    short = [sentence for sentence in sentences if len(sentence.split()) <= LONGEST_PROOF]
    holding = [sentence for sentence in short if fact.object in sentence]
    both = [sentence for sentence in holding if mentions(sentence, fact.subject)]
    return next(iter([*both, *holding]), "")


def conditions_of_sentences(
    title: str, sentences: Sequence[str], chosen: Iterable[int]
) -> list[ConditionTriplet]:
    """Return one triplet for each chosen sentence that can be made to speak of the title.

    The aspect is what the sentence says first; the conclusion is its first clause, the proof the
    whole sentence where that says more. Sentences about something else are left out.
    """
    triplets = []
    for index in chosen:
        sentence = " ".join(sentences[index].split())
        said = _about(title, sentence)
        aspect = _aspect(said) if said else ""
        if said and aspect:
            conclusion = f"{title}{_first_clause(said)}."
            whole = f"{title}{said}".rstrip(".") + "."
            proof = "" if entity_key(whole) == entity_key(conclusion) else sentence
            triplets.append(ConditionTriplet(anchor(title, aspect), proof, conclusion))
    return triplets


def _about(title: str, sentence: str) -> str:
    """Return what a sentence says of the title, without it; '' where it is about another."""
    name = re.escape(_BRACKETS.sub("", title))
    family = re.escape(_BRACKETS.sub("", title).split(" ")[-1])
    # The name itself, or a fuller one that ends like it: 'Jeffrey Thomas Porcaro (1954) was'.
    called = rf"(?:(?:The )?[\"']?{name}[\"']?|(?:[A-Z][\w.'-]*\s+){{0,5}}{family})"
    subject = rf"(?:{called}|{_PRONOUN.pattern}|{_THE_KIND.pattern})(?:\s*\([^()]*\))?\s+"
    if match := re.match(rf"{subject}(?:also |then |later )?(?P<said>{_VERB}.*)", sentence):
        return " " + match["said"]
    match = None if sentence.startswith(title) else _POSSESSIVE.match(sentence)
    return f"'s{sentence[match.end() :]}" if match else ""


def _aspect(said: str) -> str:
    words = _first_clause(_LINKING.sub("", said.removeprefix("'s "))).split()
    return _LOOSE_END.sub("", " ".join(words[:ASPECT_WORDS])).strip(" ,.;:\"'")


def _first_clause(said: str) -> str:
    """Up to the first clause's end, but at least four words."""
    for match in _CLAUSE_END.finditer(said):
        clause = said[: match.start()]
        if len(clause.split()) >= 4:
            return _LOOSE_END.sub("", clause).rstrip(" .")
    return said.rstrip(" .")


def is_table(sample: TriplesSample, share: float, seed: int) -> bool:
    """Return whether this passage is among those rewritten, the same in every build and shard."""
    return hash_fraction(f"table/{sample.id}", seed) < share


def as_table(sample: TriplesSample, seed: int) -> tuple[TriplesSample, list[str]] | None:
    """Return the passage's facts about its title as rows in one line, in place of its sentences.

    Returns the passage and the row of each of its facts; None where its title has fewer than two
    rows.
    """
    title = sample.text.partition(": ")[0]
    facts = [fact for fact in sample.triples if fact.subject == title]
    values: dict[str, list[str]] = {}
    for fact in facts:
        values.setdefault(fact.predicate, []).append(fact.object)
    if len(values) < FEWEST_ROWS:
        return None
    rng = random.Random(f"{seed}:rows:{sample.id}")
    order = rng.sample(list(values), len(values))
    labels = {n: rng.choice(_LABELS.get(n, (n[:1].upper() + n[1:],))) for n in order}
    rows = {name: f"{labels[name]} {' '.join(values[name])}" for name in order}
    placed = [fact for name in order for fact in facts if fact.predicate == name]
    text = f"{title}: {' '.join([*rng.choice(([title], [])), *rows.values()])}"
    return replace(sample, text=text, triples=placed), [rows[fact.predicate] for fact in placed]
