"""Writes converted objects in the versions, and with the fields, of one release of Kubernetes.

Before 1.35, devices draw only from counter sets of their own slice.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from reconciler.api.objects.semantics import GATES
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.api.validation.served_kinds import every_kind
from reconciler.api.versions.ignored import parts_of
from reconciler.api.versions.kinds import KINDS, NAMES, Kind
from reconciler.api.versions.releases import SINCE, newer_than, off_in
from reconciler.api.versions.shapes import Raw, mapping, mappings

SEPARATE_COUNTERS = 35
"""The release since which counter sets and devices are in separate slices"""
OLD_SELECTORS = (33, 34)
"""Releases in which taint rules select by class and by expression"""

MOST_COUNTERS, MOST_DRAWN, MOST_TAINTS = 32, 1024, 4
"""Limits of a slice, and of a device, before 1.35"""

Object = dict[str, Any]


@cache
def _served() -> Mapping[tuple[str, str], ServedKind]:
    return {(kind.group, kind.kind): kind for kind in every_kind()}


class Target:
    """A release to write for."""

    def __init__(self, minor: int) -> None:
        self._minor = minor
        self._off: dict[str, str] = {}
        """Gate that is off there -> the first object that needs it"""

    def write(self, made: Sequence[Object]) -> tuple[list[Object], list[str]]:
        """Objects of one kind in today's shape as the release takes them, and why it cannot take them."""
        group, _, _ = made[0]["apiVersion"].rpartition("/")
        kind = KINDS[NAMES[group, made[0]["kind"]]]
        version = kind.version_of(self._minor)
        if version is None:
            return list(made), [f"Kubernetes 1.{self._minor} has no {kind.name}"]
        errors = [error for one in made for error in self._errors(kind, one)]
        if self._minor < SEPARATE_COUNTERS and kind.name == "ResourceSlice" and not errors:
            made, errors = _joined(made)
        written = [self._written(kind, version, one) for one in made]
        for one in made if not errors else ():
            for gate in off_in(kind.model, one, self._minor):
                self._off.setdefault(gate, f"{kind.name} {one['metadata']['name']}")
        return written, errors

    def notes(self) -> Iterator[str]:
        """A line for each gate that the release has off by default, and that some object needs."""
        for gate, name in sorted(self._off.items()):
            if not GATES[gate].needs_no_server:
                yield f"{name} needs the feature gate {gate}, which is off by default in 1.{self._minor}"

    def _errors(self, kind: Kind, one: Object) -> Iterator[str]:
        for newer in newer_than(kind.model, one, self._minor):
            if not newer.since.is_harmless:
                yield f"{newer.path}: Kubernetes has it since 1.{newer.since.minor}"
        spec = mapping(one.get("spec"))
        for device in mappings(spec.get("devices")) if self._minor < SEPARATE_COUNTERS else ():
            if len(mappings(device.get("taints"))) > MOST_TAINTS:
                yield f"device {device.get('name')}: before 1.35 at most {MOST_TAINTS} taints are allowed"
        selector = mapping(spec.get("deviceSelector"))
        for name in ("deviceClassName", "selectors"):
            if selector.get(name) and self._minor not in OLD_SELECTORS:
                why = "only 1.33 and 1.34 have it, and without it the rule matches more devices"
                yield f"spec.deviceSelector.{name}: {why}"

    def _written(self, kind: Kind, version: str, one: Object) -> Object:
        if any(newer_than(kind.model, one, self._minor)):
            one = copy.deepcopy(one)
            for model, _, part in list(parts_of(kind.model, one)):
                for name, since in SINCE.get(model, {}).items():
                    if since.minor > self._minor and isinstance(part, dict):
                        part.pop(name, None)
        found = _served().get((kind.group, kind.name))
        shaped = found.downgrade(one, GroupVersion(kind.group, version)) if found is not None else one
        return {**shaped, "apiVersion": kind.api_version(version)}


def _joined(slices: Sequence[Object]) -> tuple[Sequence[Object], list[str]]:
    """The slices of a pool with the counter sets in the slices whose devices draw from them."""
    sets: dict[str, Raw] = {}
    for one in slices:
        sets |= {str(found.get("name")): found for found in mappings(one["spec"].get("sharedCounters"))}
    with_devices = [one for one in slices if one["spec"].get("devices")]
    if not sets or not with_devices:
        return slices, []
    drawn = [_drawn(one) for one in with_devices]
    drawn[0] |= sets.keys() - set().union(*drawn)  # those that no device draws from
    made: list[Object] = []
    errors = [
        _over_limits(one, [sets[name] for name in own]) for one, own in zip(with_devices, drawn, strict=True)
    ]
    for one, own in zip(with_devices, drawn, strict=True):
        pool = {**one["spec"]["pool"], "resourceSliceCount": len(with_devices)}
        shared = {"sharedCounters": [found for name, found in sets.items() if name in own]} if own else {}
        made.append({**one, "spec": {**one["spec"], "pool": pool, **shared}})
    if twice := [name for name in sets if sum(name in own for own in drawn) > 1]:
        errors.append(f"devices of several slices draw from {twice[0]}; Kubernetes allows it since 1.35")
    return made, list(filter(None, errors))


def _drawn(one: Object) -> set[str]:
    return {
        str(draw.get("counterSet"))
        for device in mappings(one["spec"]["devices"])
        for draw in mappings(device.get("consumesCounters"))
    }


def _over_limits(one: Object, sets: Sequence[Raw]) -> str:
    """Which limit of 1.33 and 1.34 a slice exceeds, where those were lower; empty for none."""
    devices = mappings(one["spec"]["devices"])
    draws = [draw for device in devices for draw in mappings(device.get("consumesCounters"))]
    counters = sum(len(mapping(found.get("counters"))) for found in sets)
    drawn = sum(len(mapping(draw.get("counters"))) for draw in draws)
    if counters > MOST_COUNTERS:
        return f"{counters} counters in one slice; before 1.35 at most {MOST_COUNTERS} are allowed"
    if drawn > MOST_DRAWN:
        return f"devices of one slice draw {drawn} counters; before 1.35 at most {MOST_DRAWN} are allowed"
    return ""
