"""MuSiQue's decomposition steps in words as query triplets, where their form is plain.

A step names earlier ones as #1, #2. What no pattern reads is left out rather than guessed: a label
with half a sentence in its predicate would teach a decomposer to write such.
"""

import re

from data_gen.subqueries import split_relation
from models.formats.query_triplets import ANONYMOUS, QueryTriplet

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


def step_query(question: str) -> QueryTriplet | None:
    """The triplet that a step asks for, its unknown as `?` and earlier steps as #1, #2.

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
    """The words "born" and "where" give "born in", "from" and "what city" give "from city"."""
    past = _PAST.get(verb, verb)
    if asked in ("when", "where"):
        return past if past == "from" else f"{past} {'on' if asked == 'when' else 'in'}"
    noun = asked.rpartition(" ")[2]
    return f"{past} {noun}" if past == "from" else f"{past} in {noun}"
