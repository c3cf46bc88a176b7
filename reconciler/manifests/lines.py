"""Where in a text the fields of an object stand. Read again for the few that somebody has to be shown."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import yaml

from reconciler.manifests.origin import Origin
from reconciler.manifests.scalars import Loader

Path = tuple[str, ...]
"""Keys and indexes from the top of a document, all as text"""

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def lines_of(text: str, fields: Iterable[tuple[Origin, str]]) -> dict[tuple[Origin, str], int]:
    """The line of each field, counted from one; of what holds it where it is not written.

    text:   of the file that the origins name
    fields: where an object stands, and a path below it such as `spec.devices[3].attributes[model]`
    """
    wanted: dict[int, dict[tuple[Origin, str], Path]] = {}
    for origin, name in fields:
        path = (*_path(origin.item), *_path(name))
        wanted.setdefault(origin.line, {})[origin, name] = path
    lines = text.split("\n")
    found: dict[tuple[Origin, str], int] = {}
    for start, paths in wanted.items():
        known = _walk("\n".join(lines[start - 1 :]), set(paths.values()))
        for asked, path in paths.items():
            nearest = next(path[:end] for end in range(len(path), -1, -1) if path[:end] in known)
            found[asked] = start + known[nearest]
    return found


def _path(text: str) -> Path:
    return tuple(index or name for index, name in _STEP.findall(text))


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read."""

    path: Path | None
    """None: nothing below it is asked for"""
    index: int | None
    """Of the next element; None in a mapping"""
    key: Path | None = None
    awaits_key: bool = True


def _walk(text: str, wanted: set[Path]) -> dict[Path, int]:
    """The lines, from zero, of all that lies on the way to the paths, in the first document."""
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
    """The path of what the event begins, noted if it is on the way to a path that is asked for."""
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
    """What one document consists of, as far as it can be read."""
    loader = Loader(text)
    try:
        while not isinstance(event := loader.get_event(), yaml.DocumentEndEvent | yaml.StreamEndEvent):
            if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                yield event
    except yaml.YAMLError:
        return
    finally:
        loader.dispose()
