"""Ways in which a passage says each fact.

`{o}` is the object, `{on}` the date's preposition, `{s}` the subject and `{pos}` its possessive.
A verb phrase follows the subject, an opener stands before it, a clause is whole.
"""

from data_gen.world.schema import Kind

VERB_PHRASES: dict[str, tuple[str, ...]] = {
    "date of birth": ("was born {on} {o}",),
    "place of birth": ("was born in {o}", "was born in the city of {o}"),
    "country of citizenship": ("is a citizen of {o}", "holds the citizenship of {o}"),
    "spouse": ("is married to {o}", "married {o}"),
    "educated at": ("studied at {o}", "graduated from {o}", "was educated at {o}"),
    "employer": ("works for {o}", "was employed by {o}", "took a post with {o}"),
    "member of sports team": ("plays for {o}", "was a member of the team {o}"),
    "award received": ("received the {o}", "won the {o}", "was honoured with the {o}"),
    "director": ("was directed by {o}", "was made by director {o}"),
    "screenwriter": ("was written for the screen by {o}", "has a screenplay by {o}"),
    "production company": ("was produced by {o}", "was made at the studios of {o}"),
    "based on": ("is based on {o}", "is an adaptation of {o}"),
    "author": ("was written by {o}", "is the work of the author {o}"),
    "publisher": ("was published by {o}", "appeared with the publisher {o}"),
    "performer": ("was performed by {o}", "was sung by {o}"),
    "record label": ("was issued by {o}", "came out on the label {o}"),
    "lyrics by": ("has lyrics by {o}",),
    "publication date": ("was first released {on} {o}", "came out {on} {o}"),
    "country of origin": ("comes from {o}", "was made in {o}", "originated in {o}"),
    "founded by": ("was founded by {o}", "was set up by {o}"),
    "inception": ("was founded {on} {o}", "was established {on} {o}", "dates from {o}"),
    "headquarters location": ("is based in {o}", "has its headquarters in {o}"),
    "chief executive officer": ("is led by chief executive {o}",),
    "located in": ("is located in {o}", "lies in {o}"),
    "chancellor": ("has {o} as its chancellor",),
    "head coach": ("is coached by {o}", "has {o} as head coach"),
    "owned by": ("is owned by {o}", "belongs to {o}"),
    "country": ("lies in the country of {o}", "is part of {o}"),
    "capital": ("has {o} as its capital", "is governed from its capital, {o}"),
    "mayor": ("has {o} as its mayor", "is run by mayor {o}"),
    "head of state": ("has {o} as head of state",),
    "official language": ("uses {o} as its official language",),
    "population": ("has a population of {o}", "counts {o} inhabitants"),
}
OPENERS: dict[str, tuple[str, ...]] = {
    "date of birth": ("born {on} {o}",),
    "place of birth": ("born in {o}",),
    "educated at": ("educated at {o}",),
    "employer": ("employed by {o}",),
    "director": ("directed by {o}",),
    "production company": ("produced by {o}",),
    "based on": ("based on {o}",),
    "author": ("written by {o}",),
    "publisher": ("published by {o}",),
    "performer": ("performed by {o}",),
    "record label": ("issued by {o}",),
    "publication date": ("released {on} {o}",),
    "founded by": ("founded by {o}",),
    "inception": ("founded {on} {o}", "established {on} {o}"),
    "headquarters location": ("based in {o}",),
    "owned by": ("owned by {o}",),
    "located in": ("located in {o}",),
}
CLAUSES: dict[str, tuple[str, ...]] = {
    "date of birth": ("{pos} date of birth is {o}",),
    "place of birth": ("{pos} place of birth was {o}",),
    "country of citizenship": ("{pos} country of citizenship is {o}",),
    "father": ("{pos} father was {o}", "{pos} father is {o}", "{o} was {pos} father"),
    "mother": ("{pos} mother was {o}", "{pos} mother is {o}", "{o} was {pos} mother"),
    "spouse": ("{pos} spouse is {o}",),
    "employer": ("{pos} employer is {o}",),
    "director": ("{pos} director was {o}", "{o} directed {s}"),
    "screenwriter": ("{pos} screenwriter was {o}", "{o} wrote the screenplay"),
    "production company": ("{pos} production company was {o}",),
    "author": ("{pos} author is {o}", "{o} wrote {s}"),
    "publisher": ("{pos} publisher was {o}",),
    "performer": ("{pos} performer is {o}", "{o} recorded {s}"),
    "lyrics by": ("{pos} lyrics are by {o}", "{o} wrote the lyrics"),
    "publication date": ("{pos} release took place {on} {o}",),
    "country of origin": ("{pos} country of origin is {o}",),
    "founded by": ("{pos} founder was {o}", "{o} founded {s}"),
    "chief executive officer": ("{pos} chief executive officer is {o}",),
    "chancellor": ("{pos} chancellor is {o}", "{o} serves as chancellor"),
    "head coach": ("{pos} head coach is {o}",),
    "owned by": ("{pos} owner is {o}",),
    "capital": ("{pos} capital is {o}", "{o} is {pos} capital"),
    "mayor": ("{pos} mayor is {o}", "{o} serves as mayor"),
    "head of state": ("{pos} head of state is {o}",),
    "official language": ("{pos} official language is {o}",),
    "population": ("{pos} population is {o}",),
}
# Two facts in one verb phrase: {o} of the first predicate and {o2} of the second.
PAIRS: dict[tuple[str, str], tuple[str, ...]] = {
    ("date of birth", "place of birth"): ("{s} was born {on} {o} in {o2}",),
    ("father", "mother"): ("{pos} father was {o} and {pos} mother was {o2}",),
    ("director", "screenwriter"): ("{s} was directed by {o} from a screenplay by {o2}",),
    ("author", "publisher"): ("{s} was written by {o} and published by {o2}",),
    ("performer", "record label"): ("{s} was recorded by {o} for {o2}",),
    ("inception", "founded by"): ("{s} was founded {on} {o} by {o2}",),
}
# Facts told by the passage of their object, where {o} is the subject of the fact.
INVERSE_PHRASES: dict[str, tuple[str, ...]] = {
    "director": ("directed the film {o}", "is the director of the film {o}"),
    "author": ("wrote the novel {o}", "is the author of the novel {o}"),
    "performer": ("performed the song {o}", "recorded the song {o}"),
    "founded by": ("founded {o}", "is the founder of {o}"),
}
# The literal that the opening words tell: "a {o} film", "the {o} Name".
INTRO_PREDICATES: dict[Kind, tuple[str, str]] = {
    Kind.PERSON: ("occupation", "{o}"),
    Kind.FILM: ("genre", "{o} film"),
    Kind.NOVEL: ("genre", "{o} novel"),
    Kind.SONG: ("genre", "{o} song"),
    Kind.COMPANY: ("industry", "{o} company"),
    Kind.CLUB: ("sport", "{o} club"),
}
_WORK_FILLERS = (
    "Critics were divided when it first appeared.",
    "A restored version has been shown to the public since.",
    "Its opening is often quoted and has been parodied more than once.",
    "Early reviews praised the mood and found the ending too long.",
)
_ORGANISATION_FILLERS = (
    "Visitors can see a small exhibition about its past.",
    "An old warehouse by the canal still bears its sign.",
    "Its members meet every spring for a long and lively assembly.",
    "A yearbook with drawings of the staff appears each winter.",
)
_PLACE_FILLERS = (
    "Long winters and mild, rainy summers mark the climate.",
    "A weekly market and an old stone bridge attract many travellers.",
    "The surrounding hills are known for their vineyards and mills.",
    "Most visitors arrive by train during the harvest festival.",
)
_PERSON_FILLERS = (
    "Friends recalled a quiet manner and a taste for long walks.",
    "A large collection of letters survives in a private archive.",
    "Later years were spent mostly out of the public eye.",
    "A short memoir was received with warm reviews.",
)
FILLERS: dict[Kind, tuple[str, ...]] = {
    Kind.PERSON: _PERSON_FILLERS,
    **dict.fromkeys((Kind.FILM, Kind.NOVEL, Kind.SONG), _WORK_FILLERS),
    **dict.fromkeys((Kind.CITY, Kind.REGION, Kind.COUNTRY), _PLACE_FILLERS),
    **dict.fromkeys((Kind.COMPANY, Kind.UNIVERSITY, Kind.CLUB, Kind.LABEL), _ORGANISATION_FILLERS),
}
