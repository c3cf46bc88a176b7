"""Texts become documents, and lists become the objects in them. What cannot be read is refused alone."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from reconciler.errors import Malformed
from reconciler.manifests import jsontext, yamltext
from reconciler.manifests.origin import Origin
from reconciler.manifests.sources import texts

# At the start of a line neither marker can be anything else, not even inside a quoted or literal string,
# so cutting there is sound and keeps one broken document from hiding the others.
_START = re.compile(r"---(?=[ \t\r\n]|$)")
_STOP = re.compile(r"\.\.\.(?=[ \t\r\n]|$)")
_PREAMBLE = re.compile(r"[ \t]*(?:#.*|%.*)?\r?\n?")


@dataclass(frozen=True, slots=True)
class Document:
    """One object as it was written."""

    origin: Origin
    raw: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something in the input that cannot be used. `problem` names the place, the object and the reason."""

    origin: Origin
    problem: Malformed


def refuse(origin: Origin, subject: str, field: str, reason: str) -> Refusal:
    """The refusal of what stands at `origin`."""
    return Refusal(origin, Malformed(f"{origin}: {subject}" if subject else str(origin), field, reason))


def documents(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Document | Refusal]:
    """Every object in the files, directories or `-` that `paths` names, lists unwrapped."""
    return of_texts(texts(paths, stdin))


def of_texts(found: Iterable[tuple[str, str | Malformed]]) -> Iterator[Document | Refusal]:
    """Every object in some texts, each with its name or with why it cannot be read."""
    for name, text in found:
        if isinstance(text, Malformed):
            yield Refusal(Origin(name), text)
        else:
            yield from of_text(name, text)


def of_text(name: str, text: str) -> Iterator[Document | Refusal]:
    """Every object in one text, which is JSON if it looks like it and YAML otherwise."""
    if text.lstrip()[:1] == "{":
        try:
            found = list(jsontext.parse_all(text))
        except yamltext.NotYaml as exc:
            if name.endswith(".json"):
                yield _unreadable(name, 0, exc)
                return
        else:
            for line, value in found:
                yield from _objects(Origin(name, line + 1), value)
            return
    for line, part in split(text):
        try:
            value = yamltext.parse(part)
        except yamltext.NotYaml as exc:
            yield _unreadable(name, line, exc)
        else:
            if value is not None:
                yield from _objects(Origin(name, line + 1 + _blank(part)), value)


def split(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a YAML text, each with the line (from zero) on which it begins."""
    part: list[str] = []
    start = 0
    for number, line in enumerate(text.split("\n")):
        if _START.match(line) and not all(_PREAMBLE.fullmatch(earlier) for earlier in part):
            yield start, "\n".join(part) + "\n"
            part, start = [], number
        part.append(line)
        if _STOP.match(line):
            yield start, "\n".join(part) + "\n"
            part, start = [], number + 1
    yield start, "\n".join(part)


def _blank(part: str) -> int:
    """Lines before the first that says something."""
    for number, line in enumerate(part.split("\n")):
        if not _PREAMBLE.fullmatch(line.removeprefix("---")):
            return number
    return 0


def _unreadable(name: str, line: int, exc: yamltext.NotYaml) -> Refusal:
    at = line + exc.line + 1
    return Refusal(Origin(name, at), Malformed(f"{name}:{at}:{exc.column + 1}", "", exc.problem))


def _objects(origin: Origin, value: Any) -> Iterator[Document | Refusal]:
    if not isinstance(value, dict):
        yield refuse(origin, "document", "", f"is {_WORDS.get(type(value), 'a value')}, not an object")
        return
    kind = value.get("kind")
    if not isinstance(kind, str) or not kind:
        yield refuse(origin, "document", "kind", "must be a string" if kind else "is missing")
    elif kind == "List" or (kind.endswith("List") and "items" in value):
        yield from _items(origin, value, kind.removesuffix("List"))
    else:
        yield Document(origin, value)


def _items(origin: Origin, value: dict[str, Any], kind: str) -> Iterator[Document | Refusal]:
    items = value.get("items")
    if not isinstance(items, list | None):
        yield refuse(origin, str(value["kind"]), "items", "must be a list")
        return
    # The items of a typed list, as the API itself sends it, leave out what the list says for all of them.
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
