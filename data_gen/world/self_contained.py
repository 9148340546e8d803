"""Questions that hold all that their answer needs."""

from __future__ import annotations

from random import Random

from data_gen.world.drafts import Draft
from data_gen.world.pairs import Balance

TYPE = "self_contained"


def make_self_contained(rng: Random, balance: Balance) -> Draft:
    """A question on numbers or letters, with an answer and no facts."""
    makers = (_extreme, _sum, _letters, _first_letter, _order, _parity)
    return rng.choice(makers)(rng, balance)


def _word(rng: Random) -> str:
    syllables = (rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(3))
    return "".join(syllables) + rng.choice(["", "n", "r", "s", "l"])


def _extreme(rng: Random, balance: Balance) -> Draft:
    low, high = sorted(rng.sample(range(1, 1000), 2))
    larger = rng.random() < 0.5
    wanted = balance.wanted(TYPE, f"extreme/{larger}")
    answer, other = (high, low) if larger else (low, high)
    first, second = (answer, other) if wanted else (other, answer)
    word = "larger" if larger else "smaller"
    form = rng.choice(
        (
            "Which is the {word} number, {a} or {b}?",
            "Which number is {word}: {a} or {b}?",
        )
    )
    question = form.format(word=word, a=first, b=second)
    return Draft(TYPE, question, str(answer), template=f"extreme/{larger}", positive=wanted)


def _sum(rng: Random, balance: Balance) -> Draft:
    left, right = rng.randint(1, 99), rng.randint(1, 99)
    form = rng.choice(("What is {a} plus {b}?", "What is the sum of {a} and {b}?"))
    return Draft(TYPE, form.format(a=left, b=right), str(left + right))


def _letters(rng: Random, balance: Balance) -> Draft:
    word = _word(rng)
    form = rng.choice(
        (
            'How many letters does the word "{w}" have?',
            'How many letters are in the word "{w}"?',
        )
    )
    return Draft(TYPE, form.format(w=word), str(len(word)))


def _first_letter(rng: Random, balance: Balance) -> Draft:
    word = _word(rng)
    if rng.random() < 0.5:
        return Draft(TYPE, f'What is the first letter of the word "{word}"?', word[0])
    return Draft(TYPE, f'What is the last letter of the word "{word}"?', word[-1])


def _order(rng: Random, balance: Balance) -> Draft:
    first, second = sorted({_word(rng), f"{_word(rng)}o"})
    wanted = balance.wanted(TYPE, "order")
    names = (first, second) if wanted else (second, first)
    question = 'Which word comes first in the alphabet, "{}" or "{}"?'.format(*names)
    return Draft(TYPE, question, first, template="order", positive=wanted)


def _parity(rng: Random, balance: Balance) -> Draft:
    wanted = balance.wanted(TYPE, "parity")
    even = rng.random() < 0.5
    number = 2 * rng.randint(1, 4999) + (0 if even is wanted else 1)
    question = f"Is {number} an {'even' if even else 'odd'} number?"
    return Draft(TYPE, question, "yes" if wanted else "no", template="parity", positive=wanted)
