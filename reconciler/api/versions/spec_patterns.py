"""Reads specs of slices by patterns: a spec that equals a known one but for some strings is not parsed again.

The text is split at its quotation marks, so every other piece is the content of a string. Where two texts
differ in the contents of strings only, the places that differ become blanks, if they are values of string
attributes, the name of a node or that of a pool. A text that equals a pattern outside its blanks is as valid
as the one that the pattern was made of, and means the same but for these strings.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from sys import intern
from typing import Any, NamedTuple

from reconciler.api.objects.device_patterns import Blank, PatternDevices, SpecPattern
from reconciler.api.objects.model import fields_of
from reconciler.api.objects.slices import ResourcePool, ResourceSliceSpec

Read = Callable[[bytes], ResourceSliceSpec]
"""Reads a spec. Raises ValueError, among others, if it cannot be read fast."""

LONGEST = 1 << 18
"""Bytes of the longest text that patterns are made of"""
PATTERNS = 32
"""Most numbers of quotation marks for which patterns are kept; then all are dropped"""
ALIKE = 4
"""Most patterns, and most texts to make patterns of, with one number of quotation marks"""
BLANKS_OF_A_DEVICE = 6
"""Most blanks for each device, on average. What differs more is another machine type"""
SAMPLES = 32
"""Pieces of a text that are compared before all are"""
IN_VAIN = 256
"""Texts in a row that fit no pattern, after which only every IN_VAIN-th is compared with others"""

_NODE, _POOL = "node", "pool"
_Pieces = list[bytes]


class _Pattern(NamedTuple):
    """A pattern with the places of its blanks in a text."""

    pieces: _Pieces
    """All pieces; those of blanks are empty"""
    places: tuple[int, ...]
    """Positions of the blanks: first those of devices, then that of the node and that of the pool, if any"""
    taken: Callable[[_Pieces], Sequence[bytes]]
    """The pieces at the places, or the one piece"""
    sampled: Callable[[_Pieces], Any]
    """Some of the other pieces"""
    sample: Any
    meaning: SpecPattern
    others: tuple[str, ...]
    """What the places after those of devices mean"""


class SpecPatterns:
    """The patterns of the specs that were read lately.

    Several threads may read. What is kept is only replaced; what two learn at once, one may lose.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._patterns: dict[int, tuple[_Pattern, ...]] = {}
        """By number of pieces, the last used first"""
        self._unmatched: dict[int, tuple[bytes, ...]] = {}
        """Texts by number of pieces, the newest first"""
        self._in_vain = 0

    def read(self, text: bytes, *, learn: bool) -> ResourceSliceSpec:
        """The spec. Raises what the reader raises.

        To learn takes several times as long as to read. It pays for a listing, of which many texts are alike.
        """
        if len(text) > LONGEST or b"\\" in text or not text.isascii():
            return self._read(text)
        pieces = text.split(b'"')
        found = self._fitting(pieces)
        if found is not None:
            self._in_vain = 0
            return found
        spec = self._read(text)
        if not learn:
            return spec
        self._in_vain += 1
        if self._in_vain < IN_VAIN or not self._in_vain % IN_VAIN:
            self._learn(text, pieces, spec)
        return spec

    def _fitting(self, pieces: _Pieces) -> ResourceSliceSpec | None:
        patterns = self._patterns.get(len(pieces), ())
        for number, pattern in enumerate(patterns):
            if pattern.sampled(pieces) != pattern.sample:
                continue  # most others differ here
            strings = pattern.taken(pieces)
            rest = pieces.copy()
            for place in pattern.places:
                rest[place] = b""
            if rest == pattern.pieces:
                if number:
                    self._patterns[len(pieces)] = (pattern, *_without(pattern, patterns))
                decoded = b'"'.join(strings).decode()
                # Anything else is no JSON, as are quotation marks and backslashes, which are not in here.
                return _filled(pattern, decoded.split('"')) if decoded.isprintable() else None
        return None

    def _learn(self, text: bytes, pieces: _Pieces, spec: ResourceSliceSpec) -> None:
        """Make a pattern of this text and one that differs in strings only, if there is one."""
        count = len(pieces)
        for pattern in self._patterns.get(count, ()):
            if (made := self._widened(pattern.pieces, pattern.places, pieces, spec)) is not None:
                self._keep(made, in_place_of=pattern)
                return
        for other in self._unmatched.get(count, ()):
            if (made := self._widened(other.split(b'"'), (), pieces, spec)) is not None:
                self._unmatched.pop(count, None)
                self._keep(made, in_place_of=None)
                return
        if len(self._unmatched) >= PATTERNS:
            self._unmatched.clear()
        self._unmatched[count] = (text, *self._unmatched.get(count, ())[: ALIKE - 1])

    def _keep(self, made: _Pattern, *, in_place_of: _Pattern | None) -> None:
        if len(self._patterns) >= PATTERNS:
            self._patterns.clear()
        kept = _without(in_place_of, self._patterns.get(len(made.pieces), ()))
        self._patterns[len(made.pieces)] = (made, *kept[: ALIKE - 1])

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
        """The pattern with these blanks; None if one of them is no value that may differ.

        What a blank means is found by reading the text with a mark in each.
        """
        unused = b"blank"
        while any(unused in piece for piece in pieces):
            unused += b"."
        marked = pieces.copy()
        for at in blanks:
            marked[at] = b"%b %d" % (unused, at)
        try:
            found = list(_strings(self._read(b'"'.join(marked))))
        except Exception:
            return None
        places = {marked[at].decode(): at for at in blanks}
        meant = {mark: meaning for mark, meaning in found if mark in places}
        if len(meant) < len(places):
            return None
        of_devices = [(at, meant[mark]) for mark, at in places.items() if isinstance(meant[mark], Blank)]
        others = [(at, meant[mark]) for mark, at in places.items() if not isinstance(meant[mark], Blank)]
        order = tuple([at for at, _ in (*of_devices, *others)])
        shared: dict[bytes, bytes] = {}
        rest = [shared.setdefault(piece, piece) for piece in pieces]
        for at in order:
            rest[at] = b""
        fixed = sorted(set(range(len(pieces))).difference(order))
        sampled = itemgetter(*fixed[1 :: len(fixed) // SAMPLES + 1])
        return _Pattern(
            rest,
            order,
            itemgetter(*order) if len(order) > 1 else itemgetter(slice(order[0], order[0] + 1)),
            sampled,
            sampled(pieces),
            SpecPattern(spec, [blank for _, blank in of_devices if isinstance(blank, Blank)]),
            tuple([str(meaning) for _, meaning in others]),
        )


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
    count = len(pattern.meaning.blanks)
    others = dict(zip(pattern.others, strings[count:], strict=True))
    pool = known.pool
    if _POOL in others:
        pool = _new_pool(ResourcePool)
        for write, value in zip(
            _WRITES_OF_POOL,
            (intern(others[_POOL]), known.pool.generation, known.pool.resource_slice_count),
            strict=True,
        ):
            write(pool, value)
    devices: Any = known.devices
    if count:
        devices = PatternDevices(pattern.meaning, tuple(strings[:count]))
    own = {"pool": pool, "devices": devices, "node_name": known.node_name}
    if _NODE in others:
        own["node_name"] = intern(others[_NODE])
    spec = _new_spec(ResourceSliceSpec)
    for name, write_field, read_field in _FIELDS:
        write_field(spec, own[name] if name in own else read_field(known))
    return spec


# Slots are written directly: each field was validated in another spec of the pattern.
_new_spec: Callable[[type[ResourceSliceSpec]], ResourceSliceSpec] = object.__new__
_new_pool: Callable[[type[ResourcePool]], ResourcePool] = object.__new__
_WRITES_OF_POOL = tuple(
    ResourcePool.__dict__[name].__set__ for name in ("name", "generation", "resource_slice_count")
)
_FIELDS = tuple(
    (name, ResourceSliceSpec.__dict__[name].__set__, ResourceSliceSpec.__dict__[name].__get__)
    for name in fields_of(ResourceSliceSpec)
)
