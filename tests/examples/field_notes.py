"""A data source: notes as `{note, facts: ["subject > predicate > object"]}`. All of it is here."""

from data_gen.sources.checks import triples_sample
from data_gen.sources.rows import Row
from models.formats.fields import FieldReader
from models.formats.records import TriplesSample


def convert(row: Row) -> TriplesSample:
    """Return one row as a text with its triples. Raises RecordError."""
    reader = FieldReader(row.value, row.where)
    facts = [str(fact).split(" > ") for fact in reader.record.get("facts", [])]
    if not facts or any(len(fact) != 3 for fact in facts):
        raise reader.fail("facts", "holds no facts", "Write 'subject > predicate > object'")
    sample = {"id": row.fallback_id, "text": reader.text("note"), "triples": facts}
    return triples_sample(sample, row.where)
