"""What closures do as they run: the frame, selecting and indexing, logic, and loops over lists and maps."""

from collections.abc import Callable, Iterable, Iterator

from reconciler.cel import values
from reconciler.cel.errors import COST_LIMIT, CelError, Exhausted
from reconciler.cel.library.lists import sort_by
from reconciler.cel.tree import Macro


class Frame:
    """A device, the values of the bound names, and the remaining steps."""

    __slots__ = ("device", "remaining", "slots")

    def __init__(self, device: values.DeviceView, names: int, remaining: int = COST_LIMIT) -> None:
        self.device = device
        self.slots: list[values.Value] = [None] * names
        self.remaining = remaining

    def charge(self, steps: int) -> None:
        """Count `steps`. Raises Exhausted beyond the limit."""
        self.remaining -= steps
        if self.remaining < 0:
            raise Exhausted(f"the evaluation exceeds {COST_LIMIT} steps")


class Failed:
    """A bound name whose value could not be computed: an error only where the name is used."""

    __slots__ = ("error",)

    def __init__(self, error: CelError) -> None:
        self.error = error


def decide(terms: Iterable[Callable[[Frame], values.Value]], frame: Frame, ends_on: bool) -> bool:
    """Evaluate terms until one equals `ends_on`. Raises the first error if none does."""
    failure: CelError | None = None
    for term in terms:
        try:
            if values.truth(term(frame)) is ends_on:
                return ends_on
        except CelError as exc:
            failure = failure or exc
    if failure is not None:
        raise failure
    return not ends_on


INDICES = frozenset({str, int, values.UInt, float, bool})
"""Types that can stand in brackets, whatever is before them"""
_SHOWN = 200
"""Characters of a key that a message quotes"""
_EMPTY: dict[str, values.Value] = {}


def lookup(container: values.Value, key: values.Value) -> values.Value:
    """The element of a map, list or device, or MISSING, as in values without elements.

    Raises CelError for what cannot be an index.
    """
    kind = type(container)
    if type(key) not in INDICES:
        raise CelError(f"{values.name_of(key)} cannot be an index")
    if kind is dict or kind is values.Built:
        return container.get(key, values.MISSING) if type(key) is str else values.entry(container, key)
    if kind is values.Domains:
        return container.get(key, _EMPTY) if type(key) is str else _EMPTY
    if kind is tuple:
        return _item(container, key)
    if kind is values.DeviceView:
        return values.device_field(container, key)
    return values.MISSING


def _item(items: tuple[values.Value, ...], key: values.Value) -> values.Value:
    if type(key) is values.UInt:
        key = key.value
    elif type(key) is float and key.is_integer():
        key = int(key)
    if type(key) is not int:
        raise CelError(f"a list index must be an integer, not {values.name_of(key)}")
    return items[key] if 0 <= key < len(items) else values.MISSING


def strict(container: values.Value, key: values.Value) -> values.Value:
    """`container[key]`. A missing key is an error (CEL-5). An optional container gives an optional result."""
    if type(container) is values.Option:
        return optional(container, key)
    found = lookup(container, key)
    if found is values.MISSING:
        what = "index out of bounds" if type(container) is tuple else "no such key"
        raise CelError(f"{what}: {str(key.value if type(key) is values.UInt else key)[:_SHOWN]}")
    return found


def optional(container: values.Value, key: values.Value) -> values.Option:
    """`container[?key]`."""
    if type(container) is values.Option:
        if not container.present:
            return values.NOTHING
        container = container.value
    found = lookup(container, key)
    if found is values.MISSING:
        return values.NOTHING
    return found if type(found) is values.Option else values.Option(True, found)


def present(container: values.Value, key: str) -> bool:
    """`has(container.key)`."""
    if type(container) is values.Option:
        return container.present and present(container.value, key)
    return lookup(container, key) is not values.MISSING


Run = Callable[[Frame], values.Value]
Steps = Callable[[Frame], Iterator[values.Value]]
"""Binds the names to one element after another; yields the index or key of each that passes `where`."""

