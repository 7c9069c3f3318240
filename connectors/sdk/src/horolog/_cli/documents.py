"""Files of the command line: YAML or JSON in, YAML or JSON out. JSON needs nothing, YAML needs PyYAML.

Whatever a file holds, reading it ends in documents of plain JSON values or in a CliError that says where it is wrong.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from horolog._cli.exits import usage

if TYPE_CHECKING:
    import argparse

    from horolog._cli.session import Session

STDIN = "-"
_WIDTH = 110  # of a line of YAML that we write
_LINE_MARKS = ("\x85", "\u2028", "\u2029")  # ends of lines in YAML, which PyYAML writes and does not read back: escaped
# What PyYAML and the walk over its values raise beside YAMLError, for dates that do not exist, keys that JSON cannot
# have, documents that contain themselves and nesting without end.
_UNREADABLE = (ValueError, TypeError, RecursionError, OverflowError, ArithmeticError, AttributeError, KeyError)


class Document(NamedTuple):
    """One document of a file; `line` is where it begins (from 1)."""

    line: int
    value: Any


def read_text(path: Path) -> str:
    """Read a file of UTF-8 text; `-` is standard input. Raises CliError."""
    try:
        data = sys.stdin.buffer.read() if str(path) == STDIN else path.read_bytes()
        return data.decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a path with a NUL in it
        message = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        raise usage(message) from None


def read_document(path: Path) -> Any:
    """Read a file that holds one document. Raises CliError."""
    documents = parse_documents(path, read_text(path))
    if len(documents) > 1:
        message = f"{path}: line {documents[1].line}: a second document begins; put all jobs below one `jobs:`."
        raise usage(message)
    return documents[0].value if documents else None


def parse_documents(path: Path, text: str) -> list[Document]:
    """Give the documents of a text: one of JSON, or those of YAML. Raises CliError."""
    try:
        return [Document(1, json.loads(text, parse_constant=_no_constant))]
    except RecursionError:
        message = f"{path}: nested too deeply to be read."
        raise usage(message) from None
    except ValueError as error:
        if path.suffix == ".json":
            message = f"{path} is not JSON: {error}."
            raise usage(message) from None
    return _parse_yaml(path, text)


def _no_constant(text: str) -> NoReturn:
    message = f"{text} is no value of JSON"
    raise ValueError(message)


def _yaml() -> Any | None:
    try:
        return importlib.import_module("yaml")
    except ImportError:
        return None


def _parse_yaml(path: Path, text: str) -> list[Document]:
    yaml = _yaml()
    if yaml is None:
        message = f"{path} is YAML, and PyYAML is not installed: pip install 'horolog[yaml]', or write JSON."
        raise usage(message)
    documents: list[Document] = []
    line = 1
    try:
        loader = yaml.SafeLoader(text)
        while loader.check_node():
            node = loader.get_node()
            line = node.start_mark.line + 1
            # Dates that YAML makes of unquoted text, and everything else that JSON does not have, as text.
            value = json.loads(json.dumps(loader.construct_document(node), default=_as_text, allow_nan=False))
            documents.append(Document(line, value))
    except yaml.YAMLError as error:
        message = f"{path} is not YAML: {error}"
        raise usage(message) from None
    except _UNREADABLE as error:
        message = f"{path}: the document at line {line} cannot be read: {error or type(error).__name__}."
        raise usage(message) from None
    return documents


def _as_text(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


# --- writing ------------------------------------------------------------------------------------------


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add `-o` and `--format` of the commands that write a file of jobs."""
    group = parser.add_argument_group("file")
    group.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: standard output")
    group.add_argument("--format", choices=["yaml", "json"], help="default: by FILE's name, else yaml")


def write_document(session: Session, args: argparse.Namespace, document: Any) -> None:
    """Write a document to `-o`, or to standard output. Raises CliError."""
    out: Path | None = args.out
    chosen = args.format
    if chosen is None:
        chosen = "json" if session.as_json or (out is not None and out.suffix == ".json") else "yaml"
    text = to_text(document, chosen)
    if out is None:
        session.screen.line(text.removesuffix("\n"))
        return
    try:
        out.write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        message = f"{out} cannot be written: {getattr(error, 'strerror', None) or error}."
        raise usage(message) from None


def to_text(document: Any, chosen: str) -> str:
    """Write a document as `yaml` or `json`, with a newline at its end. Raises CliError."""
    if chosen == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    yaml = _yaml()
    if yaml is None:
        message = "YAML needs PyYAML: pip install 'horolog[yaml]', or write JSON with --format json."
        raise usage(message)
    plain = not any(mark in json.dumps(document, ensure_ascii=False) for mark in _LINE_MARKS)
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=plain, width=_WIDTH)
    return text
