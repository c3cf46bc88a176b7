"""Limits the distinct names of attributes and capacities: each is a column of the whole fleet.

A slice has at most `objects.slices.MAX_NAMES` names, but a driver may have any number of slices. Names are
counted for each driver, so that a driver with ever new names does not use up the names of others.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.slices import ResourceSlice

MAX_OF_DRIVER = 1024
"""Most distinct names in all slices of one driver"""
MAX_OF_FLEET = 4096
"""Most distinct names of all drivers together: 160 MB for 10,000 devices"""
MOST_REFUSED = 256
"""Refused slices that are taken in by themselves once others need fewer names; more wait for a change"""
SliceNames = tuple[str, frozenset[str]]
"""A driver and the names in one of its slices"""


def _names_of(source: ResourceSlice) -> SliceNames:
    return source.spec.driver, source.spec.names()


class Naming:
    """Counts the names of admitted slices. A name counts once for each driver that uses it."""

    def __init__(self) -> None:
        self._names_of: dict[str, SliceNames] = {}
        """Slice name -> its names"""
        self._slices: Counter[SliceNames] = Counter()
        """How many slices have the same names. Those of machines of one type do"""
        self._uses: dict[str, Counter[str]] = {}
        """Driver -> name -> number of these sets of names with it"""
        self._total = 0
        self._refused: dict[str, ResourceSlice] = {}
        """Slices with too many new names, the first refused first"""
        self._fewer = False
        """Whether a name went out of use since these were refused"""

    def again(self) -> Iterator[Changed]:
        """Slices that were refused and would be admitted by now: names of others went out of use.

        A driver that names its attributes anew is seen with both names until its last old slice is gone.
        """
        if not self._fewer or not self._refused:
            return
        self._fewer = False
        for name, source in list(self._refused.items()):
            # Each is looked at: where a large one still does not fit, a smaller one may.
            if self._refused.get(name) is source and not self._too_many(_names_of(source)):
                yield Changed(source.kind, source)

    def within(self, change: Change) -> Change:
        """The change, with each slice refused that has too many new names."""
        match change:
            case Changed(object=ResourceSlice() as found):
                why = self._admit(found)
                return Refused(change.kind, found.key, why) if why else change
            case Removed(kind="ResourceSlice", key=key) | Refused(kind="ResourceSlice", key=key):
                self._refused.pop(key.name, None)
                self._release(key.name)
            case Replaced(kind="ResourceSlice", objects=objects):
                slices = [one for one in objects if isinstance(one, ResourceSlice)]
                return self._replaced(change, slices)
        return change

    def _replaced(self, listing: Replaced, slices: list[ResourceSlice]) -> Replaced:
        listed = {one.key.name for one in slices}
        for name in [name for name in self._names_of if name not in listed]:
            self._release(name)
        self._refused.clear()
        known = frozenset(self._names_of)  # admitted slices are checked first
        reasons = {
            one.key: why for one in sorted(slices, key=lambda one: one.key.name not in known)
            if (why := self._admit(one))
        }  # fmt: skip
        if not reasons:
            return listing
        refused = tuple(Refused(listing.kind, key, why) for key, why in reasons.items())
        objects = tuple(one for one in slices if one.key not in reasons)
        return replace(listing, objects=objects, refused=(*listing.refused, *refused))

    def _admit(self, source: ResourceSlice) -> str:
        """Admit a slice in place of its previous version, or stop counting it and return why."""
        names, name = _names_of(source), source.key.name
        if self._names_of.get(name) == names:
            return ""
        self._refused.pop(name, None)
        self._release(name)
        if why := self._too_many(names):
            if len(self._refused) < MOST_REFUSED:
                self._refused[name] = source
            return why
        self._add(name, names)
        return ""

    def _too_many(self, names: SliceNames) -> str:
        if self._slices[names]:
            return ""
        driver, own = names[0], self._uses.get(names[0], Counter())
        new = sum(one not in own for one in names[1])
        remedy = (
            "make the driver publish fewer; the slice is read again when it changes, "
            "or once others have fewer"
        )
        if len(own) + new > MAX_OF_DRIVER:
            return (
                f"driver {driver} would have {len(own) + new} different attributes and capacities in all "
                f"slices; at most {MAX_OF_DRIVER} are read: {remedy}"
            )
        if self._total + new > MAX_OF_FLEET:
            return (
                f"the devices of the fleet would have {self._total + new} different attributes and "
                f"capacities; at most {MAX_OF_FLEET} are read: {remedy}"
            )
        return ""

    def _add(self, name: str, names: SliceNames) -> None:
        self._names_of[name] = names
        self._slices[names] += 1
        if self._slices[names] > 1:
            return
        own = self._uses.setdefault(names[0], Counter())
        before = len(own)
        own.update(names[1])
        self._total += len(own) - before

    def _release(self, name: str) -> None:
        names = self._names_of.pop(name, None)
        if names is None:
            return
        self._slices[names] -= 1
        if self._slices[names]:
            return
        del self._slices[names]
        own = self._uses.get(names[0], Counter())
        for one in names[1]:
            own[one] -= 1
            if not own[one]:
                del own[one]
                self._total -= 1
                self._fewer = True
        if not own:
            self._uses.pop(names[0], None)
