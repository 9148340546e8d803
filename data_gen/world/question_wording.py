"""Ways of asking for each relation; `{x}` is a name or a phrase for what is asked about."""

from dataclasses import dataclass
from random import Random

from data_gen.world.schema import Entity, Kind

QUESTIONS: dict[str, tuple[str, ...]] = {
    "date of birth": ("When was {x} born?", "What is the date of birth of {x}?"),
    "place of birth": (
        "Where was {x} born?",
        "In which city was {x} born?",
        "What is the place of birth of {x}?",
    ),
    "country of citizenship": (
        "Which country is {x} a citizen of?",
        "What is the country of citizenship of {x}?",
    ),
    "occupation": ("What is the occupation of {x}?", "What does {x} do for a living?"),
    "father": ("Who is the father of {x}?", "Who was the father of {x}?"),
    "mother": ("Who is the mother of {x}?", "Who was the mother of {x}?"),
    "spouse": ("Who is the spouse of {x}?", "Who is {x} married to?"),
    "educated at": ("Where did {x} study?", "Which university was {x} educated at?"),
    "employer": ("Which company employed {x}?", "Who is the employer of {x}?"),
    "member of sports team": (
        "Which team did {x} play for?",
        "What sports team did {x} belong to?",
    ),
    "award received": ("What award did {x} receive?", "Which award was won by {x}?"),
    "genre": ("What is the genre of {x}?", "Which genre does {x} belong to?"),
    "director": (
        "Who directed {x}?",
        "Who is the director of {x}?",
        "Which person was the director of {x}?",
    ),
    "screenwriter": ("Who wrote the screenplay of {x}?", "Who is the screenwriter of {x}?"),
    "production company": ("Which company produced {x}?", "What is the production company of {x}?"),
    "based on": ("What novel is {x} based on?", "Which book was adapted into {x}?"),
    "author": ("Who wrote {x}?", "Who is the author of {x}?"),
    "publisher": ("Who published {x}?", "Which company is the publisher of {x}?"),
    "performer": ("Who performed {x}?", "Who is the performer of {x}?"),
    "record label": ("Which label issued {x}?", "What is the record label of {x}?"),
    "lyrics by": ("Who wrote the lyrics of {x}?", "Who is the lyricist of {x}?"),
    "publication date": ("When was {x} released?", "What is the publication date of {x}?"),
    "country of origin": (
        "Which country does {x} come from?",
        "What is the country of origin of {x}?",
    ),
    "founded by": ("Who founded {x}?", "Who is the founder of {x}?"),
    "inception": ("When was {x} founded?", "When was {x} established?"),
    "industry": ("In which industry is {x} active?", "What is the industry of {x}?"),
    "sport": ("Which sport does {x} practise?", "What is the sport of {x}?"),
    "headquarters location": ("Where is {x} based?", "In which city are the headquarters of {x}?"),
    "chief executive officer": ("Who is the chief executive officer of {x}?", "Who leads {x}?"),
    "located in": ("Where is {x} located?", "In which place does {x} lie?"),
    "chancellor": ("Who is the chancellor of {x}?", "Who serves as chancellor of {x}?"),
    "head coach": ("Who coaches {x}?", "Who is the head coach of {x}?"),
    "owned by": ("Who owns {x}?", "Which company is the owner of {x}?"),
    "country": ("In which country is {x}?", "Which country does {x} belong to?"),
    "capital": ("What is the capital of {x}?", "Which city is the capital of {x}?"),
    "mayor": ("Who is the mayor of {x}?", "Who serves as mayor of {x}?"),
    "head of state": ("Who is the head of state of {x}?", "Who heads the state of {x}?"),
    "official language": (
        "What is the official language of {x}?",
        "Which language is official in {x}?",
    ),
    "population": ("What is the population of {x}?", "How many people live in {x}?"),
}
# Phrases for the object of a relation, used where a chain goes on from it.
PHRASES: dict[str, tuple[str, ...]] = {
    "place of birth": ("the birthplace of {x}", "the city where {x} was born"),
    "country of citizenship": (
        "the country of citizenship of {x}",
        "the country of which {x} is a citizen",
    ),
    "father": ("the father of {x}",),
    "mother": ("the mother of {x}",),
    "spouse": ("the spouse of {x}", "the person married to {x}"),
    "educated at": ("the university where {x} studied", "the university that educated {x}"),
    "employer": ("the employer of {x}", "the company that employed {x}"),
    "member of sports team": ("the sports team of {x}", "the team that {x} played for"),
    "director": ("the director of {x}", "the person who directed {x}"),
    "screenwriter": ("the screenwriter of {x}", "the person who wrote the screenplay of {x}"),
    "production company": ("the production company of {x}", "the company that produced {x}"),
    "based on": ("the novel that {x} is based on",),
    "author": ("the author of {x}", "the person who wrote {x}"),
    "publisher": ("the publisher of {x}", "the company that published {x}"),
    "performer": ("the performer of {x}", "the person who performed {x}"),
    "record label": ("the record label of {x}", "the label that issued {x}"),
    "lyrics by": ("the lyricist of {x}", "the person who wrote the lyrics of {x}"),
    "country of origin": ("the country of origin of {x}", "the country that {x} comes from"),
    "founded by": ("the founder of {x}", "the person who founded {x}"),
    "headquarters location": ("the city where {x} is based", "the headquarters location of {x}"),
    "chief executive officer": ("the chief executive officer of {x}", "the person who leads {x}"),
    "located in": ("the place where {x} is located",),
    "chancellor": ("the chancellor of {x}",),
    "head coach": ("the head coach of {x}", "the person who coaches {x}"),
    "owned by": ("the owner of {x}", "the company that owns {x}"),
    "country": ("the country of {x}", "the country to which {x} belongs"),
    "capital": ("the capital of {x}",),
    "mayor": ("the mayor of {x}", "the person who is mayor of {x}"),
    "head of state": ("the head of state of {x}",),
}


