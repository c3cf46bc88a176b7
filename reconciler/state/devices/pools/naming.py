"""How many attributes and capacities the devices of a fleet have by name: each is a column of all devices.

A slice may bring few hundred (`objects.slices.MAX_NAMES`), but a driver any number of slices. Drivers are
counted one by one, so that one which makes up ever new names leaves the others theirs.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.slices import ResourceSlice

MAX_OF_DRIVER = 1024
"""Different names in all slices of one driver"""
MAX_OF_FLEET = 4096
"""The same of all drivers together: 160 MB beside 10,000 devices"""
Form = tuple[str, frozenset[str]]
"""A driver, and the names that a slice of its brings: the same for most slices of a driver"""


class Naming:
    """Counts names of the slices that are let in. A name counts for each driver that uses it."""

    def __init__(self) -> None:
        self._forms: dict[str, Form] = {}
        """By name of the slice"""
        self._slices: dict[Form, int] = {}
        self._uses: dict[str, Counter[str]] = {}
        """Driver -> name -> forms"""
        self._total = 0

    def within(self, change: Change) -> Change:
        """The change as far as names go: slices that bring too many new ones are refused, each alone."""
        match change:
            case Changed(object=ResourceSlice() as found):
                why = self._admit(found)
                return Refused(change.kind, found.key, why) if why else change
            case Removed(kind="ResourceSlice", key=key) | Refused(kind="ResourceSlice", key=key):
                self._let_go(key.name)
            case Replaced(kind="ResourceSlice", objects=objects):
                slices = [one for one in objects if isinstance(one, ResourceSlice)]
                return self._replaced(change, slices)
        return change

    def _replaced(self, listing: Replaced, slices: list[ResourceSlice]) -> Replaced:
        listed = {one.key.name for one in slices}
        for name in [name for name in self._forms if name not in listed]:
            self._let_go(name)
        known = frozenset(self._forms)  # those that are let in already stay
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
        """Let a slice in, in place of its version before; or say why not, and it counts no more."""
        spec, name = source.spec, source.key.name
        form = (spec.driver, frozenset(spec.names()))
        if self._forms.get(name) == form:
            return ""
        self._let_go(name)
        if form not in self._slices and (why := self._too_many(*form)):
            return why
        self._enter(name, form)
        return ""

    def _too_many(self, driver: str, names: Iterable[str]) -> str:
        own = self._uses.get(driver, Counter())
        new = sum(one not in own for one in names)
        remedy = "have the driver publish fewer; the slice is read again when it changes"
        if len(own) + new > MAX_OF_DRIVER:
            return (
                f"its driver {driver} would have {len(own) + new} different attributes and capacities in all "
                f"slices, at most {MAX_OF_DRIVER} are read: {remedy}"
            )
        if self._total + new > MAX_OF_FLEET:
            return (
                f"the devices of the fleet would have {self._total + new} different attributes and "
                f"capacities, at most {MAX_OF_FLEET} are read: {remedy}"
            )
        return ""

    def _enter(self, name: str, form: Form) -> None:
        self._forms[name] = form
        self._slices[form] = self._slices.get(form, 0) + 1
        if self._slices[form] > 1:
            return
        own = self._uses.setdefault(form[0], Counter())
        before = len(own)
        own.update(form[1])
        self._total += len(own) - before

    def _let_go(self, name: str) -> None:
        form = self._forms.pop(name, None)
        if form is None:
            return
        self._slices[form] -= 1
        if self._slices[form]:
            return
        del self._slices[form]
        own = self._uses.get(form[0], Counter())
        for one in form[1]:
            own[one] -= 1
            if not own[one]:
                del own[one]
                self._total -= 1
        if not own:
            self._uses.pop(form[0], None)
