"""Reads specs of slices by patterns: a spec that equals a known one but for some strings is not parsed again.

Where two texts differ in the contents of strings only, the places that differ become blanks, if they are
values of string attributes, the name of a node or that of a pool. A text that equals a pattern outside its
blanks is as valid as the one that the pattern was made of, and means the same but for these strings. To learn
what differs, texts are split at their quotation marks, so every other piece is the content of a string.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple, TypeVar

from reconciler.api.objects.device_patterns import Blank, PatternDevices, SpecPattern, places_of
from reconciler.api.objects.model import fields_of
from reconciler.api.objects.slices import ResourcePool, ResourceSliceSpec

T = TypeVar("T")

Read = Callable[[bytes], ResourceSliceSpec]
"""Reads a spec. Raises ValueError, among others, if it cannot be read fast."""

LONGEST = 1 << 18
"""Bytes of the longest text that patterns are made of"""
KINDS = 256
"""Most numbers of quotation marks for which patterns, and texts, are kept. The least recently used
are dropped. Each machine type has about one number"""
ALIKE = 4
"""Most patterns, and most texts to make patterns of, with one number of quotation marks"""
BLANKS_OF_A_DEVICE = 6
"""Most blanks for each device, on average. What differs more is another machine type"""
IN_VAIN = 256
"""Texts in a row that fit no pattern, after which only every IN_VAIN-th is compared with others"""

_NODE, _POOL = "node", "pool"
_Pieces = list[str]


class _Pattern(NamedTuple):
    """A pattern as it is found in a text."""

    fixed: tuple[str, ...]
    """The text before, between and after the blanks, with the quotation marks around these"""
    of_devices: Callable[[Sequence[str]], Sequence[str]]
    """Of the contents of all blanks those that belong to devices"""
    node: int | None
    """Which blank has the name of the node"""
    pool: int | None
    """Which has the name of the pool"""
    meaning: SpecPattern
    common: Sequence[tuple[Callable[[ResourceSliceSpec, Any], None], Any]]
    """The fields of a spec that are the same in all, with how they are written"""

    @property
    def pieces(self) -> _Pieces:
        """The text split at quotation marks, with empty blanks."""
        return "".join(self.fixed).split('"')

    @property
    def places(self) -> list[int]:
        """Positions of the blanks among the pieces."""
        return list(accumulate(text.count('"') for text in self.fixed[:-1]))

    def strings(self, text: str) -> list[str] | None:
        """The contents of the blanks of a text without backslashes; None if it differs elsewhere."""
        fixed = self.fixed
        if not text.startswith(fixed[0]):
            return None
        found, at = [], len(fixed[0])
        for following in fixed[1:]:
            end = text.find('"', at)
            if not text.startswith(following, end):
                return None
            found.append(text[at:end])
            at = end + len(following)
        return found if at == len(text) else None


class SpecPatterns:
    """The patterns of the specs that were read lately.

    Several threads may read. What is kept is only replaced; what two learn at once, one may lose.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._patterns: dict[int, tuple[_Pattern, ...]] = {}
        """By number of quotation marks, the last used at the end; of each number the last used first"""
        self._unmatched: dict[int, tuple[str, ...]] = {}
        """Texts by number of quotation marks, the last used at the end; of each the newest first"""
        self._last: _Pattern | None = None
        """The pattern that was used last"""
        self._in_vain = 0

    def read(self, text: bytes, *, learn: bool) -> ResourceSliceSpec:
        """The spec. Raises what the reader raises.

        To learn takes several times as long as to read. It pays for a listing, of which many texts are alike.
        """
        if len(text) > LONGEST or b"\\" in text or not text.isascii():
            return self._read(text)
        plain = text.decode()
        found = self._fitting(plain)
        if found is not None:
            self._in_vain = 0
            return found
        spec = self._read(text)
        if not learn:
            return spec
        self._in_vain += 1
        if self._in_vain < IN_VAIN or not self._in_vain % IN_VAIN:
            self._learn(plain, spec)
        return spec

    def _fitting(self, text: str) -> ResourceSliceSpec | None:
        pattern = self._last
        strings = pattern.strings(text) if pattern is not None else None
        if strings is None:
            pattern, strings = self._found(text)
        # Anything else is no JSON, as are quotation marks and backslashes, which are not in here.
        if pattern is None or strings is None or not "".join(strings).isprintable():
            return None
        return _filled(pattern, strings)

    def _found(self, text: str) -> tuple[_Pattern | None, list[str] | None]:
        """The pattern of a text with the contents of its blanks."""
        count = text.count('"')
        patterns = self._patterns.get(count, ())
        for pattern in patterns:
            strings = pattern.strings(text)
            if strings is not None:
                self._last = pattern
                _put(self._patterns, count, (pattern, *_without(pattern, patterns)))
                return pattern, strings
        return None, None

    def _learn(self, text: str, spec: ResourceSliceSpec) -> None:
        """Make a pattern of this text and one that differs in strings only, if there is one."""
        pieces = text.split('"')
        count = len(pieces) - 1
        for pattern in self._patterns.get(count, ()):
            if (made := self._widened(pattern.pieces, pattern.places, pieces, spec)) is not None:
                self._keep(made, count, in_place_of=pattern)
                return
        for other in self._unmatched.get(count, ()):
            if (made := self._widened(other.split('"'), (), pieces, spec)) is not None:
                self._unmatched.pop(count, None)
                self._keep(made, count, in_place_of=None)
                return
        _put(self._unmatched, count, (text, *self._unmatched.get(count, ())[: ALIKE - 1]))

    def _keep(self, made: _Pattern, count: int, *, in_place_of: _Pattern | None) -> None:
        kept = _without(in_place_of, self._patterns.get(count, ()))
        _put(self._patterns, count, (made, *kept[: ALIKE - 1]))

    def _widened(
        self, other: _Pieces, places: Sequence[int], pieces: _Pieces, spec: ResourceSliceSpec
    ) -> _Pattern | None:
        """The pattern of two texts, of which one has blanks already; None if they have none in common."""
        if pieces[::2] != other[::2]:
            return None
        differing = {at for at in range(1, len(pieces), 2) if pieces[at] != other[at]}
        blanks = sorted(differing.union(places))
        if not 0 < len(blanks) <= BLANKS_OF_A_DEVICE * len(spec.devices) + 2:
            return None
        return self._of(pieces, blanks, spec)

    def _of(self, pieces: _Pieces, blanks: Sequence[int], spec: ResourceSliceSpec) -> _Pattern | None:
        """The pattern with these blanks, rising; None if one of them is no value that may differ.

        What a blank means is found by reading the text with a mark in each.
        """
        unused = "blank"
        while any(unused in piece for piece in pieces):
            unused += "."
        marked = pieces.copy()
        for at in blanks:
            marked[at] = f"{unused} {at}"
        try:
            found = dict(_strings(self._read('"'.join(marked).encode())))
        except Exception:
            return None
        meant = [found.get(marked[at]) for at in blanks]
        if None in meant:
            return None
        of_devices = [at for at, meaning in enumerate(meant) if isinstance(meaning, Blank)]
        # The piece at its place is a blank; the marks around it belong to the texts beside it.
        fixed = [
            '"'.join(["", *pieces[start + 1 : end], ""] if start else [*pieces[:end], ""])
            for start, end in zip([0, *blanks], [*blanks, len(pieces)], strict=True)
        ]
        own = ("pool", "devices", "node_name")
        return _Pattern(
            (*fixed[:-1], fixed[-1][:-1]),
            places_of(of_devices) if of_devices else itemgetter(slice(0)),
            meant.index(_NODE) if _NODE in meant else None,
            meant.index(_POOL) if _POOL in meant else None,
            SpecPattern(spec, [meaning for meaning in meant if isinstance(meaning, Blank)]),
            [(write, getattr(spec, name)) for name, write in _FIELDS.items() if name not in own],
        )