_STEP = 3


def comprehension(macro: Macro, over: Run, slots: list[int], where: Run | None, body: Run) -> Run:
    """The closure of a macro over the values of `over`."""
    if macro in (Macro.OPT_MAP, Macro.OPT_FLAT_MAP):
        return _on_option(over, slots[0], body, macro is Macro.OPT_FLAT_MAP)
    return _MAKERS[macro](_steps(over, slots, where), slots, body)


def _steps(over: Run, slots: list[int], where: Run | None) -> Steps:
    def steps(frame: Frame) -> Iterator[values.Value]:
        for key, value, only in _pairs(over(frame)):
            frame.charge(_STEP)
            if len(slots) == 2:
                frame.slots[slots[0]], frame.slots[slots[1]] = key, value
            else:
                frame.slots[slots[0]] = only
            if where is None or values.truth(where(frame)):
                yield key

    return steps


def _pairs(value: values.Value) -> Iterator[tuple[values.Value, values.Value, values.Value]]:
    """Index or key, value, and the value that a single name is bound to."""
    if type(value) is tuple:
        return ((index, item, item) for index, item in enumerate(value))
    if isinstance(value, dict):
        return ((values.key_value(key), item, values.key_value(key)) for key, item in value.items())
    raise CelError(f"no such overload: {values.name_of(value)} has no elements")


def _all(steps: Steps, _slots: list[int], body: Run) -> Run:
    return _quantifier(steps, body, ends_on=False)


def _exists(steps: Steps, _slots: list[int], body: Run) -> Run:
    return _quantifier(steps, body, ends_on=True)


def _quantifier(steps: Steps, body: Run, *, ends_on: bool) -> Run:
    return lambda frame: decide((body for _ in steps(frame)), frame, ends_on)


def _exists_one(steps: Steps, _slots: list[int], body: Run) -> Run:
    return lambda frame: sum([values.truth(body(frame)) for _ in steps(frame)]) == 1


def _filter(steps: Steps, slots: list[int], body: Run) -> Run:
    def run(frame: Frame) -> values.Value:
        kept: list[values.Value] = []
        for _ in steps(frame):
            item = frame.slots[slots[0]]
            if values.truth(body(frame)):
                kept.append(item)
        return tuple(kept)

    return run


def _map(steps: Steps, _slots: list[int], body: Run) -> Run:
    return lambda frame: tuple([body(frame) for _ in steps(frame)])


def _transform_map(steps: Steps, _slots: list[int], body: Run) -> Run:
    return lambda frame: values.Built({values.map_key(key): body(frame) for key in steps(frame)})


def _transform_map_entry(steps: Steps, _slots: list[int], body: Run) -> Run:
    def run(frame: Frame) -> values.Value:
        made = values.Built()
        for _ in steps(frame):
            entries = body(frame)
            if not isinstance(entries, dict):
                raise CelError(f"no such overload: expected a map, got {values.name_of(entries)}")
            frame.charge(len(entries))
            for key, value in entries.items():
                if values.entry(made, values.key_value(key)) is not values.MISSING:
                    raise CelError(f"duplicate key {values.key_value(key)} in a map")
                made[key] = value
        return made

    return run


def _sort_by(steps: Steps, slots: list[int], body: Run) -> Run:
    def run(frame: Frame) -> values.Value:
        items: list[values.Value] = []
        keys: list[values.Value] = []
        for _ in steps(frame):
            items.append(frame.slots[slots[0]])
            keys.append(body(frame))
        frame.charge(len(items) * len(items).bit_length())
        return sort_by(tuple(items), tuple(keys))

    return run


def _on_option(over: Run, slot: int, body: Run, flat: bool) -> Run:
    def run(frame: Frame) -> values.Value:
        frame.charge(_STEP)
        option = over(frame)
        if type(option) is not values.Option:
            raise CelError(f"no such overload: {values.name_of(option)} is not optional")
        if not option.present:
            return values.NOTHING
        frame.slots[slot] = option.value
        return body(frame) if flat else values.Option(True, body(frame))

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
