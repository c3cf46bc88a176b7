"""Signals about the devices of the cluster: listed objects, held devices, devices that still fit."""

from collections import Counter
from collections.abc import Callable

from reconciler.cluster.kinds import Served
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.capacity import Capacity
from reconciler.operations.metrics.objects import ObjectCounts
from reconciler.operations.metrics.profile_fits import ProfileFits
from reconciler.operations.metrics.scraping import Reading, Values, by, capacity_readings, profile_readings
from reconciler.operations.telemetry.signals import Signals
from reconciler.plugins.koordinator.figures import amount_series, device_series
from reconciler.plugins.koordinator.fleet import Fleet


def fleet_signals(
    intake: Intake, ours: Ownership, served: Served, capacity: Capacity, machines: Fleet | None
) -> Signals:
    """`machines` has Koordinator's devices, if they are served."""
    store, objects = intake.store, ObjectCounts(intake, ours)
    fits = ProfileFits(store.snapshot, ready=intake.listed.is_set)
    held = capacity_readings(capacity)
    return Signals(
        ready={f"listed-{resource.plural}": _listed(intake, resource.kind) for resource in served},
        readings=[
            *profile_readings(fits),
            *objects.readings(),
            by(of.REFUSED_OBJECTS, lambda: Counter(kind for kind, _ in store.refused)),
            *(held if machines is None else _with_machines(held, machines)),
        ],
        refresh=[capacity.refresh, fits.refresh, objects.refresh],
    )


def _with_machines(held: list[Reading], machines: Fleet) -> list[Reading]:
    """The same metrics with the series of Koordinator's devices appended."""
    also: dict[str, Callable[[], Values]] = {
        of.DEVICES.name: lambda: device_series(machines),
        of.COUNTER_CAPACITY.name: lambda: amount_series(machines, left=False),
        of.COUNTER_AVAILABLE.name: lambda: amount_series(machines, left=True),
    }
    return [_joined(reading, also[reading.spec.name]) for reading in held]


def _joined(reading: Reading, more: Callable[[], Values]) -> Reading:
    return Reading(reading.spec, lambda: [*reading.source(), *more()])


def _listed(intake: Intake, kind: str) -> Callable[[], str]:
    return lambda: f"{kind} is not listed yet" if kind in intake.unlisted else ""