@dataclass(frozen=True)
class YesNoWording:
    """The wording of questions whether two entities of `kind` agree in what `path` leads to."""

    kind: Kind
    path: tuple[str, ...]
    forms: tuple[str, ...]


YES_NO: tuple[YesNoWording, ...] = (
    YesNoWording(
        Kind.PERSON,
        ("country of citizenship",),
        (
            "Are {a} and {b} citizens of the same country?",
            "Do {a} and {b} have the same country of citizenship?",
        ),
    ),
    YesNoWording(
        Kind.PERSON,
        ("educated at",),
        (
            "Did {a} and {b} study at the same university?",
            "Were {a} and {b} educated at the same university?",
        ),
    ),
    YesNoWording(
        Kind.PERSON,
        ("place of birth",),
        ("Were {a} and {b} born in the same city?", "Do {a} and {b} share a place of birth?"),
    ),
    YesNoWording(
        Kind.PERSON,
        ("employer",),
        ("Did {a} and {b} work for the same company?", "Do {a} and {b} have the same employer?"),
    ),
    YesNoWording(
        Kind.FILM,
        ("director",),
        (
            "Were {a} and {b} directed by the same person?",
            "Do the films {a} and {b} have the same director?",
        ),
    ),
    YesNoWording(
        Kind.FILM,
        ("country of origin",),
        (
            "Are the films {a} and {b} from the same country?",
            "Do {a} and {b} have the same country of origin?",
        ),
    ),
    YesNoWording(
        Kind.NOVEL,
        ("author",),
        (
            "Were the novels {a} and {b} written by the same author?",
            "Do {a} and {b} share an author?",
        ),
    ),
    YesNoWording(
        Kind.SONG,
        ("record label",),
        (
            "Were the songs {a} and {b} issued by the same label?",
            "Do {a} and {b} have the same record label?",
        ),
    ),
    YesNoWording(
        Kind.COMPANY,
        ("headquarters location",),
        (
            "Are {a} and {b} based in the same city?",
            "Do {a} and {b} have their headquarters in the same city?",
        ),
    ),
    YesNoWording(
        Kind.FILM,
        ("director", "country of citizenship"),
        (
            "Are the directors of {a} and {b} citizens of the same country?",
            "Do the director of {a} and the director of {b} share a country of citizenship?",
        ),
    ),
    YesNoWording(
        Kind.FILM,
        ("director", "place of birth"),
        ("Were the director of {a} and the director of {b} born in the same city?",),
    ),
    YesNoWording(
        Kind.NOVEL,
        ("author", "country of citizenship"),
        ("Are the authors of {a} and {b} citizens of the same country?",),
    ),
    YesNoWording(
        Kind.SONG,
        ("performer", "educated at"),
        ("Did the performer of {a} and the performer of {b} study at the same university?",),
    ),
)


