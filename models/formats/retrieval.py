"""What a sentence encoder learns retrieval from: a query, its passage and passages like it."""

from dataclasses import dataclass, field
from typing import Any, Self

from models.formats.fields import FieldReader
from models.formats.prompts import passage_text


@dataclass(frozen=True)
class TitledText:
    """A passage without an id; the title may be empty."""

    title: str
    text: str

    @property
    def written(self) -> str:
        """Return the text that an encoder reads, as an index of passages has it."""
        return passage_text(self.title, self.text)

    @classmethod
    def read(cls, value: Any) -> Self:
        """Read a JSON object of title and text. Raises ValueError, KeyError, TypeError."""
        title, text = value.get("title") or "", value["text"]
        if not (isinstance(title, str) and isinstance(text, str) and text.strip()):
            raise ValueError("title and text are strings, and the text is not blank")
        return cls(title, text)


@dataclass(frozen=True)
class RetrievalSample:
    """A query, a passage that supports its answer, and passages that only look like it.

    id: `<question id>/retrieve/<k>`. negatives: hardest first. source: the data set.
    """

    id: str
    query: str
    positive: TitledText
    negatives: list[TitledText] = field(default_factory=list)
    source: str = ""

    @property
    def source_id(self) -> str:
        """The id of the question that the sample was made from."""
        return self.id.rsplit("/retrieve/", 1)[0]

    @classmethod
    def from_json(cls, record: Any, where: str = "") -> Self:
        """Read one sample. Raises RecordError for a blank query or a passage of another form."""
        reader = FieldReader(record, where)
        query = reader.text("query")
        if not query.strip():
            raise reader.fail("query", "is blank", "Write the question to be searched for")
        shape = "{title, text} with a text that is not blank"
        if reader.record.get("positive") is None:
            raise reader.fail("positive", "missing", f"Add the supporting passage as {shape}")
        try:
            positive = TitledText.read(reader.record["positive"])
        except (AttributeError, TypeError, ValueError, KeyError):
            raise reader.fail("positive", "has the wrong form", f"Write {shape}") from None
        negatives = reader.items("negatives", _negative, shape)
        return cls(reader.text("id"), query, positive, negatives, reader.text("source", ""))

    def to_json(self) -> dict[str, Any]:
        """The JSON object of the contract."""
        negatives = [dict(vars(passage)) for passage in self.negatives]
        return {**vars(self), "positive": dict(vars(self.positive)), "negatives": negatives}


def _negative(value: Any) -> TitledText:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return TitledText.read(value)
