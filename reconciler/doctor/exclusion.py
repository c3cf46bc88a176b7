"""Whether what devices say about beside which others they can be held makes sense. Source: GRP-1 to GRP-7."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask, Rows
from reconciler.doctor import rules
from reconciler.doctor.findings import Finding, nearest, some
from reconciler.doctor.picture import Picture
from reconciler.doctor.pools import generations
from reconciler.inventory.scopes import Exclusion
from reconciler.legacy.extensions import ANNOTATION, COMPATIBLE_ONLY_WITH, FIELD, conflicts
from reconciler.objects.slices import ResourceSlice

EXPRESSION = f"{COMPATIBLE_ONLY_WITH}.expression"
LOOKED_AT = 1000
"""Devices of one scope that are compared in pairs, which grow with the square. Scopes are hardly wider."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The n devices of one scope, and what each says about each; row i, column j."""

    scope: int
    rows: Rows
    """(n,) of the fleet"""
    places: Rows
    """(n,) which of the scopes of each device this is"""
    forbids: Mask
    """(n, n) i states something that j does not meet"""
    states: Mask
    """(n,) i states something"""
    apart: Mask
    """(n, n) without a group in common"""


def _scopes(picture: Picture) -> Iterator[Pairs]:
    exclusion = picture.world.fleet.exclusion
    if exclusion is None:
        return
    scopes = exclusion.scopes[exclusion.bound]
    for scope in np.unique(scopes[scopes >= 0]).tolist():
        yield _pairs(exclusion, scope, exclusion.by_scope.of(scope)[:LOOKED_AT])


def _pairs(exclusion: Exclusion, scope: int, rows: Rows) -> Pairs:
    places = (exclusion.scopes[rows] == scope).argmax(axis=1)
    asks, meets = exclusion.asks[rows, places], exclusion.meets[rows, places]
    names = exclusion.names[rows, places]
    return Pairs(
        scope=scope,
        rows=rows,
        places=places,
        forbids=np.asarray((asks[:, None] & ~meets[None]).any(axis=2)),
        states=np.asarray(asks.any(axis=1)),
        apart=~np.asarray((names[:, None] & names[None]).any(axis=2)),
    )


def asymmetric(picture: Picture) -> Iterator[Finding]:
    """Two devices with expressions of which only one allows the other."""
    fleet = picture.world.fleet
    for pairs in _scopes(picture):
        allowing = pairs.states[:, None] & ~pairs.forbids & pairs.forbids.T
        for at in np.flatnonzero(allowing.any(axis=0)).tolist():
            others = [str(fleet.id_of(row).device) for row in pairs.rows[allowing[:, at]].tolist()]
            entry, path, device = picture.device(int(pairs.rows[at]))
            what = f"{device.name} forbids {some(others)}, which in turn allow{_s(others)} {device.name}"
            yield rules.ASYMMETRIC.found(entry, f"{path}.{EXPRESSION}", what)


def failing(picture: Picture) -> Iterator[Finding]:
    """Expressions that fail; told once for each distinct one."""
    fleet = picture.world.fleet
    for problem in fleet.exclusion.problems if fleet.exclusion else ():
        entry, path, device = picture.device(fleet.rows_of(problem.device)[0])
        yield rules.EXPRESSION_FAILS.found(entry, f"{path}.{EXPRESSION}", f"{device.name}: {problem.message}")


def excluding_itself(picture: Picture) -> Iterator[Finding]:
    """Expressions that are false for the device that states them."""
    exclusion = picture.world.fleet.exclusion
    told: set[int] = set()
    failed = {problem.device for problem in exclusion.problems} if exclusion else set()
    for pairs in _scopes(picture):
        for row in pairs.rows[np.diagonal(pairs.forbids)].tolist():
            if row in told or picture.world.fleet.id_of(row) in failed:
                continue
            told.add(row)
            entry, path, device = picture.device(row)
            what = f"{device.name} does not meet its own expression"
            yield rules.EXCLUDES_ITSELF.found(entry, f"{path}.{EXPRESSION}", what)


def lonely_groups(picture: Picture) -> Iterator[Finding]:
    """Groups that one device of a counter set declares alone."""
    for slices in picture.pools().values():
        for peers in generations(slices).values():
            groups: dict[str, dict[str, list[tuple[int, str, str]]]] = {}
            for number, (_, source) in enumerate(peers):
                for index, device in enumerate(source.spec.devices):
                    for k, draw in enumerate(device.consumes_counters):
                        path = f"spec.devices[{index}].consumesCounters[{k}].compatibilityGroups"
                        for group in draw.compatibility_groups:
                            of_set = groups.setdefault(draw.counter_set, {})
                            of_set.setdefault(group, []).append((number, path, device.name))
            for counter_set, of_set in groups.items():
                for group, places in of_set.items():
                    if len(places) > 1:
                        continue
                    number, path, device_name = places[0]
                    hint = nearest(group, of_set.keys() - {group})
                    rule = rules.MISSPELLED_GROUP if hint else rules.LONELY_GROUP
                    what = f"only {device_name} declares group {group} in set {counter_set}{hint}"
                    yield rule.found(peers[number][0], path, what)


def never_together(picture: Picture) -> Iterator[Finding]:
    """Pairs that the counters would allow and the declarations do not, summed up for each counter set."""
    fleet = picture.world.fleet
    for pairs in _scopes(picture):
        if fleet.exclusion is None or pairs.scope >= fleet.exclusion.sets:
            continue
        draws = fleet.table[fleet.draws[pairs.rows, pairs.places]]
        fits = (draws[:, None] + draws[None] <= fleet.totals[pairs.scope]).all(axis=2)
        found = np.argwhere(np.triu(fits & (pairs.apart | pairs.forbids | pairs.forbids.T), k=1))
        if len(found):
            names = [fleet.id_of(row).device for row in pairs.rows.tolist()]
            shown = some(f"{names[i]} and {names[j]}" for i, j in found.tolist())
            entry, path, _ = picture.device(int(pairs.rows[found[0][0]]))
            counter_set = fleet.set_columns[pairs.scope].id.name
            yield rules.NEVER_TOGETHER.found(entry, path, f"in set {counter_set}: {shown}")


def extension_conflicts(picture: Picture) -> Iterator[Finding]:
    """What of an annotation has no effect."""
    for entry, _ in picture.of(ResourceSlice):
        for text in conflicts(entry.raw):
            yield rules.EXTENSION_CONFLICT.found(entry, FIELD, text)


def dropped(picture: Picture) -> Iterator[Finding]:
    """Expressions that a server would drop, since only the field holds them; the first of each slice."""
    for entry, source in picture.of(ResourceSlice):
        if ANNOTATION in source.metadata.annotations:
            continue
        for index, device in enumerate(source.spec.devices):
            if device.compatible_only_with is not None:
                field = f"spec.devices[{index}].{COMPATIBLE_ONLY_WITH}"
                what = f"{device.name} has an expression that no annotation carries"
                yield rules.DROPPED.found(entry, field, what)
                break


def _s(others: list[str]) -> str:
    return "s" if len(others) == 1 else ""