def _put(kept: dict[int, tuple[T, ...]], count: int, these: tuple[T, ...]) -> None:
    """Keep these as the last used, and drop the least recently used if there are too many."""
    kept.pop(count, None)
    kept[count] = these
    if len(kept) > KINDS:
        for old in list(kept)[:-KINDS]:
            kept.pop(old, None)


def _without(one: _Pattern | None, patterns: Sequence[_Pattern]) -> Sequence[_Pattern]:
    return [pattern for pattern in patterns if pattern is not one]


def _strings(spec: ResourceSliceSpec) -> Iterator[tuple[str, Blank | str]]:
    """All strings that may differ, with what they mean."""
    if spec.node_name is not None:
        yield spec.node_name, _NODE
    yield spec.pool.name, _POOL
    for row, device in enumerate(spec.devices):
        for key, attribute in device.attributes.items():
            if attribute.string is not None:
                yield attribute.string, Blank(row, key)


def _filled(pattern: _Pattern, strings: list[str]) -> ResourceSliceSpec:
    """The spec of a pattern with these strings in its blanks."""
    known = pattern.meaning.spec
    pool, node, devices = known.pool, known.node_name, known.devices
    if pattern.pool is not None:
        pool = _new_pool(ResourcePool)
        _write_pool_name(pool, intern(strings[pattern.pool]))
        _write_generation(pool, known.pool.generation)
        _write_slice_count(pool, known.pool.resource_slice_count)
    if pattern.node is not None:
        node = intern(strings[pattern.node])
    if pattern.meaning.blanks:
        devices = PatternDevices(pattern.meaning, tuple(pattern.of_devices(strings)))
    spec = _new_spec(ResourceSliceSpec)
    _write_pool(spec, pool)
    _write_node(spec, node)
    _write_devices(spec, devices)
    for write, value in pattern.common:
        write(spec, value)
    return spec


# Slots are written directly: each field was validated in another spec of the pattern.
_new_spec: Callable[[type[ResourceSliceSpec]], ResourceSliceSpec] = object.__new__
_new_pool: Callable[[type[ResourcePool]], ResourcePool] = object.__new__
_FIELDS = {name: ResourceSliceSpec.__dict__[name].__set__ for name in fields_of(ResourceSliceSpec)}
_write_pool, _write_node, _write_devices = _FIELDS["pool"], _FIELDS["node_name"], _FIELDS["devices"]
_write_pool_name = ResourcePool.__dict__["name"].__set__
_write_generation = ResourcePool.__dict__["generation"].__set__
_write_slice_count = ResourcePool.__dict__["resource_slice_count"].__set__
