"""A world in the form of the data contracts, and the counts that its card tells."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from data_gen.world.drafts import Draft, Library
from data_gen.world.passages import Passage
from data_gen.world.schema import Entity, Fact, Kind, World
from models.formats.prompts import passage_text
from models.formats.records import DecompositionStep, PassageRecord, QuestionRecord, TriplesSample
from models.formats.triples import Triple

CONTEXT_PASSAGES = 8


class Figures:
    """Counts questions as they are written."""

    def __init__(self) -> None:
        self._splits: Counter[str] = Counter()
        self._types: Counter[str] = Counter()
        self._hops: Counter[int] = Counter()
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, Counter[str]] = {}

    def add(self, split: str, record: QuestionRecord) -> None:
        """Count one question; its hops are its evidence triples."""
        self._splits[split] += 1
        self._types[record.type] += 1
        self._hops[len(record.evidences)] += 1
        self._asked.update(triple.predicate for triple in record.evidences)
        if record.type == "yes_no":
            self._answers.setdefault("yes_no", Counter())[record.answer] += 1

    def card(self, library: Library, seed: int, fractions: Sequence[float]) -> dict[str, object]:
        """Return the card: everything that was counted, in a fixed order."""
        told = Counter(fact.predicate for passage in library.passages for fact, _ in passage.told)
        words = [len(passage.text.split()) for passage in library.passages]
        return {
            "source": "world",
            "seed": seed,
            "fractions": list(fractions),
            "entities": len(library.world.entities),
            "entities_by_kind": {str(kind): len(all_) for kind, all_ in library.by_kind.items()},
            "passages": len(library.passages),
            "words_per_passage": {
                "min": min(words),
                "mean": round(sum(words) / len(words), 1),
                "max": max(words),
            },
            "triples": sum(told.values()),
            "triples_by_predicate": dict(sorted(told.items())),
            "facts_told_by_their_object": len(library.world.home),
            "questions": sum(self._splits.values()),
            "splits": {name: self._splits[name] for name in ("train", "dev", "test")},
            "types": dict(sorted(self._types.items())),
            "hops": {str(hops): count for hops, count in sorted(self._hops.items())},
            "evidence_predicates": dict(sorted(self._asked.items())),
            "yes_no_answers": dict(sorted(self._answers.get("yes_no", Counter()).items())),
            "vocabulary": {
                "predicates": len({fact.predicate for p in library.passages for fact, _ in p.told}),
                "entity_names": len(library.world.entities),
                "distinct_words": len({w for p in library.passages for w in p.text.split()}),
            },
        }


def triple_of(world: World, fact: Fact) -> Triple:
    """Return a fact as a triple: the subject's full name, the object as the passage has it."""
    return Triple(world.entities[fact.subject].name, fact.predicate, fact.surface)


def passage_record(passage: Passage) -> PassageRecord:
    """Return a passage of the corpus, titled by its entity."""
    return PassageRecord(passage.id, passage.entity.name, passage.text)


def triples_sample(world: World, passage: Passage) -> TriplesSample:
    """Return a passage with its gold triples in the order in which it tells them."""
    triples = [triple_of(world, fact) for fact, _ in passage.told]
    return TriplesSample(passage.id, passage_text(passage.entity.name, passage.text), triples)


class QuestionWriter:
    """Puts drafts into records, with a context of supporting and distracting passages."""

    def __init__(self, library: Library, seed: int) -> None:
        self._library = library
        self._rng = Random(f"trivium-world/{seed}/contexts")
        self._seed = seed
        self._namesakes: dict[str, list[int]] = {}
        for person in library.by_kind[Kind.PERSON]:
            self._namesakes.setdefault(person.name.split()[-1], []).append(person.index)

    def write(self, number: int, draft: Draft) -> QuestionRecord:
        """Return the record of the `number`-th question of the data set."""
        library = self._library
        places = [library.sentence_of[fact.key] for fact in draft.facts]
        context = self._context([index for index, _ in places])
        titles = [library.world.entities[index].name for index in context]
        steps = [
            DecompositionStep(question, answer, context.index(place[0]))
            for question, answer, place in zip(
                draft.sub_questions, draft.sub_answers, places, strict=True
            )
        ]
        supporting = [(library.world.entities[index].name, line) for index, line in places]
        return QuestionRecord(
            id=f"world{self._seed}-q{number:06d}",
            question=draft.question,
            answer=draft.answer,
            answer_aliases=list(draft.aliases),
            type=draft.type,
            context=[
                (title, list(library.passages[index].sentences))
                for title, index in zip(titles, context, strict=True)
            ],
            supporting_facts=list(dict.fromkeys(supporting)),
            evidences=[triple_of(library.world, fact) for fact in draft.facts],
            question_decomposition=steps,
        )

    def _context(self, supporting: list[int]) -> list[int]:
        """Return the indices of the supporting passages and of distractors, shuffled."""
        chosen = dict.fromkeys(supporting)
        near = [index for one in supporting for index in self._near(one)]
        self._rng.shuffle(near)
        # Half of the distractors are close to the question, the others of the same kinds.
        room = (CONTEXT_PASSAGES - len(chosen) + 1) // 2
        fresh = [index for index in dict.fromkeys(near) if index not in chosen]
        chosen.update(dict.fromkeys(fresh[:room]))
        while len(chosen) < CONTEXT_PASSAGES:
            chosen[self._other(supporting)] = None
        context = list(chosen)
        self._rng.shuffle(context)
        return context

    def _near(self, index: int) -> list[int]:
        """Return the entities that the passage mentions, and people of the same surname."""
        entity = self._library.world.entities[index]
        mentioned = [fact.object for fact in self._library.world.facts[index].values()]
        near = [other for other in mentioned if other is not None]
        if entity.kind is Kind.PERSON:
            namesakes = self._namesakes[entity.name.split()[-1]]
            near += self._rng.sample(namesakes, min(2, len(namesakes)))
        return near

    def _other(self, supporting: list[int]) -> int:
        entities = self._library.world.entities
        if not supporting or self._rng.random() < 0.2:
            return self._rng.choice(entities).index
        kind = entities[self._rng.choice(supporting)].kind
        pool: list[Entity] = self._library.by_kind[kind]
        return self._rng.choice(pool).index
