"""Loops over lists and maps. Each iteration is charged, so that nested loops reach the limit."""

from collections.abc import Callable, Iterator
from typing import Any

from reconciler.cel.errors import CelError
from reconciler.cel.frames import Frame
from reconciler.cel.library.lists import sort_by
from reconciler.cel.logic import decide
from reconciler.cel.tree import Macro
from reconciler.cel.values import NOTHING, Option, Value, key_value, map_key, name_of, truth

Run = Callable[[Frame], Value]
Steps = Callable[[Frame], Iterator[Value]]
"""Binds the names to one element after another; yields the index or key of each that passes `where`."""

_STEP = 3


def comprehension(macro: Macro, over: Run, slots: list[int], where: Run | None, body: Run) -> Run:
    """The closure of a macro over the values of `over`."""
    if macro in (Macro.OPT_MAP, Macro.OPT_FLAT_MAP):
        return _on_option(over, slots[0], body, macro is Macro.OPT_FLAT_MAP)
    return _MAKERS[macro](_steps(over, slots, where), slots, body)


def _steps(over: Run, slots: list[int], where: Run | None) -> Steps:
    def steps(frame: Frame) -> Iterator[Value]:
        for key, value, only in _pairs(over(frame)):
            frame.charge(_STEP)
            if len(slots) == 2:
                frame.slots[slots[0]], frame.slots[slots[1]] = key, value
            else:
                frame.slots[slots[0]] = only
            if where is None or truth(where(frame)):
                yield key

    return steps


def _pairs(value: Value) -> Iterator[tuple[Value, Value, Value]]:
    """Index or key, value, and the value that a single name is bound to."""
    if type(value) is tuple:
        return ((index, item, item) for index, item in enumerate(value))
    if isinstance(value, dict):
        return ((key_value(key), item, key_value(key)) for key, item in value.items())
    raise CelError(f"no such overload: {name_of(value)} has no elements")


def _all(steps: Steps, _slots: list[int], body: Run) -> Run:
    return _quantifier(steps, body, ends_on=False)


def _exists(steps: Steps, _slots: list[int], body: Run) -> Run:
    return _quantifier(steps, body, ends_on=True)


def _quantifier(steps: Steps, body: Run, *, ends_on: bool) -> Run:
    return lambda frame: decide((body for _ in steps(frame)), frame, ends_on)


def _exists_one(steps: Steps, _slots: list[int], body: Run) -> Run:
    return lambda frame: sum([truth(body(frame)) for _ in steps(frame)]) == 1


def _filter(steps: Steps, slots: list[int], body: Run) -> Run:
    def run(frame: Frame) -> Value:
        kept: list[Value] = []
        for _ in steps(frame):
            item = frame.slots[slots[0]]
            if truth(body(frame)):
                kept.append(item)
        return tuple(kept)

    return run


def _map(steps: Steps, _slots: list[int], body: Run) -> Run:
    return lambda frame: tuple([body(frame) for _ in steps(frame)])


def _transform_map(steps: Steps, _slots: list[int], body: Run) -> Run:
    return lambda frame: {map_key(key): body(frame) for key in steps(frame)}


def _transform_map_entry(steps: Steps, _slots: list[int], body: Run) -> Run:
    def run(frame: Frame) -> Value:
        made: dict[Any, Value] = {}
        for _ in steps(frame):
            entries = body(frame)
            if not isinstance(entries, dict):
                raise CelError(f"no such overload: expected a map, got {name_of(entries)}")
            frame.charge(len(entries))
            for key, value in entries.items():
                if key in made:
                    raise CelError(f"duplicate key {key_value(key)} in a map")
                made[key] = value
        return made

    return run


def _sort_by(steps: Steps, slots: list[int], body: Run) -> Run:
    def run(frame: Frame) -> Value:
        items: list[Value] = []
        keys: list[Value] = []
        for _ in steps(frame):
            items.append(frame.slots[slots[0]])
            keys.append(body(frame))
        frame.charge(len(items) * len(items).bit_length())
        return sort_by(tuple(items), tuple(keys))

    return run


def _on_option(over: Run, slot: int, body: Run, flat: bool) -> Run:
    def run(frame: Frame) -> Value:
        frame.charge(_STEP)
        option = over(frame)
        if type(option) is not Option:
            raise CelError(f"no such overload: {name_of(option)} is not optional")
        if not option.present:
            return NOTHING
        frame.slots[slot] = option.value
        return body(frame) if flat else Option(True, body(frame))

    return run


_MAKERS: dict[Macro, Callable[[Steps, list[int], Run], Run]] = {
    Macro.ALL: _all,
    Macro.EXISTS: _exists,
    Macro.EXISTS_ONE: _exists_one,
    Macro.FILTER: _filter,
    Macro.MAP: _map,
    Macro.TRANSFORM_LIST: _map,
    Macro.TRANSFORM_MAP: _transform_map,
    Macro.TRANSFORM_MAP_ENTRY: _transform_map_entry,
    Macro.SORT_BY: _sort_by,
}
