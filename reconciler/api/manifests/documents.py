"""Reads files into documents: the texts of the paths on a command line, split into documents and objects.

An invalid document does not affect the others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import yaml
from msgspec import Struct

from reconciler.api.manifests.parsing import Loader, ParseError, parse_json, parse_yaml
from reconciler.errors import Malformed


class Origin(NamedTuple):
    """A place in a file; `item` is the path to one object of a list."""

    file: str
    line: int = 1
    """Of the first line of the document, counted from one"""
    item: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place} {self.item}" if self.item else place

    def at(self, index: int) -> "Origin":
        """The place of one object of the list at this place."""
        return self._replace(item=f"{self.item}.items[{index}]" if self.item else f"items[{index}]")


MAX_BYTES = 256 * 2**20
"""Limit of one file: a hundred times the list of slices of a cluster with 5000 nodes."""
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


def texts(paths: Iterable[str], stdin: BinaryIO) -> Iterator[tuple[str, str | Malformed]]:
    """The name of every file, with its text or the error.

    A directory stands for all manifests below it, in the order of their paths.
    """
    for path in paths:
        if path == STDIN:
            yield "<stdin>", _text("<stdin>", stdin.read(MAX_BYTES + 1))
        elif Path(path).is_dir():
            yield from ((str(file), file_text(file)) for file in manifests_in(Path(path)))
        else:
            yield path, file_text(Path(path))


def manifests_in(folder: Path) -> list[Path]:
    """The manifests below a folder, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def file_text(path: Path) -> str | Malformed:
    """The text of a file, or the error."""
    try:
        with path.open("rb") as file:
            return _text(str(path), file.read(MAX_BYTES + 1))
    except OSError as exc:
        return Malformed(str(path), "", exc.strerror or type(exc).__name__)


