"""Steady: a face's text with what differs between two runs replaced by a word and a number, in order of appearance."""

import re

__all__ = ["Steady"]

_IDS = (
    ("event", r"\b\d{1,9}-\d{6,9}-\d{5,9}\b"),
    ("digest", r"\bsha256:[0-9a-f]{64}\b|\b[0-9a-f]{64}\b"),
    ("id", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b[0-9a-f]{32}\b"),
    ("run", r"\b(?:clerk|helper)-[0-9a-f]{12}\b"),
    ("call", r"\bcall_[0-9a-f]{12}\b"),
    ("token", r"\b(?:chatcmpl-|resp_|msg_|fc_)[\w-]{16,}|\bWyJ[\w-]{16,}(?:\.[\w-]+)*"),
    ("code", r"\b[0-9a-f]{12}\b"),
    ("queue", r"\bq-[0-9a-f]{8}\b"),
)
"""By what they are called, patterns of what is an id."""

_WORDS = (
    (r'<svg class="icon".*?</svg>', "<svg/>"),
    (r'\b(x|width)="\d+\.\d+"', r'\1="N"'),
    (r"data-ago>[^<]*<", "data-ago>AGO<"),
    (r"since=[0-9a-f]{8}\.\d+", "since=MARK"),
    (r"\b(ask-|data-wait=\")[0-9a-f]{12,16}\b", r"\1ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?", "TIME"),
    (r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b", "TIME"),
    (r"\b\d\d-\d\d \d\d:\d\d\b", "TIME"),
    (r'"(?:created|created_at|at)": ?\d{10}(?:\.\d+)?', '"created": TIME'),
    (r'"timestamp":\d{13}', '"timestamp":TIME'),
    (r'"duration_ms": ?\d+', '"duration_ms": 9'),
    (r"\bPT?\d[\dDTHMS.]*\b", "DURATION"),
    (r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b(?: \d+ s\b)?", "9 ms"),
    (r"\bjust now\b|\b(?:9 ms|\d+ \w+) ago\b", "AGO"),
    (r"127\.0\.0\.1:\d+", "HOST"),
    (r'"since": ?[\d.]+', '"since": TIME'),
    (r"\b\d+@[\w.-]+", "PROCESS"),
    (r"(/static/[\w-]+)\.[0-9a-f]{8,}", r"\1"),
    (r"[ \t]+$", ""),
)
"""Patterns of times and places, each with its replacement."""


class Steady:
    """Replaces ids by their kind and number, the same in all texts of one scenario."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        """The text, as it is in every run of the scenario."""
        for kind, pattern in _IDS:
            text = re.sub(pattern, lambda found, kind=kind: self._name(kind, found[0]), text)
        for pattern, word in _WORDS:
            text = re.sub(pattern, word, text, flags=re.MULTILINE)
        return text

    def _name(self, kind: str, found: str) -> str:
        if found not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[found] = f"{kind.upper()}{self._counts[kind]}"
        return self._known[found]
