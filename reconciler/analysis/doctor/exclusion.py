"""Checks compatibility groups and compatibleOnlyWith expressions. Source: GRP-1 to GRP-7."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from kernels.groups import distinct
from kernels.types import Mask, Rows
from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding
from reconciler.analysis.doctor.slices import by_generation
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.extensions import ANNOTATION, COMPATIBLE_ONLY_WITH, FIELD, conflicts
from reconciler.errors import shortened
from reconciler.state.devices.exclusion import Exclusion
from reconciler.state.devices.exclusion_modes import across_sets

EXPRESSION = f"{COMPATIBLE_ONLY_WITH}.expression"
MAX_COMPARED = 1000
"""Maximum number of devices of one scope that are compared in pairs. Real scopes are rarely larger."""


class Pairs(Struct, frozen=True):
    """The n devices of one scope, compared in pairs; row i, column j."""

    scope: int
    rows: Rows
    """(n,) rows of the fleet"""
    places: Rows
    """(n,) the column of this scope among the scopes of each device"""
    forbids: Mask
    """(n, n) the expression of i is not true for j"""
    states: Mask
    """(n,) i has an expression"""
    apart: Mask
    """(n, n) i and j have no group in common"""


def _scopes(data: DoctorInput) -> Iterator[Pairs]:
    exclusion = data.snapshot.fleet.exclusion
    if exclusion is None:
        return
    scopes = exclusion.scopes[exclusion.bound]
    for scope in distinct(scopes[scopes >= 0]).tolist():
        yield _pairs(data, exclusion, scope, exclusion.by_scope.of(scope)[:MAX_COMPARED])


def _pairs(data: DoctorInput, exclusion: Exclusion, scope: int, rows: Rows) -> Pairs:
    places = (exclusion.scopes[rows] == scope).argmax(axis=1)
    asks, meets = exclusion.asks[rows, places], exclusion.meets[rows, places]
    names = exclusion.names[rows, places]
    return Pairs(
        scope=scope,
        rows=rows,
        places=places,
        forbids=np.asarray((asks[:, None] & ~meets[None]).any(axis=2)),
        states=np.array([data.device(row)[2].compatible_only_with is not None for row in rows.tolist()]),
        apart=~np.asarray((names[:, None] & names[None]).any(axis=2)),
    )


def asymmetric(data: DoctorInput) -> Iterator[Finding]:
    """Pairs of devices with expressions where only one device allows the other."""
    fleet = data.snapshot.fleet
    for pairs in _scopes(data):
        allowing = pairs.states[:, None] & ~pairs.forbids & pairs.forbids.T
        for at in np.flatnonzero(allowing.any(axis=0)).tolist():
            others = [str(fleet.id_of(row).device) for row in pairs.rows[allowing[:, at]].tolist()]
            entry, path, device = data.device(int(pairs.rows[at]))
            what = f"{device.name} forbids {shortened(others)}, but not the other way round"
            yield findings.ASYMMETRIC.finding(entry, f"{path}.{EXPRESSION}", what)


def failing(data: DoctorInput) -> Iterator[Finding]:
    """Expressions that fail; each distinct expression is reported once."""
    fleet = data.snapshot.fleet
    for problem in fleet.exclusion.problems if fleet.exclusion else ():
        entry, path, device = data.device(fleet.rows_of(problem.device)[0])
        yield findings.EXPRESSION_FAILS.finding(
            entry, f"{path}.{EXPRESSION}", f"{device.name}: {problem.message}"
        )


def excluding_itself(data: DoctorInput) -> Iterator[Finding]:
    """Expressions that are false for their own device."""
    exclusion = data.snapshot.fleet.exclusion
    reported: set[int] = set()
    failed = {problem.device for problem in exclusion.problems} if exclusion else set()
    for pairs in _scopes(data):
        for row in pairs.rows[np.diagonal(pairs.forbids)].tolist():
            if row in reported or data.snapshot.fleet.id_of(row) in failed:
                continue
            reported.add(row)
            entry, path, device = data.device(row)
            what = f"the expression of {device.name} is false for {device.name} itself"
            yield findings.EXCLUDES_ITSELF.finding(entry, f"{path}.{EXPRESSION}", what)


def lonely_groups(data: DoctorInput) -> Iterator[Finding]:
    """Groups that only one device of a counter set declares."""
    for _, peers in by_generation(data):
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
                hint = suggestion(group, of_set.keys() - {group})
                rule = findings.MISSPELLED_GROUP if hint else findings.LONELY_GROUP
                what = f"only {device_name} declares group {group} in set {counter_set}{hint}"
                yield rule.finding(peers[number][0], path, what)


def never_together(data: DoctorInput) -> Iterator[Finding]:
    """Pairs that the counters allow, but groups or expressions do not; one finding for each counter set."""
    fleet = data.snapshot.fleet
    for pairs in _scopes(data):
        if fleet.exclusion is None or pairs.scope >= fleet.exclusion.sets:
            continue
        draws = fleet.table[fleet.draws[pairs.rows, pairs.places]]
        fits = (draws[:, None] + draws[None] <= fleet.totals[pairs.scope]).all(axis=2)
        found = np.argwhere(np.triu(fits & (pairs.apart | pairs.forbids | pairs.forbids.T), k=1))
        if len(found):
            names = [fleet.id_of(row).device for row in pairs.rows.tolist()]
            shown = shortened(f"{names[i]} and {names[j]}" for i, j in found.tolist())
            entry, path, _ = data.device(int(pairs.rows[found[0][0]]))
            counter_set = fleet.set_columns[pairs.scope].id.name
            yield findings.NEVER_TOGETHER.finding(entry, path, f"in set {counter_set}: {shown}")


def not_compared(data: DoctorInput) -> Iterator[Finding]:
    """Expressions that are not true for devices of other counter sets; the first of each driver."""
    fleet = data.snapshot.fleet
    for found in across_sets(fleet, data.snapshot.rules):
        entry, path, device = data.device(found.row)
        others = shortened(fleet.id_of(row).device for row in found.others.tolist())
        what = f"the expression of {device.name} is not true for {others}, of other counter sets"
        yield findings.NOT_COMPARED.finding(entry, f"{path}.{EXPRESSION}", what)


def extension_conflicts(data: DoctorInput) -> Iterator[Finding]:
    """Parts of an annotation without effect."""
    for entry, _ in data.of(ResourceSlice):
        for text in conflicts(entry.raw):
            yield findings.EXTENSION_CONFLICT.finding(entry, FIELD, text)


def dropped(data: DoctorInput) -> Iterator[Finding]:
    """Expressions that servers drop, because the annotation lacks them; the first of each slice."""
    for entry, source in data.of(ResourceSlice):
        if ANNOTATION in source.metadata.annotations:
            continue
        for index, device in enumerate(source.spec.devices):
            if device.compatible_only_with is not None:
                field = f"spec.devices[{index}].{COMPATIBLE_ONLY_WITH}"
                what = f"the expression of {device.name} is not in the annotation"
                yield findings.DROPPED.finding(entry, field, what)
                break
