"""Avro's primitive encodings, made fast by tables that fill themselves.

Used by streams.core.wire_generated only. Numbers and short texts repeat within a decision and within a batch (the
same instant stands in state, history, lease view and reply), so a bounded dictionary costs a third of encoding or
decoding again. Readers take the value's bytes and a position and return (value, next position); they raise
IndexError past the end and ValueError for what no writer makes. A slice past the end comes out short without an
error: whoever reads a whole value compares the last position with its length.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_ENTRIES_MAX: Final = 16_384
"""Of each table. A full one is emptied, which takes about a millisecond."""

_TEXT_BYTES_MAX: Final = 128
"""Longer texts are not kept: they are not the names for which the table is made."""

_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1
_LONG_BITS: Final = 64
_SHIFTS: Final = (7, 14, 21, 28, 35, 42, 49, 56, 63)
"""Of the second to the tenth byte: no number is longer, so hostile bytes cannot make a huge one."""

_MORE: Final = tuple(bytes((n & 127 | 128, n >> 7 | 128)) for n in range(1 << 14))
_LAST: Final = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(1 << 14))


_NONE: Final = -(1 << 62)
"""In a sum of three table entries: makes it negative."""

_LOW: Final = [_NONE] * 65_536
_MIDDLE: Final = [_NONE] * 65_536
_HIGH: Final = [_NONE] * 65_536
"""Two bytes of a number of six bytes (as a little-endian short) to their share of it."""

for _bits in range(1 << 14):
    _first, _second = _bits & 127 | 128, _bits >> 7
    if _bits & 1 == 0:
        _LOW[_first | (_second | 128) << 8] = _bits >> 1
    _MIDDLE[_first | (_second | 128) << 8] = _bits << 13
    if _second:
        _HIGH[_first | _second << 8] = _bits << 27


class _Numbers(dict[int, bytes]):
    """Number to its Avro bytes (zigzag, seven bits a byte, low ones first)."""

    def __missing__(self, number: int) -> bytes:
        if not _LONG_MIN <= number <= _LONG_MAX:
            raise OverflowError(f"{number} does not fit into 64 bits")
        rest = (number << 1) ^ (number >> 63)
        if 1 << 28 <= rest < 1 << 42:
            out = _MORE[rest & 16_383] + _MORE[rest >> 14 & 16_383] + _LAST[rest >> 28]
        else:
            out = b""
            while rest >= 16_384:
                out += _MORE[rest & 16_383]
                rest >>= 14
            out += _LAST[rest]
        if len(self) >= _ENTRIES_MAX:
            self.clear()
        self[number] = out
        return out


class _Texts(dict[str, bytes]):
    """Text to its Avro bytes, length first."""

    def __missing__(self, text: str) -> bytes:
        body = text.encode()
        out = NUMBERS[len(body)] + body
        if len(body) <= _TEXT_BYTES_MAX:
            if len(self) >= _ENTRIES_MAX:
                self.clear()
            self[text] = out
        return out


class _Words(dict[bytes, str]):
    """UTF-8 bytes to their text."""

    def __missing__(self, body: bytes) -> str:
        text = body.decode()
        if len(body) <= _TEXT_BYTES_MAX:
            if len(self) >= _ENTRIES_MAX:
                self.clear()
            self[body] = text
        return text


class _Instants(dict[bytes, int | None]):
    """The next six bytes to the number that they are, or None where they are not exactly one positive number.

    Six bytes hold the epoch milliseconds of the years 1987 to 2109.
    """

    def __missing__(self, body: bytes) -> int | None:
        if len(body) < 6:
            return None
        low, middle, high = _SIX(body)
        number = _LOW[low] + _MIDDLE[middle] + _HIGH[high]
        if number < 0:
            return None
        if len(self) >= _ENTRIES_MAX:
            self.clear()
        self[body] = number
        return number


class _Durations(dict[bytes, int | None]):
    """The next three bytes to the number that they are, or None where they are not exactly one number.

    Three bytes hold 8 seconds to 17 minutes in milliseconds.
    """

    def __missing__(self, body: bytes) -> int | None:
        if len(body) < 3 or body[0] < 128 or body[1] < 128 or body[2] > 127:
            return None
        bits = body[0] & 127 | (body[1] & 127) << 7 | body[2] << 14
        number = (bits >> 1) ^ -(bits & 1)
        if len(self) >= _ENTRIES_MAX:
            self.clear()
        self[body] = number
        return number


_SIX: Final[Callable[[bytes], tuple[int, int, int]]] = struct.Struct("<HHH").unpack

NUMBERS: Final = _Numbers()
TEXTS: Final = _Texts()
WORDS: Final = _Words()
INSTANTS: Final = _Instants()
DURATIONS: Final = _Durations()

SMALL: Final[tuple[int | None, ...]] = tuple((n >> 1) ^ -(n & 1) if n < 128 else None for n in range(256))
"""First byte of a number to the number, or None where more bytes follow."""

BOOLEANS: Final = (False, True)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Read a number."""
    byte = data[at]
    bits = byte & 127
    at += 1
    if byte > 127:
        for shift in _SHIFTS:
            byte = data[at]
            bits |= (byte & 127) << shift
            at += 1
            if byte < 128:
                break
        else:
            raise ValueError("a number of more than ten bytes")
        if bits >> _LONG_BITS:
            raise ValueError("a number of more than 64 bits")
    return (bits >> 1) ^ -(bits & 1), at


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Read the length of a text or of bytes."""
    length, at = read_long(data, at)
    if length < 0 or length > len(data):
        raise ValueError(f"a length of {length}")
    return length, at


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """Read a text."""
    length, at = read_length(data, at)
    return data[at : at + length].decode(), at + length


def read_array(data: bytes, at: int, item: Callable[[bytes, int], tuple[T, int]]) -> tuple[tuple[T, ...], int]:
    """Read an array: blocks with a count, the last one empty. A negative count is followed by the block's size.

    Every item takes at least one byte, so a count that lies ends at the value's end.
    """
    out: list[T] = []
    while True:
        count, at = read_long(data, at)
        if count == 0:
            return tuple(out), at
        if count < 0:
            count = -count
            _, at = read_long(data, at)
        for _ in range(count):
            value, at = item(data, at)
            out.append(value)


def read_texts(data: bytes, at: int) -> tuple[dict[str, str], int]:
    """Read a map of texts."""
    pairs, at = read_array(data, at, _read_pair)
    return dict(pairs), at


def _read_pair(data: bytes, at: int) -> tuple[tuple[str, str], int]:
    key, at = read_text(data, at)
    value, at = read_text(data, at)
    return (key, value), at


def array_bytes(items: list[bytes]) -> bytes:
    """Return the Avro bytes of an array of encoded items."""
    return b"".join((NUMBERS[len(items)], *items, b"\0")) if items else b"\0"


def texts_bytes(texts: dict[str, str]) -> bytes:
    """Return the Avro bytes of a map of texts."""
    return array_bytes([TEXTS[key] + TEXTS[value] for key, value in texts.items()])
