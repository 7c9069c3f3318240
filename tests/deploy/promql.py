"""Reads PromQL as far as the alert rules use it, strictly: what it does not know is refused.

An expression becomes the selectors in it and the labels that its result has. No series is evaluated.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

AGGREGATIONS: Final = frozenset({"sum", "max", "min", "count"})
RANGE_FUNCTIONS: Final = frozenset({"rate", "increase"})
FUNCTIONS: Final = frozenset({"abs", "absent", "histogram_quantile", "vector"})
COMPARISONS: Final = frozenset({">", "<", ">=", "<=", "==", "!="})
SET_WORDS: Final = frozenset({"and", "or", "unless"})

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<duration>\[\d+[smhd]\])|(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)"
    r"|(?P<text>\"[^\"\\]*\")|(?P<sign>==|!=|>=|<=|=~|!~|[-+*/><=(){},]))"
)


class PromqlError(ValueError):
    """Not an expression that this reader knows."""


class Selector(NamedTuple):
    """One use of a metric."""

    metric: str
    matched: frozenset[str]
    """Labels in its braces."""
    is_range: bool
    function: str
    """That it stands in directly; empty where it stands alone."""


class Expression(NamedTuple):
    """What an expression uses, and which labels it groups by."""

    selectors: tuple[Selector, ...]
    grouped: tuple[tuple[frozenset[str], tuple[Selector, ...]], ...]
    """Labels that each aggregation keeps, with the selectors in it; the outermost comes last."""


def parse(text: str) -> Expression:
    """Read a whole expression. Raises PromqlError."""
    return _Reader(text).whole()


def duration_s(text: str) -> int:
    """Read a duration such as 5m. Raises PromqlError."""
    found = re.fullmatch(r"([1-9]\d*)([smhd])", text)
    if found is None:
        raise PromqlError(f"no duration: {text!r}")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[found[2]]


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise PromqlError(f"cannot read {text[at : at + 20]!r}")
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


class _Reader:
    """Recursive descent over: comparison and set words; plus and minus; times and division; one term."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0
        self._selectors: list[Selector] = []
        self._grouped: list[tuple[frozenset[str], tuple[Selector, ...]]] = []

    def whole(self) -> Expression:
        self._operands()
        if self._at != len(self._tokens):
            raise PromqlError(f"unexpected {self._peek()[1]!r}")
        return Expression(tuple(self._selectors), tuple(self._grouped))

    def _operands(self, function: str = "") -> None:
        self._term(function)
        while self._peek()[1] in COMPARISONS | SET_WORDS | {"+", "-", "*", "/"}:
            self._at += 1
            self._term("")

    def _term(self, function: str) -> None:
        kind, text = self._peek()
        self._at += 1
        if kind == "number":
            return
        if text == "(":
            self._operands()
            self._expect(")")
        elif kind != "name" or text in SET_WORDS:
            raise PromqlError(f"unexpected {text or 'end'!r}")
        elif text in AGGREGATIONS:
            self._aggregation()
        elif self._peek()[1] == "(":
            if text not in FUNCTIONS | RANGE_FUNCTIONS:
                raise PromqlError(f"unknown function {text!r}")
            self._arguments(text)
        else:
            self._selector(text, function)

    def _aggregation(self) -> None:
        labels: frozenset[str] = frozenset()
        if self._peek()[1] == "by":
            self._at += 1
            labels = frozenset(self._names())
        first = len(self._selectors)
        self._arguments("")
        self._grouped.append((labels, tuple(self._selectors[first:])))

    def _arguments(self, function: str) -> None:
        self._expect("(")
        self._operands(function)
        while self._peek()[1] == ",":
            self._at += 1
            self._operands(function)
        self._expect(")")

    def _selector(self, metric: str, function: str) -> None:
        matched: set[str] = set()
        if self._peek()[1] == "{":
            self._at += 1
            while self._peek()[1] != "}":
                matched.add(self._take("name"))
                if self._take("sign") not in {"=", "!=", "=~", "!~"}:
                    raise PromqlError("a label is matched with =, !=, =~ or !~")
                self._take("text")
                if self._peek()[1] == ",":
                    self._at += 1
            self._expect("}")
        is_range = self._peek()[0] == "duration"
        if is_range:
            self._at += 1
        if is_range != (function in RANGE_FUNCTIONS):
            raise PromqlError(f"{metric}: a range belongs into {sorted(RANGE_FUNCTIONS)}, and nothing else does")
        self._selectors.append(Selector(metric, frozenset(matched), is_range, function))

    def _names(self) -> list[str]:
        self._expect("(")
        names = [self._take("name")]
        while self._peek()[1] == ",":
            self._at += 1
            names.append(self._take("name"))
        self._expect(")")
        return names

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")

    def _take(self, kind: str) -> str:
        found, text = self._peek()
        if found != kind:
            raise PromqlError(f"expected a {kind}, found {text or 'end'!r}")
        self._at += 1
        return text

    def _expect(self, sign: str) -> None:
        if self._peek()[1] != sign:
            raise PromqlError(f"expected {sign!r}, found {self._peek()[1] or 'end'!r}")
        self._at += 1
