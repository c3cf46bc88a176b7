"""Signals about the API server: served kinds, dropped fields, last events of watches."""

from collections.abc import Callable, Iterable, Mapping

from reconciler.api.objects.semantics import GATES
from reconciler.cluster.discovery import unserved
from reconciler.cluster.kinds import Served
from reconciler.cluster.writer import Dropped
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import by, single
from reconciler.operations.serving.statusz import Row
from reconciler.operations.telemetry.signals import Signals


def server_signals(
    served: Served,
    off: frozenset[str],
    *,
    last_contact: Mapping[str, float],
    dropped: Dropped,
    clock: Callable[[], float],
) -> Signals:
    """`off` are feature gates that the server lacks; `last_contact` is that of the client that watches;
    `clock` counts seconds of the event loop.
    """
    kinds = sorted(resource.kind for resource in served)
    missing = unserved(served)

    def ages() -> Iterable[tuple[str, float]]:
        now = clock()
        return [(kind, now - last_contact[kind]) for kind in kinds if kind in last_contact]

    return Signals(
        ready={"discovery": lambda: ""},
        sections={
            "Server": lambda: _server(served, missing, off),
            "Fields dropped by the API server": lambda: _rows(dropped.fields),
            "Last event of each watch": lambda: [(kind, f"{age:.0f} s ago") for kind, age in ages()],
        },
        readings=[
            by(of.CACHE_AGE, lambda: dict(ages())),
            single(of.DROPPED_FIELDS, lambda: len(dropped.fields)),
        ],
    )


def _server(served: Served, missing: Iterable[str], off: Iterable[str]) -> list[Row]:
    rows = [(resource.kind, resource.api_version) for resource in served]
    rows.append(("not served", ", ".join(missing) or "none"))
    rows.append(("feature gates off", ", ".join(sorted(off)) or "none detected"))
    rows.append(("feature gates known", ", ".join(GATES)))
    return rows


def _rows(fields: dict[str, str]) -> list[Row]:
    return [
        (field, f"is the feature gate {gate} off?" if gate else "unknown cause")
        for field, gate in fields.items()
    ]
