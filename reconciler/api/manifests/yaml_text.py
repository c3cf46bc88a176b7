"""Parses one YAML document to plain values: dicts with string keys, lists, strings, numbers, booleans, None.

It builds values from events in a loop, since libyaml's own composer overflows the C stack on deep nesting and
crashes the process. The expanded size of aliases and merge keys is counted before they are copied.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import yaml
from msgspec import Struct

from reconciler.api.manifests.parsing import MAX_DEPTH, ParseError
from reconciler.api.manifests.scalars import MERGE, RESOLVERS, TAG, VALUE_OF

MAX_ALIASED = 1_000_000
"""Maximum number of values that all aliases of one document repeat."""


Place = tuple[int, int]
"""Line and column, from zero"""


# libyaml if PyYAML was built with it: about ten times faster, with the same events.
_Base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Base):  # type: ignore[misc, valid-type]
    """Converts text to events and resolves the tag of a plain scalar. It does not construct values."""

    yaml_implicit_resolvers: ClassVar[Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]] = RESOLVERS


def parse(text: str) -> Any:
    """The value of the only document in `text`; None if there is none. Raises ParseError."""
    loader = Loader(text)
    try:
        return _Builder(loader).build()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = ", ".join(filter(None, (exc.context, exc.problem))) or "is not YAML"
        raise ParseError(problem, mark.line if mark else 0, mark.column if mark else 0) from exc
    except yaml.reader.ReaderError as exc:
        before = text[: exc.position] if isinstance(exc.position, int) else ""
        column = len(before) - (before.rfind("\n") + 1)
        raise ParseError(f"{exc.reason}: {exc.character!r}", before.count("\n"), column) from exc
    finally:
        loader.dispose()


class _Open(Struct):
    """A list or mapping whose end event has not arrived."""

    value: Any
    anchor: str | None
    place: Place
    size: int = 1
    key: str | None = None
    awaits_key: bool = True
    merged: dict[str, Any] | None = None
    """The values of `<<`: an earlier source overrides a later one; the mapping's own keys override both"""
    merging: bool = False


class _Builder:
    """Builds the value from events. Keeps the open collections and the values of anchors."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._root: Any = None

    def build(self) -> Any:
        seen = 0
        while not isinstance(event := self._loader.get_event(), yaml.StreamEndEvent):
            match event:
                case yaml.DocumentStartEvent():
                    seen += 1
                    if seen > 1:
                        raise _at(_where(event), "a second document begins without `---`")
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.AliasEvent():
                    self._alias(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end()
        return self._root

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        parent = self._open[-1] if self._open else None
        if tag == MERGE and parent is not None and isinstance(parent.value, dict) and parent.awaits_key:
            if parent.merged is not None:
                raise _at(_where(event), "a second `<<` in one mapping; give the first a list")
            parent.awaits_key, parent.merging = False, True
            return
        if tag not in VALUE_OF:
            raise _at(_where(event), f"the tag {_short(tag)} is not supported")
        try:
            value = VALUE_OF[tag](event.value)
        except (ValueError, IndexError) as exc:
            raise _at(_where(event), f"{event.value[:40]!r} is not {_short(tag)}") from exc
        self._add(value, 1, event.anchor, _where(event))

    def _alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            unfinished = any(entry.anchor == event.anchor for entry in self._open)
            why = "is inside its own anchor" if unfinished else "has no anchor before it"
            raise _at(_where(event), f"the alias *{event.anchor} {why}")
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise _at(_where(event), f"aliases repeat more than {MAX_ALIASED} values")
        # A copy, so that a later change in one place does not affect another.
        self._add(copy.deepcopy(value), size, None, _where(event))

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", TAG + ("map" if mapping else "seq")):
            raise _at(_where(event), f"the tag {_short(event.tag)} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise _at(_where(event), f"nested deeper than {MAX_DEPTH} levels")
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].awaits_key:
            raise _at(_where(event), "a mapping or list cannot be a key")
        self._open.append(_Open({} if mapping else [], event.anchor, _where(event)))

    def _end(self) -> None:
        done = self._open.pop()
        value = done.value if done.merged is None else {**done.merged, **done.value}
        self._add(value, done.size, done.anchor, done.place)

    def _add(self, value: Any, size: int, anchor: str | None, place: Place) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        parent.size += size
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.merging:
            parent.merged = _merged(value, place)
            parent.merging, parent.awaits_key = False, True
        elif parent.awaits_key:
            parent.key = _key(value, place)
            if parent.key in parent.value:
                raise _at(place, f"the key {parent.key[:80]!r} occurs twice in one mapping")
            parent.awaits_key = False
        else:
            parent.value[parent.key] = value
            parent.awaits_key = True


def _merged(value: Any, place: Place) -> dict[str, Any]:
    sources = value if isinstance(value, list) else [value]
    merged: dict[str, Any] = {}
    for source in sources:
        if not isinstance(source, dict):
            raise _at(place, "`<<` takes a mapping or a list of mappings")
        merged = {**source, **merged}
    return merged


def _key(value: Any, place: Place) -> str:
    """The key as a string: a number or a boolean becomes its text, as in the API server."""
    if value is None:
        raise _at(place, "a key is missing")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _where(event: yaml.Event) -> Place:
    mark = event.start_mark
    return (mark.line, mark.column) if mark is not None else (0, 0)


def _at(place: Place, problem: str) -> ParseError:
    return ParseError(problem, *place)


def _short(tag: str) -> str:
    return tag.replace(TAG, "!!") if tag.startswith(TAG) else tag