@dataclass(frozen=True)
class ComparisonWording:
    """The wording of which of two of `kind` has the earlier or later date at the path's end."""

    kind: Kind
    path: tuple[str, ...]
    earlier: tuple[str, ...]
    later: tuple[str, ...]


COMPARISONS: tuple[ComparisonWording, ...] = (
    ComparisonWording(
        Kind.PERSON,
        ("date of birth",),
        ("Who was born first, {a} or {b}?", "Who is older, {a} or {b}?"),
        ("Who was born later, {a} or {b}?", "Who is younger, {a} or {b}?"),
    ),
    ComparisonWording(
        Kind.FILM,
        ("publication date",),
        ("Which film came out earlier, {a} or {b}?", "Which film was released first, {a} or {b}?"),
        (
            "Which film came out later, {a} or {b}?",
            "Which film was released more recently, {a} or {b}?",
        ),
    ),
    ComparisonWording(
        Kind.NOVEL,
        ("publication date",),
        ("Which novel came out earlier, {a} or {b}?",),
        ("Which novel came out later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.SONG,
        ("publication date",),
        ("Which song was released first, {a} or {b}?",),
        ("Which song was released later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.COMPANY,
        ("inception",),
        ("Which company was founded first, {a} or {b}?", "Which company is older, {a} or {b}?"),
        ("Which company was founded later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.UNIVERSITY,
        ("inception",),
        ("Which university was established earlier, {a} or {b}?",),
        ("Which university was established later, {a} or {b}?",),
    ),
)
BRIDGE_COMPARISONS: tuple[ComparisonWording, ...] = (
    ComparisonWording(
        Kind.FILM,
        ("director", "date of birth"),
        (
            "Which film has the director who was born first, {a} or {b}?",
            "Which film has the director who is older, {a} or {b}?",
        ),
        (
            "Which film has the director who was born later, {a} or {b}?",
            "Which film has the director who is younger, {a} or {b}?",
        ),
    ),
    ComparisonWording(
        Kind.NOVEL,
        ("author", "date of birth"),
        ("Which novel has the author who was born earlier, {a} or {b}?",),
        ("Which novel has the author who was born later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.SONG,
        ("performer", "date of birth"),
        ("Which song has the performer who was born earlier, {a} or {b}?",),
        ("Which song has the performer who was born later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.COMPANY,
        ("founded by", "date of birth"),
        ("Which company has the founder who was born earlier, {a} or {b}?",),
        ("Which company has the founder who was born later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.FILM,
        ("production company", "inception"),
        ("Which film has the production company that was founded earlier, {a} or {b}?",),
        ("Which film has the production company that was founded later, {a} or {b}?",),
    ),
    ComparisonWording(
        Kind.SONG,
        ("record label", "inception"),
        ("Which song has the record label that was founded earlier, {a} or {b}?",),
        ("Which song has the record label that was founded later, {a} or {b}?",),
    ),
)
# Conditions of an intersection: "Which person both {one} and {two}?"
CONDITIONS: dict[Kind, dict[str, tuple[str, ...]]] = {
    Kind.PERSON: {
        "educated at": ("studied at {x}", "was educated at {x}"),
        "employer": ("was employed by {x}", "worked for {x}"),
        "place of birth": ("was born in {x}",),
        "award received": ("received the {x}", "won the {x}"),
        "member of sports team": ("played for {x}",),
    },
    Kind.FILM: {
        "director": ("was directed by {x}",),
        "production company": ("was produced by {x}",),
        "country of origin": ("comes from {x}",),
    },
    Kind.SONG: {
        "performer": ("was performed by {x}",),
        "record label": ("was issued by {x}", "came out on {x}"),
    },
    Kind.NOVEL: {
        "author": ("was written by {x}",),
        "publisher": ("was published by {x}",),
        "country of origin": ("comes from {x}",),
    },
}
INTERSECTION_FORMS = (
    "Which {kind} both {one} and {two}?",
    "Which {kind} {one} and also {two}?",
    "What is the name of the {kind} that {one} and {two}?",
)


def ask(rng: Random, predicate: str, asked: str) -> str:
    """Return a question for the object of `predicate` of `asked` (a name or a phrase)."""
    return rng.choice(QUESTIONS[predicate]).format(x=asked)


def mention(rng: Random, entity: Entity) -> str:
    """Return a name as a question gives it: works now and then with their kind in front."""
    works = (Kind.FILM, Kind.NOVEL, Kind.SONG)
    if entity.kind in works and rng.random() < 0.4:
        return f"the {entity.kind} {entity.name}"
    return entity.name
