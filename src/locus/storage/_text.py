"""Words: how texts and the questions asked of them are cut, the same on every backend."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["query_words", "words"]

# Chinese and Japanese are written without spaces, so each of their characters is a word of its own.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_VOICING = ("\u3099", "\u309a")


def words(text: str) -> list[str]:
    """The words of `text` in order, without regard to case and diacritics."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(_fold(text))


def query_words(text: str) -> list[str]:
    """The different words of a question, in the order they were asked."""
    return list(dict.fromkeys(words(text)))


def _fold(text: str) -> str:
    # The voicing marks of kana make other letters, not accents of the same one.
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = "".join(c for c in apart if c in _VOICING or not unicodedata.combining(c))
    return unicodedata.normalize("NFC", kept).casefold()
