"""A question's annotation as query triplets: as decomposed, as asked in turn, and as resolved."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from data_gen.facts.entities import entity_key, mentions, written_as
from data_gen.facts.entity_shuffle import name_of
from data_gen.facts.solving_steps import evidence_steps
from models.facts.subqueries import split_relation
from models.formats.passages import context_passages
from models.formats.query_triplets import ANONYMOUS, QueryTriplet
from models.formats.records import PassageRecord, QuestionRecord

# A hop, or a name as running text writes it: words that begin with a capital or a digit, and small
# ones between two of them.
_WORD = r"[A-Z0-9][\w.&'’-]*"
_KNOWN = rf"(?:the )?(?P<known>#\d+|{_WORD}(?:(?: (?:of|the|and|de|la|in|on|for|to|a))* {_WORD})*)"
_PARTICIPLES = (
    "born|founded|located|formed|established|built|headquartered|buried|created|published|released|"
    "opened|dissolved|discovered|completed|abolished|signed|filmed|held|made|invented|based|"
    "written|recorded|from|set|situated|educated|raised"
)
_PAST = {
    "die": "died",
    "open": "opened",
    "close": "closed",
    "end": "ended",
    "begin": "began",
    "start": "started",
    "form": "formed",
    "dissolve": "dissolved",
    "live": "lived",
    "originate": "originated",
    "premiere": "premiered",
    "occur": "occurred",
    "take place": "took place",
}
_WH = r"(?P<wh>when|where|(?:(?:in|on|at) )?(?:what|which) [a-z]+)"
_WHO = re.compile(
    rf"who (?!is|was|are|were|did|does|do|has|had|have|will|would|can)(?P<verb>[a-z]+) {_KNOWN}"
)
_RELATION = re.compile(
    r"(?:what|who|when|where|which) (?:is|was|are|were) (?:the )?"
    rf"(?P<relation>(?!name )[a-z-]+(?: (?!of|the)[a-z-]+)?(?: of [a-z]+)?) (?:of|for) {_KNOWN}"
)
_PASSIVE = re.compile(
    rf"{_WH} (?:is|was|were|are) {_KNOWN} (?P<verb>{_PARTICIPLES})(?: (?:in|at|on))?"
)
_ACTIVE = re.compile(
    rf"{_WH} (?:did|does|do) {_KNOWN} (?P<verb>{'|'.join(_PAST)})(?: (?:in|at|on))?"
)
_UNKNOWN = re.compile(r"#\d+")
# "the #1 show" names an unknown in the middle of a text, where no placeholder can stand.
_UNKNOWN_INSIDE = re.compile(r".#\d|#\d+[^\d]")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def step_query(question: str) -> QueryTriplet | None:
    """Return the triplet that a step asks for, its unknown as `?` and earlier steps as #1, #2.

    `entity >> relation`, "Who wrote X", "What is the capital of X", "When was X founded" and
    "Where did X die" are read; None for any other form.
    """
    pair = split_relation(question)
    if pair is not None:
        return QueryTriplet(*pair, ANONYMOUS)
    words = re.sub(r"\s+(?=['’?.,])", "", " ".join(question.split())).rstrip("?. ")
    words = words[:1].lower() + words[1:]
    if match := _WHO.fullmatch(words):
        return QueryTriplet(ANONYMOUS, match["verb"], match["known"])
    if match := _RELATION.fullmatch(words):
        return QueryTriplet(match["known"], match["relation"], ANONYMOUS)
    for pattern in (_PASSIVE, _ACTIVE):
        if match := pattern.fullmatch(words):
            return QueryTriplet(match["known"], _predicate(match["verb"], match["wh"]), ANONYMOUS)
    return None


def _predicate(verb: str, asked: str) -> str:
    """Return words "born" and "where" give "born in", "from" and "what city" give "from city"."""
    past = _PAST.get(verb, verb)
    if asked in ("when", "where"):
        return past if past == "from" else f"{past} {'on' if asked == 'when' else 'in'}"
    noun = asked.rpartition(" ")[2]
    return f"{past} {noun}" if past == "from" else f"{past} in {noun}"


class NoQueryTripletsError(ValueError):
    """A question whose annotation gives no query triplets; the message says why, in few words."""


@dataclass(frozen=True)
class QueryStep:
    """One fact that a question needs.

    open: as a decomposition has it, `?a` for what other triplets name too, else `?`. asked: with
    what earlier steps found in its place. found: resolved. answer: what this step looks for.
    passage: where it stands, None where the source gives no text.
    """

    open: QueryTriplet
    asked: QueryTriplet
    found: QueryTriplet
    answer: str
    passage: PassageRecord | None


@dataclass(frozen=True)
class _Fact:
    """A fact whose fields are texts or `#k`, for what is not known; it looks for `unknown`."""

    fields: tuple[str, str, str]
    unknown: str
    answer: str
    passage: PassageRecord | None


def query_steps(record: QuestionRecord, passages: Mapping[str, PassageRecord]) -> list[QueryStep]:
    """Return the steps of a question in solving order (T²RAG §4.3, Trig-Nav §3.3).

    passages: a corpus's, by title, for records without texts of their own.

    Raises NoQueryTripletsError: no annotation of facts, an entity that is found in two ways, a step
    in words that no pattern reads, or an entity that the question does not give away.
    """
    if record.evidences:
        facts = _annotated_facts(record, passages)
    elif record.question_decomposition:
        facts = _decomposed_facts(record)
    else:
        raise NoQueryTripletsError("no facts annotated")
    known = (f for fact in facts for f in (fact.fields[0], fact.fields[2]) if f[:1] != "#")
    if not all(mentions(record.question, field) for field in known):
        raise NoQueryTripletsError("an entity that the question does not name")
    return _steps(facts)


def placeholder(number: int) -> str:
    """Return `?a` for 0, `?b` for 1, and on with `?a26` after `?z`."""
    return f"?{_LETTERS[number]}" if number < len(_LETTERS) else f"?a{number}"


def _steps(facts: Sequence[_Fact]) -> list[QueryStep]:
    names, values = _names(facts), dict[str, str]()
    steps = []
    for fact in facts:
        asked = _filled(fact.fields, {**names, **values})
        values.setdefault(fact.unknown, fact.answer)
        found = _filled(fact.fields, values)
        steps.append(
            QueryStep(_filled(fact.fields, names), asked, found, fact.answer, fact.passage)
        )
    return steps


def _names(facts: Sequence[_Fact]) -> dict[str, str]:
    """Return `?a`, `?b` for unknowns of several triplets, `?` for the others."""
    uses = Counter(field for fact in facts for field in fact.fields if _UNKNOWN.fullmatch(field))
    shared = [unknown for unknown, count in uses.items() if count > 1]
    named = {unknown: placeholder(number) for number, unknown in enumerate(shared)}
    return {unknown: named.get(unknown, ANONYMOUS) for unknown in uses}


def _filled(fields: Sequence[str], values: Mapping[str, str]) -> QueryTriplet:
    return QueryTriplet(*(values.get(field, field) for field in fields))


def _annotated_facts(record: QuestionRecord, passages: Mapping[str, PassageRecord]) -> list[_Fact]:
    """Of evidence triples. The object is looked for where the subject is known, else the subject:
    "the film by X with Y" has two facts about one unknown subject."""
    facts, unknown_subjects = [], dict[str, str]()
    for number, step in enumerate(evidence_steps(record, passages), start=1):
        fact, own = step.fact, f"#{number}"
        if len(step.needs) > 1:
            raise NoQueryTripletsError("an entity that is found in two ways")
        subject = f"#{step.needs[0] + 1}" if step.needs else _written(record, fact.subject)
        if subject:
            facts.append(_Fact((subject, fact.predicate, own), own, fact.object, step.passage))
        elif object_ := _written(record, fact.object):
            own = unknown_subjects.setdefault(entity_key(fact.subject), own)
            facts.append(_Fact((own, fact.predicate, object_), own, fact.subject, step.passage))
        else:
            raise NoQueryTripletsError("an entity that the question does not name")
    return facts


def _written(record: QuestionRecord, entity: str) -> str | None:
    """Return the entity as the question writes it, with or without what tells it apart."""
    forms = (written_as(record.question, form) for form in (entity, name_of(entity)))
    return next(filter(None, forms), None)


def _decomposed_facts(record: QuestionRecord) -> list[_Fact]:
    passages = context_passages(record)
    facts = []
    for number, step in enumerate(record.question_decomposition, start=1):
        query, own = step_query(step.question), f"#{number}"
        if query is None or any(map(_UNKNOWN_INSIDE.search, query.fields)):
            raise NoQueryTripletsError("a step in words that no pattern reads")
        subject, predicate, object_ = (own if f == ANONYMOUS else f for f in query.fields)
        index = step.paragraph_support_idx
        passage = passages[index] if index is not None else None
        facts.append(_Fact((subject, predicate, object_), own, step.answer, passage))
    return facts
