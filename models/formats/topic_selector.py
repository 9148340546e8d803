"""What the topic selector reads and writes: an entity in its sentence, its topic and subtopic
(TH-RAG App. A.3, E.1)."""

from dataclasses import dataclass

from models.formats.history import one_line


@dataclass(frozen=True, order=True)
class Topic:
    """Where an entity belongs: `subtopic` is the kind of thing, `topic` the field above it."""

    topic: str
    subtopic: str


def topic_prompt(entity: str, sentence: str) -> str:
    """The prompt for an entity's topic; ends in a line break, the topic follows."""
    return f"Sentence: {one_line(sentence)}\nEntity: {one_line(entity)}\nTopic:\n"


def format_topic(topic: Topic) -> str:
    """Write `topic | subtopic`. Raises ValueError when one is empty or holds a `|`."""
    parts = [one_line(topic.topic), one_line(topic.subtopic)]
    if not all(parts) or any("|" in part for part in parts):
        raise ValueError(f"{topic}: a topic and a subtopic are words without |")
    return " | ".join(parts)


def parse_topic(text: str) -> Topic | None:
    """The first line of the form `topic | subtopic`; None without one, never raises."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 2 and all(parts):
            return Topic(*parts)
    return None
