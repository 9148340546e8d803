"""Questions with their supporting documents, as each stage reads and writes them."""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from data_gen.facts.entities import mentions
from data_gen.facts.held_out import HeldOutQuestions
from data_gen.sources.arguments import NamedPath, SkippedRecords
from data_gen.sources.open_source import read_questions
from data_gen.streaming.groups import DiskGroups
from evaluation.answers import golden_match, normalise_answer
from models.formats.prompts import passage_text
from models.formats.records import QuestionRecord

UNITS = ("paragraphs", "sentences")
# Answers that a question chooses from and no document need hold.
_CHOSEN = frozenset({"yes", "no", "noanswer"})
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_LINK = re.compile(r"\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_DOCUMENTS_CUT = "documents cut to the token limit"
SAME_ID = "same id again"
BROKEN = "broken records"


@dataclass(frozen=True)
class SupportingDocument:
    """A text that the question's answer rests on, and the sentences of it that are named."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[int, ...] = (0,)

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(s.strip() for s in self.sentences).strip()


@dataclass
class PreparedDocuments:
    """A question's documents in the order to ask for them; `problem` says why there are none."""

    documents: list[SupportingDocument] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str = ""


@dataclass(frozen=True)
class DocumentRules:
    """Rules by which documents are made.

    unit: whole paragraphs, or each named sentence as a document of its own, as in the first
    example of RAS Fig. 7. max_tokens: of a document; longer ones lose their end.
    """

    unit: str
    max_tokens: int
    count_tokens: Callable[[str], int]


def clean_text(text: str) -> str:
    """Text without HTML tags and entities, wiki links and templates, and control characters."""
    plain = _CONTROL.sub(" ", text.encode("utf-8", "replace").decode("utf-8"))
    plain = _TAG.sub("", html.unescape(plain))
    return _TEMPLATE.sub("", _LINK.sub(r"\1", plain))


def clean_record(record: QuestionRecord) -> QuestionRecord:
    """Return the record with clean texts, and the facts' titles as those of the paragraphs."""
    context = [(clean_text(t), [clean_text(s) for s in texts]) for t, texts in record.context]
    facts = [(clean_text(title), index) for title, index in record.supporting_facts]
    return replace(
        record,
        question=clean_text(record.question) or record.question,
        answer=clean_text(record.answer) or record.answer,
        answer_aliases=[clean_text(alias) for alias in record.answer_aliases],
        context=context,
        supporting_facts=facts,
    )


def prepare_documents(record: QuestionRecord, rules: DocumentRules) -> PreparedDocuments:
    """Return the documents that a cleaned record's supporting facts name.

    Those whose title the question mentions come first, so that a bridge is asked for before what
    lies behind it. A repeated title stands for its first paragraph that holds the named sentences.
    """
    prepared = PreparedDocuments()
    titles = list(dict.fromkeys(title for title, _ in record.supporting_facts))
    titles.sort(key=lambda title: not mentions(record.question, title))
    if not titles:
        prepared.problem = "no supporting documents"
        return prepared
    for title in titles:
        found = _paragraph(record, title, prepared.notes)
        if found is None or not found.text:
            prepared.problem = "a supporting document without text"
            return prepared
        units = _sentences(found) if rules.unit == "sentences" else [found]
        prepared.documents += [_cut(unit, rules, prepared.notes) for unit in units]
    if not holds_answer(record, prepared.documents):
        prepared.problem = "the answer is in no supporting document"
    return prepared


def _paragraph(record: QuestionRecord, title: str, notes: list[str]) -> SupportingDocument | None:
    """Return the paragraph that a title means, with the sentences that the facts name."""
    named = sorted({index for name, index in record.supporting_facts if name == title})
    texts = list(dict.fromkeys(tuple(s) for name, s in record.context if name == title))
    if not texts:
        return None
    if len(texts) > 1:
        notes.append("titles that stand for several paragraphs")
    chosen = next((s for s in texts if named[-1] < len(s)), texts[0])
    facts = tuple(index for index in named if 0 <= index < len(chosen))
    return SupportingDocument(title, chosen, facts or (0,))


def _sentences(document: SupportingDocument) -> list[SupportingDocument]:
    named = [document.sentences[index] for index in document.facts]
    return [SupportingDocument(document.title, (text,)) for text in named if text.strip()]


def _cut(
    document: SupportingDocument, rules: DocumentRules, notes: list[str]
) -> SupportingDocument:
    kept = cut_to_tokens(document.text, rules.max_tokens, rules.count_tokens)
    if kept == document.text:
        return document
    notes.append(_DOCUMENTS_CUT)
    return SupportingDocument(document.title, (kept,))


def cut_to_tokens(text: str, limit: int, count_tokens: Callable[[str], int]) -> str:
    """Return the longest beginning of a text, by whole words, that has at most `limit` tokens."""
    # A token has at least one byte: most texts need not be counted.
    if len(text.encode("utf-8", "replace")) <= limit or count_tokens(text) <= limit:
        return text
    words = text.split()
    fits, too_many = 0, len(words)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if count_tokens(" ".join(words[:middle])) <= limit:
            fits = middle
        else:
            too_many = middle
    return " ".join(words[:fits])


def holds_answer(record: QuestionRecord, documents: Sequence[SupportingDocument]) -> bool:
    """Return whether a document or its title has an answer in it; "yes" and "no" need none."""
    if any(normalise_answer(answer) in _CHOSEN for answer in record.answers):
        return True
    texts = [passage_text(document.title, document.text) for document in documents]
    return any(golden_match(text, record.answers, whole_words=True) for text in texts)


def with_documents(
    record: QuestionRecord,
    kept: Sequence[SupportingDocument],
    dropped: Sequence[SupportingDocument],
) -> QuestionRecord:
    """Return the record whose supporting documents are `kept`, in this order.

    No other paragraph has a kept one's title, so that a title says which they are. What was
    dropped stays as a paragraph like any other where its title is its own.
    """
    titles = {document.title for document in (*kept, *dropped)}
    others = [(title, texts) for title, texts in record.context if title not in titles]
    documents = [*kept, *(d for d in dropped if d.title not in {k.title for k in kept})]
    facts = [(d.title, index) for d in kept for index in d.facts]
    context = [(d.title, list(d.sentences)) for d in documents] + others
    return replace(record, context=context, supporting_facts=list(dict.fromkeys(facts)))


def kept_documents(record: QuestionRecord) -> list[int]:
    """Return positions of the documents that `with_documents` kept, in their order."""
    order = {
        title: i for i, title in enumerate(dict.fromkeys(t for t, _ in record.supporting_facts))
    }
    found = [i for i, (title, _) in enumerate(record.context) if title in order]
    return sorted(found, key=lambda index: order[record.context[index][0]])


@dataclass
class QuestionFiles:
    """Reads the files anew each time it is gone through, so that they need no memory.

    limit: only the first so many questions of all files together. skip_bad: broken records are
    counted instead of raised. held_out: test questions, which are left out with what shares a hop
    or a fact with one. After a pass: left_out by reason, read in all and of each file.
    """

    files: Sequence[NamedPath]
    limit: int | None = None
    skip_bad: bool = False
    held_out: HeldOutQuestions = field(default_factory=HeldOutQuestions)
    left_out: Counter[str] = field(default_factory=Counter)
    read: int = 0
    read_of: Counter[str] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[QuestionRecord]:
        """Yield questions to decide about. Raises RecordError, FileNotFoundError."""
        self.left_out, self.read, self.read_of = Counter(), 0, Counter()
        seen = DiskGroups()
        for record in islice(self._records(), self.limit):
            self.read += 1
            if record.id in seen:
                self.left_out[SAME_ID] += 1
            elif leak := self.held_out.reason(record):
                self.left_out[leak.value] += 1
            else:
                yield record
            seen.add(record.id)

    def _records(self) -> Iterator[QuestionRecord]:
        skipped = SkippedRecords(self.skip_bad)
        for file in self.files:
            before = skipped.counts.total()
            for record in read_questions(file.name, file.path, skipped.handler(file.name)):
                self._count_broken(skipped.counts.total() - before)
                before = skipped.counts.total()
                self.read_of[file.path] += 1
                yield record
            self._count_broken(skipped.counts.total() - before)

    def _count_broken(self, broken: int) -> None:
        if broken:
            self.left_out[BROKEN] += broken
            self.read += broken