def _text(name: str, data: bytes) -> str | Malformed:
    if len(data) > MAX_BYTES:
        return Malformed(name, "", f"is larger than {MAX_BYTES // 2**20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        return Malformed(f"{name}:{line}", "", f"is not UTF-8 text: byte {data[exc.start]:#04x}")


# At the start of a line this is always a marker, even inside a quoted or literal string. So splitting here is
# correct, and a broken document does not hide the others.
_MARKER = re.compile(r"^(?:(---)|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
"""What starts a document (group 1), or ends one"""
_PREAMBLE = re.compile(r"(?:[ \t]*(?:[#%].*)?\r?\n)*")
"""Lines without content, each with its end"""


class Document(Struct, frozen=True):
    """One object as written in the input."""

    origin: Origin
    raw: Mapping[str, Any]


class InvalidDocument(Struct, frozen=True):
    """An invalid part of the input. `problem` names the place, the object and the reason."""

    origin: Origin
    problem: Malformed


def invalid_document(
    origin: Origin, subject: str, field: str, reason: str, others: Sequence[tuple[str, str]] = ()
) -> InvalidDocument:
    """The refusal of the object at `origin`."""
    where = f"{origin}: {subject}" if subject else str(origin)
    return InvalidDocument(origin, Malformed(where, field, reason, others))


def documents(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Document | InvalidDocument]:
    """Every object in the files and directories of `paths` (`-`: standard input), with lists unwrapped."""
    return of_texts(texts(paths, stdin))


def of_texts(found: Iterable[tuple[str, str | Malformed]]) -> Iterator[Document | InvalidDocument]:
    """Every object in some texts: pairs of a name and the text, or of a name and a read error."""
    for name, text in found:
        if isinstance(text, Malformed):
            yield InvalidDocument(Origin(name), text)
        else:
            yield from of_text(name, text)


def of_text(name: str, text: str) -> Iterator[Document | InvalidDocument]:
    """Every object in one text: JSON if it starts with `{`, otherwise YAML."""
    if text.lstrip()[:1] == "{":
        try:
            found = list(parse_json(text))
        except ParseError as exc:
            if name.endswith(".json"):
                yield _unreadable(name, 0, exc)
                return
        else:
            for line, value in found:
                yield from _objects(Origin(name, line + 1), value)
            return
    for line, part in split(text):
        try:
            value = parse_yaml(part)
        except ParseError as exc:
            yield _unrendered(name, line, part) or _unreadable(name, line, exc)
        else:
            if value is not None:
                yield from _objects(Origin(name, line + 1 + _blank(part)), value)


def split(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a YAML text, each with its first line (from zero)."""
    begin = number = 0
    for marker in _MARKER.finditer(text):
        if marker[1]:
            end = marker.start()
            if _PREAMBLE.fullmatch(text, begin, end):
                continue
        else:
            end = text.find("\n", marker.end()) + 1 or len(text)
        part = text[begin:end].removesuffix("\n") + "\n"
        yield number, part
        number += part.count("\n")
        begin = end
    yield number, text[begin:]


def _blank(part: str) -> int:
    """The number of lines before the first one with content."""
    for number, line in enumerate(part.split("\n")):
        if not _PREAMBLE.fullmatch(line.removeprefix("---") + "\n"):
            return number
    return 0


def _unreadable(name: str, line: int, exc: ParseError) -> InvalidDocument:
    at = line + exc.line + 1
    return InvalidDocument(Origin(name, at), Malformed(f"{name}:{at}:{exc.column + 1}", "", exc.problem))


_ACTION = re.compile(r"^[^#\n]*?(\{\{.*?\}\})", re.MULTILINE)
UNRENDERED = "is a template that is not rendered"


def _unrendered(name: str, line: int, part: str) -> InvalidDocument | None:
    """The refusal of a template as Helm keeps it, which is often no YAML; None for other texts."""
    found = _ACTION.search(part)
    if found is None:
        return None
    origin = Origin(name, line + part.count("\n", 0, found.start(1)) + 1)
    reason = f"{UNRENDERED}: {found[1][:60]}; render it first, for example with helm template"
    return invalid_document(origin, "document", "", reason)


def _objects(origin: Origin, value: Any) -> Iterator[Document | InvalidDocument]:
    if not isinstance(value, dict):
        yield invalid_document(
            origin, "document", "", f"is {_WORDS.get(type(value), 'a value')}, not an object"
        )
        return
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        yield invalid_document(origin, "document", "kind", "must be a string" if kind else "is missing")
    elif kind == "List" or (kind.endswith("List") and "items" in value):
        yield from _items(origin, value, kind.removesuffix("List"))
    else:
        yield Document(origin, value)


def _items(origin: Origin, value: dict[str, Any], kind: str) -> Iterator[Document | InvalidDocument]:
    items = value.get("items")
    if not isinstance(items, list | None):
        yield invalid_document(origin, str(value["kind"]), "items", "must be a list")
        return
    # In a typed list, as the API sends it, the items have no apiVersion and kind of their own.
    common = {"apiVersion": value.get("apiVersion"), "kind": kind} if kind else {}
    for index, item in enumerate(items or ()):
        yield from _objects(origin.at(index), {**common, **item} if isinstance(item, dict) else item)


_WORDS = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


FieldPath = tuple[str, ...]
"""Keys and indexes from the top of a document, all as text"""

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def lines_of(text: str, fields: Iterable[tuple[Origin, str]]) -> dict[tuple[Origin, str], int]:
    """The line of each field, counted from one; for a missing field the line of its nearest parent.

    text:   of the file that the origins name
    fields: the place of an object, and a path below it such as `spec.devices[3].attributes[model]`
    """
    wanted: dict[int, dict[tuple[Origin, str], FieldPath]] = {}
    for origin, name in fields:
        path = (*_field_path(origin.item), *_field_path(name))
        wanted.setdefault(origin.line, {})[origin, name] = path
    lines = text.split("\n")
    found: dict[tuple[Origin, str], int] = {}
    starts = sorted(wanted)
    # The parser encodes all text that it gets, so each document gets its own lines only. JSON documents may
    # meet in one line, so the first line of the next document is included.
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        paths = wanted[start]
        known = _walk("\n".join(lines[start - 1 : end]), set(paths.values()))
        for field, path in paths.items():
            nearest = next(path[:end] for end in range(len(path), -1, -1) if path[:end] in known)
            found[field] = start + known[nearest]
    return found


def _field_path(text: str) -> FieldPath:
    return tuple(index or name for index, name in _STEP.findall(text))


class _Open(Struct):
    """A list or mapping whose end event has not arrived."""

    path: FieldPath | None
    """None: no wanted path is below it"""
    index: int | None
    """Of the next element; None in a mapping"""
    key: FieldPath | None = None
    awaits_key: bool = True


def _walk(text: str, wanted: set[FieldPath]) -> dict[FieldPath, int]:
    """The lines (from zero) of the paths and of all their parents, in the first document."""
    prefixes = {path[:end] for path in wanted for end in range(len(path) + 1)}
    known: dict[FieldPath, int] = {(): 0}
    opened: list[_Open] = []
    for event in _events(text):
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            opened.pop()
            continue
        path = _step(opened[-1], event, prefixes, known) if opened else ()
        if isinstance(event, yaml.MappingStartEvent):
            opened.append(_Open(path, None))
        elif isinstance(event, yaml.SequenceStartEvent):
            opened.append(_Open(path, 0))
    return known


def _step(
    parent: _Open, event: yaml.Event, prefixes: set[FieldPath], known: dict[FieldPath, int]
) -> FieldPath | None:
    """The path of the event's value. Its line is recorded if it is a wanted path or a parent of one."""
    if parent.index is None and not parent.awaits_key:
        parent.awaits_key = True
        return parent.key
    if parent.index is None:
        step = event.value if isinstance(event, yaml.ScalarEvent) else ""
        parent.awaits_key = False
    else:
        step, parent.index = str(parent.index), parent.index + 1
    path = (*parent.path, step) if parent.path is not None else None
    path = path if path in prefixes else None
    if path is not None and event.start_mark is not None:
        known.setdefault(path, event.start_mark.line)
    parent.key = path
    return path if parent.index is not None else None


def _events(text: str) -> Iterator[yaml.Event]:
    """The events of one document, up to the first error."""
    loader = Loader(text)
    try:
        while not isinstance(event := loader.get_event(), yaml.DocumentEndEvent | yaml.StreamEndEvent):
            if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                yield event
    except yaml.YAMLError:
        return
    finally:
        loader.dispose()
