"""Finds the lines of fields in a text. Parses the text again, only for the few objects of a report."""

import re
from collections.abc import Iterable, Iterator

import yaml
from msgspec import Struct

from reconciler.api.manifests.documents import Origin
from reconciler.api.manifests.yaml_text import Loader

Path = tuple[str, ...]
"""Keys and indexes from the top of a document, all as text"""

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def lines_of(text: str, fields: Iterable[tuple[Origin, str]]) -> dict[tuple[Origin, str], int]:
    """The line of each field, counted from one; for a missing field the line of its nearest parent.

    text:   of the file that the origins name
    fields: the place of an object, and a path below it such as `spec.devices[3].attributes[model]`
    """
    wanted: dict[int, dict[tuple[Origin, str], Path]] = {}
    for origin, name in fields:
        path = (*_path(origin.item), *_path(name))
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


def _path(text: str) -> Path:
    return tuple(index or name for index, name in _STEP.findall(text))


class _Open(Struct):
    """A list or mapping whose end event has not arrived."""

    path: Path | None
    """None: no wanted path is below it"""
    index: int | None
    """Of the next element; None in a mapping"""
    key: Path | None = None
    awaits_key: bool = True


def _walk(text: str, wanted: set[Path]) -> dict[Path, int]:
    """The lines (from zero) of the paths and of all their parents, in the first document."""
    prefixes = {path[:end] for path in wanted for end in range(len(path) + 1)}
    known: dict[Path, int] = {(): 0}
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


def _step(parent: _Open, event: yaml.Event, prefixes: set[Path], known: dict[Path, int]) -> Path | None:
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
