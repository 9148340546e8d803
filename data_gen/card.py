"""Cards of built data sets: the figures of RAS Table 4, as JSON and as a page to read."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_gen.streaming.tallies import CountTokens

logger = logging.getLogger(__name__)
WORDS_UNIT = "whitespace words"


def token_counter(name: str) -> tuple[CountTokens, str]:
    """A function that counts tokens of texts, and what it counts.

    `name` is a backbone whose tokenizer is used, or "words". A tokenizer that cannot be loaded
    is replaced by words, and the second value says so.
    """
    if name != "words":
        try:
            from models.backbone import load_tokenizer

            tokenizer = load_tokenizer(name)
            return (
                lambda texts: [len(ids) for ids in _token_ids(tokenizer, texts)],
                f"tokens of {name}",
            )
        except Exception as error:
            logger.warning("tokenizer %s not available (%s): counting words", name, error)
    return lambda texts: [len(text.split()) for text in texts], WORDS_UNIT


def _token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return ids


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Write card.json and card.md into `folder`."""
    text = json.dumps(card, ensure_ascii=False, indent=2)
    (folder / "card.json").write_text(text + "\n", encoding="utf-8")
    (folder / "card.md").write_text(card_page(card), encoding="utf-8")


def card_page(card: Mapping[str, Any]) -> str:
    """The card as Markdown: one section a key, nested figures as tables or lists."""
    lines = [f"# {card['title']}", ""]
    for key, value in card.items():
        if key != "title":
            lines += [f"## {key.replace('_', ' ')}", "", *_section(value), ""]
    return "\n".join(lines)


def _section(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"- {name}: {_inline(item)}" for name, item in value.items()] or ["none"]
    if isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
        return _table(value) if "sha256" in value[0] or "relation" in value[0] else _blocks(value)
    if isinstance(value, list):
        return [f"- {_inline(item)}" for item in value] or ["none"]
    return [str(value)]


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_inline(item)}" for name, item in value.items()) or "none"
    return str(value)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = list(rows[0])
    body = [" | ".join(str(row[column]) for column in columns) for row in rows]
    rule = " | ".join("---" for _ in columns)
    return [f"| {line} |" for line in (" | ".join(columns), rule, *body)]


def _blocks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    blocks = []
    for row in rows:
        blocks += ["```json", json.dumps(row, ensure_ascii=False, indent=1), "```"]
    return blocks
