"""Sub-questions in words: from a relation and its subject or a decomposition, and back to facts."""

import re
from collections.abc import Sequence

from models.formats.passages import last_heading
from models.formats.triples import Triple

_TEMPLATES = {
    "director": "Who directed {s}?",
    "date of birth": "When was {s} born?",
    "date of death": "When did {s} die?",
    "place of birth": "Where was {s} born?",
    "place of death": "Where did {s} die?",
    "father": "Who is the father of {s}?",
    "mother": "Who is the mother of {s}?",
    "spouse": "Who is the spouse of {s}?",
    "child": "Who is a child of {s}?",
    "sibling": "Who is a sibling of {s}?",
    "country of citizenship": "What is the country of citizenship of {s}?",
    "country of origin": "What is the country of origin of {s}?",
    "country": "Which country is {s} in?",
    "publication date": "When was {s} released?",
    "performer": "Who is the performer of {s}?",
    "composer": "Who composed {s}?",
    "educated at": "Where was {s} educated?",
    "employer": "Who is the employer of {s}?",
    "place of burial": "Where is {s} buried?",
    "place of detention": "Where was {s} detained?",
    "inception": "When was {s} founded?",
    "award received": "Which award did {s} receive?",
    "cause of death": "What was the cause of death of {s}?",
    "founded by": "Who founded {s}?",
    "publisher": "Who published {s}?",
    "producer": "Who produced {s}?",
    "creator": "Who created {s}?",
    "presenter": "Who presents {s}?",
    "student of": "Who taught {s}?",
    "author": "Who is the author of {s}?",
    "occupation": "What is the occupation of {s}?",
    "member of sports team": "Which sports team is {s} a member of?",
    "located in the administrative territorial entity": (
        "In which administrative territorial entity is {s} located?"
    ),
    "headquarters location": "Where is the headquarters of {s}?",
    "owned by": "Who owns {s}?",
    "part of": "What is {s} part of?",
    "instance of": "What is {s} an instance of?",
    "manufacturer": "Who is the manufacturer of {s}?",
    "place of publication": "Where was {s} published?",
    "participant in": "What did {s} participate in?",
    "notable work": "What is a notable work of {s}?",
    # Relations that are no nouns, which "What is the {p} of {s}?" would not read as a question.
    "shares border with": "What shares a border with {s}?",
    "contains administrative territorial entity": (
        "Which administrative territorial entity does {s} contain?"
    ),
    "member of": "What is {s} a member of?",
    "member of political party": "Which political party is {s} a member of?",
    "operator": "Who operates {s}?",
    "winner": "Who is the winner of {s}?",
    "cast member": "Who is a cast member of {s}?",
    "screenwriter": "Who is the screenwriter of {s}?",
    "editor": "Who is the editor of {s}?",
    "languages spoken, written or signed": "Which language does {s} speak?",
    "original language of film or TV show": "What is the original language of {s}?",
    "mouth of the watercourse": "What is the mouth of {s}?",
    "work location": "Where did {s} work?",
    "licensed to broadcast to": "Where is {s} licensed to broadcast to?",
    "location": "Where is {s} located?",
    "location of formation": "Where was {s} formed?",
    "located on terrain feature": "On which terrain feature is {s} located?",
    "located in or next to body of water": "Which body of water is {s} next to?",
    "capital of": "What is {s} the capital of?",
    "part of the series": "Which series is {s} part of?",
    "has part": "What is a part of {s}?",
    "present in work": "In which work is {s} present?",
    "followed by": "What is {s} followed by?",
    "follows": "What does {s} follow?",
    "conflict": "Which conflict did {s} take part in?",
    "participant": "Who participated in {s}?",
    "named after": "What is {s} named after?",
    "distributed by": "Who distributed {s}?",
    "drafted by": "Who drafted {s}?",
    "lyrics by": "Who wrote the lyrics of {s}?",
    "based on": "What is {s} based on?",
    "crosses": "What does {s} cross?",
}
_ASKED = {
    relation: re.compile(rf"{start}(?P<subject>.+){end}", re.IGNORECASE)
    for relation, template in _TEMPLATES.items()
    for start, end in [map(re.escape, template.split("{s}"))]
}
_ASKED_NOUN = re.compile(
    r"(?:what|who) (?:is|was|are|were) the (?P<phrase>.+ of .+)\?", re.IGNORECASE
)
_NAME_FOLLOWS = re.compile(r"(?:the )?[^a-z]")
_HOP = re.compile(r"#(\d+)")
_ENDS_IN_THE = re.compile(r"\bthe\s+$", re.IGNORECASE)
_STARTS_WITH_THE = re.compile(r"^the\s+(?=\S)", re.IGNORECASE)
_WH_WORD = re.compile(
    r"^(?:(?:in|on|at|of|from|to|for|by) )?(?:who|what|when|where|which|whose|whom|how)\b\s*",
    re.IGNORECASE,
)
_WHO_VERB = re.compile(r"^who\s+(?P<verb>[a-z]+)\s+(?P<rest>.+)$", re.IGNORECASE)
_NOT_A_VERB = frozenset([
    "is", "was", "are", "were", "did", "does", "do", "has", "had", "have", "can", "could", "will",
    "would", "should", "may", "might", "be", "the", "in", "on", "of", "all", "else", "also",
])  # fmt: skip


