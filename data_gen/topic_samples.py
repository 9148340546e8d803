"""The topic selector's samples: the entities of a world in their sentences (TH-RAG App. E.1)."""

import json
from collections.abc import Iterator
from pathlib import Path

from data_gen.helper_material import sample_id
from data_gen.world.passages import Passage, write_passages
from data_gen.world.population import build_population
from data_gen.world.records import passage_record
from data_gen.world.schema import Kind, World
from models.formats.prompts import passage_text
from models.formats.records import InstructionSample, PassageRecord, read_records
from models.formats.topic_selector import Topic, format_topic, topic_prompt

# The fields and kinds of TH-RAG's own examples where they have the kind.
TOPICS = {
    Kind.PERSON: Topic("Biography", "Person"),
    Kind.FILM: Topic("Cinema", "Film"),
    Kind.NOVEL: Topic("Literature", "Novel"),
    Kind.SONG: Topic("Music", "Song"),
    Kind.LABEL: Topic("Music", "Record label"),
    Kind.COMPANY: Topic("Business", "Company"),
    Kind.UNIVERSITY: Topic("Education", "University"),
    Kind.CLUB: Topic("Sports", "Sports club"),
    Kind.CITY: Topic("Geography", "City"),
    Kind.REGION: Topic("Geography", "Region"),
    Kind.COUNTRY: Topic("Geography", "Country"),
}


def topic_samples(folder: Path) -> Iterator[InstructionSample]:
    """One an entity and sentence that tells a fact of it, with the entity's own kind.

    The kinds are those that the world was made with, from its card's size and seed. Raises
    ValueError where that makes another world than the folder's.
    """
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    seed = card["seed"]
    world = build_population(card["entities"], seed)
    passages = write_passages(world, seed)
    if list(read_records(folder / "corpus.jsonl", PassageRecord)) != [
        *map(passage_record, passages)
    ]:
        raise ValueError(
            f"{folder}: not the world that its card's size and seed make now. Build it again with "
            "build_world.py"
        )
    taken: dict[int, int] = {}
    for passage in passages:
        for entity, sentence in _named(world, passage):
            number = taken[entity] = taken.get(entity, -1) + 1
            named = world.entities[entity]
            yield InstructionSample(
                sample_id(f"world{seed}-e{entity:06d}", "topic", number),
                "topic",
                topic_prompt(named.name, sentence),
                format_topic(TOPICS[named.kind]),
            )


def _named(world: World, passage: Passage) -> Iterator[tuple[int, str]]:
    """Entities that a sentence tells a fact of, each once a sentence, and the sentence after the
    passage's title."""
    pairs = dict.fromkeys(
        (entity, number)
        for fact, number in passage.told
        for entity in (fact.subject, fact.object)
        if entity is not None
    )
    for entity, number in pairs:
        yield entity, passage_text(passage.entity.name, passage.sentences[number])
