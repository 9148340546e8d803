"""Files of many kinds as a corpus: what is read, where it stands, and what cannot be read."""

import json
import os
import subprocess
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inference.ask
import inference.ingest
from inference.documents import ingestion
from inference.documents.chunks import chunks_of
from inference.documents.document import Block, Document, UnreadableFileError
from inference.documents.ingestion import IngestionError, ingest
from inference.documents.markdown import markdown_blocks
from inference.documents.own_corpus import own_corpus
from inference.documents.readers import READERS, read_documents
from inference.retrieval.passages import load_corpus
from models.formats.planning import one_line
from tests.inference.sample_documents import (
    AES_PDF,
    HTML,
    MARKDOWN,
    RADIUM,
    write_docx,
    write_pdf,
)
from tests.run_main import run_main


def count_words(text: str) -> int:
    return len(text.split())


def take_in(*paths: Path, out: Path, max_tokens: int = 40) -> ingestion.Ingested:
    return ingest(paths, out, max_tokens, "words", count_words)


def records(corpus: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One file of each kind."""
    made = tmp_path / "docs"
    made.mkdir()
    (made / "a.md").write_text(MARKDOWN, encoding="utf-8")
    (made / "b.html").write_text(HTML, encoding="utf-8")
    (made / "c.txt").write_text(RADIUM, encoding="utf-8")
    write_docx(made / "d.docx", [("Heading1", "Radium"), ("", RADIUM)])
    write_pdf(made / "e.pdf", [["Radium was discovered by Marie Curie", "and Pierre in 1898."]])
    (made / "f.csv").write_text("element;year\nradium;1898\n", encoding="utf-8")
    (made / "g.jsonl").write_text(json.dumps({"id": "own", "text": RADIUM}), encoding="utf-8")
    return made


# What is read.


def test_every_kind_of_file_tells_of_radium(folder: Path, tmp_path: Path) -> None:
    done = take_in(folder, out=tmp_path / "corpus.jsonl")
    assert done.counts["files read"] == len(READERS) - 3  # .markdown, .htm and .tsv read the same
    assert not done.problems and not done.notes
    found = records(tmp_path / "corpus.jsonl")
    assert {Path(record["file"]).suffix for record in found} == {
        path.suffix for path in folder.iterdir()
    }
    for suffix in (".md", ".html", ".txt", ".docx", ".pdf", ".csv", ".jsonl"):
        text = " ".join(r["text"] for r in found if r["file"].endswith(suffix))
        assert "1898" in text, suffix
    assert load_corpus(tmp_path / "corpus.jsonl")[-1].id == "own"


def test_markdown_is_read_without_its_marks_under_its_headings() -> None:
    blocks = markdown_blocks(MARKDOWN)
    assert [(block.headings, block.text) for block in blocks] == [
        (("Radium",), "Radium is a chemical element."),
        (
            ("Radium", "Discovery"),
            "Radium was discovered by Marie Curie in 1898. They found it in uraninite.",
        ),
        (("Radium", "Discovery"), "unit: curie; named after: Pierre Curie."),
        (("Radium", "Uses"), "It lit the dials of watches."),
    ]
    assert "Marie Curie" in MARKDOWN[blocks[1].start : blocks[1].end]


def test_what_a_page_would_run_or_repeat_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(HTML, encoding="utf-8")
    [document] = read_documents(path)
    text = " ".join(block.text for block in document.blocks)
    assert "uraninite" in text and "evil" not in text and "alert" not in text
    assert "About" not in text
    assert {block.headings for block in document.blocks} == {("Radium",), ("Radium", "Source")}
    short = tmp_path / "short.html"
    short.write_text("<p>Short.</p><script>evil()</script>", encoding="utf-8")
    [document] = read_documents(short)
    assert [block.text for block in document.blocks] == ["Short."]


def test_a_pdf_s_sentences_go_over_lines_and_pages(tmp_path: Path) -> None:
    pages = [["It was discov-", "ered by Marie Curie. They", "1"], ["found it in uraninite."]]
    path = write_pdf(tmp_path / "e.pdf", pages, "On radium")
    [document] = read_documents(path)
    chunks = chunks_of(document, 6, count_words)
    assert [(chunk.text, chunk.page) for chunk in chunks] == [
        ("It was discovered by Marie Curie.", 1),
        ("They found it in uraninite.", 1),
    ]
    assert document.title == "On radium" and document.page_of(document.page_starts[1]) == 2


def test_a_pdf_s_outline_gives_its_headings(tmp_path: Path) -> None:
    pages = [
        ["Summary first.", "1 Discovery", "Marie Curie found radium.", "1.1 The long", "way there"],
        ["It took years.", "Uses", "It lit dials."],
    ]
    writer = pypdf.PdfWriter(clone_from=write_pdf(tmp_path / "e.pdf", pages, "Radium"))
    discovery = writer.add_outline_item(title="Discovery", page_number=0)
    writer.add_outline_item(title="1.1 The long way there", page_number=0, parent=discovery)
    writer.add_outline_item(title="Not on its page", page_number=1)
    writer.add_outline_item(title="Uses", page_number=1)
    writer.write(tmp_path / "outlined.pdf")
    [document] = read_documents(tmp_path / "outlined.pdf")
    chunks = chunks_of(document, 9, count_words)
    assert [(chunk.title, chunk.text, chunk.page) for chunk in chunks] == [
        ("Radium", "Summary first.", 1),
        ("Radium › Discovery", "Marie Curie found radium.", 1),
        ("Radium › Discovery › 1.1 The long way there", "It took years.", 2),
        ("Radium › Uses", "It lit dials.", 2),
    ]


# Passages.

SENTENCES = st.lists(
    st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=9).map(
        lambda words: " ".join(words).capitalize() + "."
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None)
@given(st.lists(SENTENCES, min_size=1, max_size=3), st.integers(1, 12))
def test_no_word_is_lost_and_no_passage_is_too_long(paragraphs: list[list[str]], most: int) -> None:
    texts = [" ".join(sentences) for sentences in paragraphs]
    source, blocks, start = "\n\n".join(texts), [], 0
    for number, text in enumerate(texts):
        blocks.append(Block(text, start, start + len(text), (f"H{number % 2}",), is_source=True))
        start += len(text) + 2
    chunks = chunks_of(Document("T", blocks), most, count_words)
    assert " ".join(chunk.text for chunk in chunks) == " ".join(texts)
    assert all(count_words(chunk.text) <= most for chunk in chunks)
    for chunk in chunks:
        assert chunk.text in one_line(source[chunk.start : chunk.end])
    # None holds text of two headings.
    assert len(chunks) >= len({block.headings for block in blocks})


def test_a_sentence_above_the_budget_is_cut_between_words() -> None:
    [block] = [Block("a b c d e f g h. I j.", 0, 21, is_source=True)]
    chunks = chunks_of(Document("T", [block]), 4, count_words)
    assert [chunk.text for chunk in chunks] == ["a b c d", "e f g h.", "I j."]


def test_a_character_above_the_budget_stays_whole() -> None:
    chunks = chunks_of(Document("T", [Block("A😀", 0, 2, is_source=True)]), 2, lambda text: 3)
    assert [chunk.text for chunk in chunks] == ["A", "😀"]


# Again.


def test_a_second_run_reads_only_what_changed(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus.jsonl"
    take_in(folder, out=out)
    before = {record["id"] for record in records(out)}
    (folder / "c.txt").write_text("Polonium is another element.", encoding="utf-8")
    (folder / "f.csv").unlink()
    os.utime(folder / "a.md", (1, 1))  # touched, and says the same
    done = take_in(folder, out=out)
    assert done.counts["files read"] == 1 and done.counts["files gone"] == 1
    assert done.counts["files unchanged"] == 5
    after = {record["id"]: record for record in records(out)}
    new = [record for name, record in after.items() if name not in before]
    assert [record["text"] for record in new] == ["Polonium is another element."]
    assert take_in(folder, out=out, max_tokens=10).counts["files read"] == 6


def test_a_stopped_run_goes_on_where_it_was(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, asked = tmp_path / "corpus.jsonl", list[str]()
    whole = ingestion.read_documents

    def stops(path: Path) -> Any:
        asked.append(path.name)
        if len(asked) == 4:
            raise KeyboardInterrupt
        return whole(path)

    monkeypatch.setattr(ingestion, "read_documents", stops)
    with pytest.raises(KeyboardInterrupt):
        take_in(folder, out=out)
    assert not out.exists()
    done = take_in(folder, out=out)
    assert sorted(asked) == sorted([*(p.name for p in folder.iterdir()), "d.docx"])
    assert (done.counts["files unchanged"], done.counts["files read"]) == (3, 4)


def test_a_disk_that_fills_is_named_and_loses_nothing(folder: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    size = "size=96k"
    mounted = ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(small)]
    if os.geteuid() or subprocess.run(mounted, capture_output=True).returncode:
        pytest.skip("mounting a small disk takes root")
    try:
        out = small / "corpus.jsonl"
        take_in(folder / "c.txt", out=out)
        before = out.read_bytes()
        for number in range(40):
            text = "\n\n".join(f"Fact {number}.{n} is one of many." for n in range(200))
            (folder / f"many{number}.txt").write_text(text, encoding="utf-8")
        with pytest.raises(IngestionError, match="disk is full; free some space"):
            take_in(folder, out=out)
        assert out.read_bytes() == before
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        assert take_in(folder, out=out).counts["files unchanged"] >= 1
        assert len(records(out)) > 40
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_two_runs_at_once_agree(folder: Path, tmp_path: Path) -> None:
    out, done = tmp_path / "corpus.jsonl", list[ingestion.Ingested]()
    threads = [
        threading.Thread(target=lambda: done.append(take_in(folder, out=out))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.counts["files read"] for each in done) == [0, 7]


@pytest.mark.exhaustive
def test_ten_thousand_tiny_files_are_taken_in_at_once(tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(10_000):
        (many / f"{number}.txt").write_text(f"Fact {number} stands here.", encoding="utf-8")
    done = take_in(many, out=tmp_path / "corpus.jsonl")
    assert done.counts["passages"] == 10_000
    again = take_in(many, out=tmp_path / "corpus.jsonl")
    assert again.counts["files unchanged"] == 10_000


def test_the_same_text_twice_is_one_passage(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.txt").write_text(RADIUM, encoding="utf-8")
    done = take_in(tmp_path / "one", tmp_path / "two", out=tmp_path / "corpus.jsonl")
    assert (done.counts["passages"], done.counts["passages that came again"]) == (1, 1)
    [record] = records(tmp_path / "corpus.jsonl")
    assert record["file"] == str(tmp_path / "one" / "same.txt")


def test_a_text_that_a_file_repeats_is_one_passage_too(tmp_path: Path) -> None:
    section = "# Note\n\nAs above.\n\n"
    (tmp_path / "notes.md").write_text(f"{section}# Other\n\nAnother.\n\n{section}")
    done = take_in(tmp_path / "notes.md", out=tmp_path / "corpus.jsonl")
    assert (done.counts["passages"], done.counts["passages that came again"]) == (2, 1)
    assert len(records(tmp_path / "corpus.jsonl")) == 2


def test_a_corpus_inside_the_folder_is_not_read_itself(folder: Path) -> None:
    for _ in range(2):
        done = take_in(folder, out=folder / "corpus.jsonl")
        assert not done.problems
        assert done.counts["files read"] + done.counts["files unchanged"] == 7


def test_one_id_for_two_texts_is_refused(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        line = json.dumps({"id": "7", "title": "T", "text": f"Of {name}."})
        (tmp_path / name).write_text(line, encoding="utf-8")
    with pytest.raises(IngestionError, match=r"b\.jsonl gives the id '7' to another text than"):
        take_in(tmp_path / "a.jsonl", tmp_path / "b.jsonl", out=tmp_path / "corpus.jsonl")
    assert not (tmp_path / "corpus.jsonl").exists()


# What cannot be read.


def encrypted(path: Path) -> Path:
    writer = pypdf.PdfWriter(write_pdf(path, [["Secret."]]))
    writer.encrypt("password", algorithm="RC4-128")
    writer.write(path)
    return path


def cut(path: Path, size: int) -> Path:
    path.write_bytes(path.read_bytes()[:size])
    return path


BROKEN: list[tuple[str, Callable[[Path], object], str]] = [
    ("a.pdf", encrypted, "needs a password; save it without one"),
    ("b.pdf", lambda path: write_pdf(path, [[]]), "pages without text, such as scans"),
    ("c.pdf", lambda path: cut(write_pdf(path, [["Some text."]]), 40), "is no whole PDF"),
    ("d.pdf", lambda path: path.write_bytes(b"no PDF at all"), "is no whole PDF"),
    ("e.docx", lambda path: cut(write_docx(path, [("", RADIUM)]), 200), "no whole DOCX document"),
    ("f.txt", lambda path: path.write_bytes(b"\x7fELF\x00\x01\x02"), "holds binary data"),
    ("g.txt", lambda path: path.write_text(" \n\n "), "holds no text"),
    ("h.jsonl", lambda path: path.write_text('{"text": "x."}\n{"text": '), "line 2 is no JSON"),
    ("i.jsonl", lambda path: path.write_text("[1]"), "line 1 holds no text; write"),
    ("j.exe", lambda path: path.write_bytes(b"MZ"), "of no known kind; convert it to one of .txt"),
    ("k.html", lambda path: path.write_text("<script>x()</script>"), "holds no text"),
    ("l.csv", lambda path: path.write_text("a,b\n"), "holds no text"),
    ("m.docx", lambda path: write_docx(path, [("", "a & b <")]), "no whole DOCX document (not"),
    ("n.html", lambda path: path.write_text("<!-- nothing else -->"), "holds no text"),
]


@pytest.mark.parametrize(("name", "make", "why"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_a_file_that_cannot_be_read_is_left_out_and_named(
    name: str, make: Callable[[Path], object], why: str, tmp_path: Path
) -> None:
    good = tmp_path / "docs" / "good.txt"
    good.parent.mkdir()
    good.write_text(RADIUM, encoding="utf-8")
    bad = good.with_name(name)
    make(bad)
    for _ in range(2):
        done = take_in(good.parent, out=tmp_path / "corpus.jsonl")
        assert list(done.problems) == [str(bad)] and why in done.problems[str(bad)]
        assert done.counts["files left out"] == 1 and len(records(tmp_path / "corpus.jsonl")) == 1
    good.unlink()
    with pytest.raises(IngestionError, match="none of 1 files holds a text that can be read"):
        take_in(good.parent, out=tmp_path / "corpus.jsonl")
    # What was there is not lost.
    assert len(records(tmp_path / "corpus.jsonl")) == 1


@pytest.mark.parametrize(
    ("what", "error", "why"),
    [
        ("file_sha256", PermissionError(13, "Permission denied"), "cannot be opened (Permission"),
        ("read_documents", FileNotFoundError(2, "No such file"), "cannot be opened (No such file)"),
        ("read_documents", IndexError("so\nit \udce9"), r"be read (IndexError: so it \udce9)"),
    ],
)
def test_a_file_that_cannot_be_read_today_is_named_and_read_tomorrow(
    what: str, error: Exception, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, whole = tmp_path / "docs", getattr(ingestion, what)
    docs.mkdir()
    (docs / "a.txt").write_text("Of Radium.", encoding="utf-8")
    (docs / "b.txt").write_text("Of Polonium.", encoding="utf-8")

    def raises(path: Path) -> Any:
        if path.name == "b.txt":
            raise error
        return whole(path)

    with monkeypatch.context() as patched:
        patched.setattr(ingestion, what, raises)
        for _ in range(2):
            done = take_in(docs, out=tmp_path / "corpus.jsonl")
            assert list(done.problems) == [str(docs / "b.txt")]
            assert why in done.problems[str(docs / "b.txt")]
    done = take_in(docs, out=tmp_path / "corpus.jsonl")
    assert (done.counts["files read"], done.counts["files unchanged"]) == (1, 1)
    assert not done.problems and len(records(tmp_path / "corpus.jsonl")) == 2


def test_a_path_that_may_not_be_looked_at_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = Path.stat

    def refuses(path: Path, **named: Any) -> Any:
        if path.name == "c.txt":
            raise PermissionError(13, "Permission denied")
        return stat(path, **named)

    monkeypatch.setattr(Path, "stat", refuses)
    done = take_in(folder, out=tmp_path / "corpus.jsonl")
    assert list(done.problems) == [str(folder / "c.txt")] and done.counts["files read"] == 6


def test_a_folder_that_may_not_be_listed_is_left_out_and_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "shut").mkdir()
    (folder / "shut" / "in.txt").write_text("Of Polonium.", encoding="utf-8")
    scandir = os.scandir

    def refuses(path: str | Path) -> Any:
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", refuses)
        done = take_in(folder, out=tmp_path / "corpus.jsonl")
        assert list(done.problems) == [str(folder / "shut")]
        assert "see that you may read it" in done.problems[str(folder / "shut")]
        assert (done.counts["files read"], done.counts["folders left out"]) == (7, 1)
        with pytest.raises(IngestionError, match=r"none of 0 files holds .*shut: cannot be opened"):
            take_in(folder / "shut", out=tmp_path / "other.jsonl")
    assert take_in(folder, out=tmp_path / "corpus.jsonl").counts["files read"] == 1


def test_hidden_files_and_folders_are_passed_over(folder: Path, tmp_path: Path) -> None:
    (folder / ".git").mkdir()
    for name in (".git/in.txt", ".hidden.txt"):
        (folder / name).write_text("Of Polonium.", encoding="utf-8")
    assert take_in(folder, out=tmp_path / "corpus.jsonl").counts["files read"] == 7


def test_a_tokenizer_that_fails_is_no_fault_of_a_file(folder: Path, tmp_path: Path) -> None:
    def fails(text: str) -> int:
        raise OSError("no such tokenizer")

    with pytest.raises(OSError, match="no such tokenizer"):
        ingest([folder], tmp_path / "corpus.jsonl", 1, "none", fails)


def test_names_that_are_no_utf_8_are_spelt_out_and_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / os.fsdecode(b"d\xe9s")
    try:
        docs.mkdir()
    except OSError:
        pytest.skip("this file system takes names of UTF-8 alone")
    (docs / "café.txt").write_text(RADIUM, encoding="utf-8")
    for name in (b"caf\xe9.txt", b"caf\xe8.txt", b"caf\xe9.exe"):
        (docs / os.fsdecode(name)).write_text(RADIUM, encoding="utf-8")
    monkeypatch.setattr("inference.documents.own_corpus.cache_folder", lambda: tmp_path)
    monkeypatch.setattr("inference.documents.own_corpus.token_counter", lambda _: count_words)
    for counted in ("files read", "files unchanged"):
        corpus = own_corpus(docs)
        assert corpus.ingested is not None and corpus.ingested.counts[counted] == 3
        base = f"file://{tmp_path}/d%E9s"
        assert list(corpus.ingested.problems) == [f"{base}/caf%E9.exe"]
        assert {place.file for place in corpus.places.values()} == {
            f"{base}/caf%E8.txt", f"{base}/caf%E9.txt", f"{base}/caf%C3%A9.txt"
        }  # fmt: skip
        titles = {passage.title for passage in load_corpus(corpus.path)}
        assert titles == {"café", r"caf\udce9", r"caf\udce8"}


def test_halves_of_characters_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    lines = [
        {"id": f"\ud83d{n}", "title": "Cut \ud83d", "text": f"Cut \ud83d.\n\nAt \ude00 {n}."}
        for n in range(2)
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    done = take_in(path, out=tmp_path / "corpus.jsonl")
    assert done.notes == {str(path): ["4 halves of characters were replaced"]}
    first, second = records(tmp_path / "corpus.jsonl")
    assert (first["id"], second["id"]) == (r"\ud83d0", r"\ud83d1")
    assert (first["title"], first["text"]) == (r"Cut \ud83d", "Cut �. At � 0.")
    assert (first["start"], first["end"]) == (0, len(lines[0]["text"]))


def test_a_pdf_encrypted_with_aes_is_read_or_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "aes.pdf"
    path.write_bytes(AES_PDF)
    if find_spec("cryptography") or find_spec("Crypto"):
        [document] = read_documents(path)
        assert [one_line(block.text) for block in document.blocks] == ["Radium shines."]
    else:
        with pytest.raises(UnreadableFileError, match=r"If it is encrypted: pip install 'pypdf\["):
            list(read_documents(path))


def test_a_file_is_read_when_what_was_missing_is_installed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(path: Path) -> None:
        raise pypdf.errors.DependencyError("cryptography>=3.1 is required for AES algorithm")

    with monkeypatch.context() as patched:
        patched.setattr(pypdf, "PdfReader", refuses)
        patched.setitem(__import__("sys").modules, "mammoth", None)
        done = take_in(folder, out=tmp_path / "corpus.jsonl")
    pdf, docx = str(folder / "e.pdf"), str(folder / "d.docx")
    assert sorted(done.problems) == [docx, pdf]
    assert "library that is not installed (cryptography>=3.1 is" in done.problems[pdf]
    assert "pip install 'pypdf[crypto]', or save it without a password" in done.problems[pdf]
    done = take_in(folder, out=tmp_path / "corpus.jsonl")
    assert (done.counts["files read"], done.counts["files unchanged"]) == (2, 5)
    assert not done.problems


def test_a_file_above_the_limit_is_left_out_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "MAX_FILE_BYTES", 2**20)
    monkeypatch.setattr(ingestion, "read_documents", lambda path: pytest.fail("it was read"))
    (tmp_path / "large.txt").write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(IngestionError, match="has 1 MiB, above 1; split it into smaller files"):
        take_in(tmp_path / "large.txt", out=tmp_path / "corpus.jsonl")


def test_broken_letters_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("Café au lait. ".encode() + "Café noir.".encode("latin-1"))
    done = take_in(path, out=tmp_path / "corpus.jsonl")
    assert done.notes == {str(path): ["1 characters that are no UTF-8 were replaced"]}
    assert records(tmp_path / "corpus.jsonl")[0]["text"].startswith("Café au lait. Caf")
    lines = tmp_path / "latin.jsonl"
    lines.write_bytes('{"text": "Café."}\n{"text": "Noir."}\n'.encode("latin-1"))
    assert [document.notes for document in read_documents(lines)] == [
        ("1 characters that are no UTF-8 were replaced",), ()
    ]  # fmt: skip
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_text(RADIUM, encoding=encoding)
        [document] = read_documents(path)
        assert document.blocks[0].text == RADIUM and not document.notes


def test_without_the_extra_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in (("a.pdf", "pypdf"), ("b.html", "trafilatura"), ("c.docx", "mammoth")):
        monkeypatch.setitem(__import__("sys").modules, module, None)
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(UnreadableFileError, match=r"pip install 'trivium-rag\[docs\]'"):
            list(read_documents(tmp_path / name))


def test_what_does_not_exist_and_a_broken_store_are_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus.jsonl"
    with pytest.raises(IngestionError, match="no such does not exist; name a file or a folder"):
        take_in(tmp_path / "no such", out=out)
    (tmp_path / "corpus.jsonl.files").write_text("no database, and long enough for one to be one")
    with pytest.raises(IngestionError, match="remove it, and all are read again"):
        take_in(folder, out=out)


# The commands.


def test_the_command_writes_a_corpus_and_says_what_it_left_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    write_pdf(folder / "scan.pdf", [[]])
    run_main(monkeypatch, inference.ingest.main, folder, "--out", tmp_path / "corpus.jsonl",
             "--max-tokens", 64, "--json")  # fmt: skip
    shown = capsys.readouterr().out
    counts = json.loads(shown.splitlines()[-1])
    assert counts["passages"] == len(records(tmp_path / "corpus.jsonl"))
    assert list(counts["left_out"]) == [str(folder / "scan.pdf")]
    assert "Left out or replaced" in shown


@pytest.mark.slow
def test_a_folder_is_asked_and_its_sources_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("inference.documents.own_corpus.cache_folder", lambda: tmp_path)
    run_main(
        monkeypatch, inference.ask.main, "In what year was radium discovered?",
        "--corpus", folder, "--engine", "transformers", "--cache", tmp_path / "triples.sqlite",
        "--max-answer-tokens", 8, "--json",
    )  # fmt: skip
    shown = capsys.readouterr().out
    assert json.loads(shown.splitlines()[-1])["answer"] == "1898"
    assert str(folder) in shown.split("sources")[1]
    again = own_corpus(folder)
    assert again.ingested.counts["files unchanged"] == 7 and again.index.is_dir()
    (folder / "c.txt").write_text("Polonium is another element.", encoding="utf-8")
    changed = own_corpus(folder)
    assert changed.ingested.counts["files read"] == 1
    # Of the index of what the folder held before the vectors are handed on.
    assert changed.index != again.index and not again.index.exists()
    assert (changed.index / "earlier" / "index.faiss").is_file()
