"""Invented names, built from syllables so that none is taken from the real world."""

from random import Random

# Plain syllables cost a tokenizer fewer pieces than clusters do, and a small model copies them.
ONSETS = [
    "b", "br", "d", "dr", "f", "g", "gr", "h", "j", "k", "l", "m", "n", "p", "pr", "r", "s", "st",
    "t", "tr", "v", "z",
]  # fmt: skip
NUCLEI = ["a", "e", "i", "o", "u"]
CODAS = ["l", "n", "r", "s", "x", "k", "m", "lm", "nd", "rk"]
FILM_PATTERNS = (
    "Night over {root}",
    "The {root} Testament",
    "Return to {root}",
    "The Clockmaker of {root}",
    "{root} in Winter",
    "Seven Doors of {root}",
    "The Last Train from {root}",
    "A Season in {root}",
)
NOVEL_PATTERNS = (
    "The Orchards of {root}",
    "A History of {root}",
    "{root} and the Tide",
    "Letters to {root}",
    "The Salt Roads of {root}",
    "The House at {root}",
)
SONG_PATTERNS = (
    "{root} Blues",
    "Dancing with {root}",
    "Goodbye {root}",
    "Lanterns for {root}",
    "Hey {root}",
    "{root} Avenue",
)
COMPANY_PATTERNS = ("{root} Industries", "{root} Holdings", "{root} & Partners", "{root} Works")
CLUB_PATTERNS = ("{root} Rovers", "{root} Athletic", "{root} Wanderers", "{root} United")
LABEL_PATTERNS = ("{root} Records", "{root} Sound", "{root} Recordings")


class NameMaker:
    """Hands out names, each at most once in a world."""

    def __init__(self, rng: Random, people: int) -> None:
        """`people`: how many persons are to be named; it sets the size of the name pools."""
        self._rng = rng
        self._taken: set[str] = set()
        size = max(24, int(people**0.5))
        self._given = {gender: [self.root(2) for _ in range(size)] for gender in "fm"}
        self._surnames: list[str] = []

    def root(self, syllables: int | None = None) -> str:
        """Return a new capitalised word of two or three syllables."""
        rng = self._rng
        while True:
            count = syllables or rng.choice((2, 2, 3))
            # Only the last syllable is closed: open ones before it keep the word readable, and a
            # closed end keeps short words away from the likes of "Lima" and "Nora".
            parts = [rng.choice(ONSETS) + rng.choice(NUCLEI) for _ in range(count)]
            word = ("".join(parts) + rng.choice(CODAS)).capitalize()
            if word not in self._taken:
                self._taken.add(word)
                return word

    def surname(self) -> str:
        """Return a new surname, or one time in seven the surname of somebody else."""
        if self._surnames and self._rng.random() < 1 / 7:
            return self._rng.choice(self._surnames)
        self._surnames.append(self.root())
        return self._surnames[-1]

    def person(self, gender: str, surname: str) -> str:
        """Return a full name that nobody else bears."""
        name = f"{self._rng.choice(self._given[gender])} {surname}"
        if name in self._taken:
            name = f"{self.root(2)} {surname}"
        self._taken.add(name)
        return name

    def from_pattern(self, patterns: tuple[str, ...]) -> str:
        """Return a title or an organisation's name around a new word."""
        return self._rng.choice(patterns).format(root=self.root())

    def around_city(self, city: str, patterns: tuple[str, ...]) -> str:
        """Return a name after a city, or after a new word where that name is taken."""
        name = self._rng.choice(patterns).format(root=city)
        if name in self._taken:
            return self.from_pattern(patterns)
        self._taken.add(name)
        return name
