"""Health, metrics and status of a process, available before the API server answers."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from platform import python_version

from reconciler.aio.tasks import Heartbeat
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import Meters
from reconciler.operations.metrics.scraping import Readings, by, metrics_routes, single
from reconciler.operations.serving.health import Health
from reconciler.operations.serving.port import StatusPort
from reconciler.operations.serving.statusz import Statusz
from reconciler.operations.telemetry.settings import settings_shown
from reconciler.operations.telemetry.signals import Signals
from reconciler.settings import Settings


class Telemetry:
    """Serves the status port from the start. Parts that are created later register their signals."""

    def __init__(
        self,
        settings: Settings,
        *,
        stop: asyncio.Event,
        now: Callable[[], datetime],
        lease: str,
        port: StatusPort | None = None,
    ) -> None:
        """`stop` is set when the process ends; `now` returns the time of day with its zone; `lease` names the
        Lease that decides who leads, and is empty without one. Without a `port`, nothing is served.
        """
        self.meters = Meters()
        self.heart = Heartbeat(self.meters.loop_lag.observe)
        self.live, self.ready = Health("livez"), Health("readyz")
        self.readings = Readings()
        self._statusz = Statusz(version("dra-reconciler"), settings.semantics, now)
        self._port = port
        self.meters.build.labels(version("dra-reconciler"), python_version(), settings.semantics).set(1)
        self.register(_first_signals(settings, stop, lease))
        if port is not None:
            port.add(*self.live.routes(), *self.ready.routes(), *metrics_routes(self.meters, self.readings))
            port.add(*self._statusz.routes(port))

    def register(self, *signals: Signals) -> None:
        """Add signals. A signal replaces an earlier one of the same name."""
        for one in signals:
            for name, check in one.live.items():
                self.live.add(name, check)
            for name, check in one.ready.items():
                self.ready.add(name, check)
            for title, section in one.sections.items():
                self._statusz.add(title, section)
            self.readings.add(one.readings, one.refresh)
            if self._port is not None:
                self._port.add(*one.routes)


def _first_signals(settings: Settings, stop: asyncio.Event, lease: str) -> Signals:
    """Signals before discovery. A candidate is not the leader yet."""
    return Signals(
        ready={
            "discovery": lambda: "the API server has not answered yet",
            "shutdown": lambda: "the process is shutting down" if stop.is_set() else "",
        },
        sections={
            "Leader": lambda: [("leading", "no" if lease else "yes")],
            "Settings": lambda: settings_shown(settings),
        },
        # Without leader election there are no rivals.
        readings=[by(of.LEADER, lambda: {lease: float(not lease)}), single(of.RIVALS, lambda: 0.0)],
    )