def relation_question(relation: str, subject: str) -> str:
    """Return the question that asks for the object of (subject, relation, ?)."""
    template = _TEMPLATES.get(relation, "What is the {p} of {s}?")
    return template.format(s=subject, p=relation)


def asked_relation(question: str) -> tuple[str, str] | None:
    """Return the (subject, relation) whose object a question asks for, else None.

    Reads what `relation_question` writes. "What is the head of government of Peru?" is split where
    a name begins.
    """
    for relation, pattern in _ASKED.items():
        if match := pattern.fullmatch(question.strip()):
            return match["subject"], relation
    match = _ASKED_NOUN.fullmatch(question.strip())
    if match is None:
        return None
    phrase = match["phrase"]
    # "Of" may be a part of a name, so it splits only where nothing else does.
    places = list(re.finditer(" of ", phrase)) or list(re.finditer(" of ", phrase, re.IGNORECASE))
    splits = [(phrase[: place.start()], phrase[place.end() :]) for place in places]
    relation, subject = next((s for s in splits if _NAME_FOLLOWS.match(s[1])), splits[0])
    return subject, relation


def asks_about(question: str, answer: str) -> bool:
    """Return whether an answer is who or what a question asks about; nobody is their own father."""
    asked = asked_relation(question)
    return asked is not None and asked[0].casefold() == answer.casefold()


def hop_references(question: str) -> list[int]:
    """Positions, from 0, of the earlier steps that a decomposition step names as #1, #2."""
    return [int(number) - 1 for number in _HOP.findall(question)]


def fill_hops(question: str, answers: Sequence[str]) -> str:
    """Replace #1, #2 by the earlier steps' answers; a reference past the end stays.

    After "the", an answer that brings its own ("the #1" and "the Karmapa") loses it.
    """

    def answer(match: re.Match[str]) -> str:
        index = int(match[1]) - 1
        if not 0 <= index < len(answers):
            return match[0]
        follows_article = _ENDS_IN_THE.search(question[: match.start()])
        return _STARTS_WITH_THE.sub("", answers[index]) if follows_article else answers[index]

    return " ".join(_HOP.sub(answer, question).split())


def split_relation(question: str) -> tuple[str, str] | None:
    """(entity, relation) of MuSiQue's `entity >> relation`, or None for a natural question."""
    entity, separator, relation = question.rpartition(">>")
    if not separator or not entity.strip() or not relation.strip():
        return None
    return entity.strip(), relation.strip()


def natural_question(question: str) -> str:
    """Return a filled decomposition step as a question with a capital and a question mark."""
    pair = split_relation(question)
    if pair is not None:
        return relation_question(pair[1], pair[0])
    words = re.sub(r"\s+([?.,!])", r"\1", question.strip()).rstrip("?. ")
    return f"{words[:1].upper()}{words[1:]}?"


def step_triple(question: str, answer: str, title: str) -> Triple:
    """Return the triple that a filled decomposition step states.

    `entity >> relation` gives (entity, relation, answer); "Who issued the manifesto?" gives
    (answer, issued, the manifesto); any other question gives (title, its words, answer).
    """
    pair = split_relation(question)
    if pair is not None:
        return Triple(pair[0], pair[1], answer)
    words = " ".join(question.split()).rstrip("?. ")
    match = _WHO_VERB.match(words)
    if match and match["verb"].lower() not in _NOT_A_VERB:
        return Triple(answer, match["verb"].lower(), match["rest"])
    return Triple(title, _WH_WORD.sub("", words) or words, answer)


def answered_triple(subquery: str, answer: str, title: str) -> Triple:
    """Return the fact that an answer to a subquery states, its predicate read off the subquery.

    "Who directed Ana?" gives (Ana, director, answer); what `asked_relation` does not read is as in
    `step_triple`. title: of the passage that gave the answer, of which the last heading is what it
    is about. Where there is none, or it is the answer itself, the subquery's words are the subject.
    """
    if asked := asked_relation(subquery):
        return Triple(*asked, answer)
    words = subquery.strip().rstrip("?. ")
    fact = step_triple(words, answer, last_heading(title) or words)
    if fact.subject.casefold() == fact.object.casefold():
        return Triple(words, "is", answer)
    return fact
