"""The metrics that are counted where things happen, in a registry of their own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector

from reconciler.objects.plan import Reason
from reconciler.observe import catalogue as of
from reconciler.observe.catalogue import Spec
from reconciler.reconcile.decisions import (
    Allocated,
    AtOdds,
    Decision,
    Equipped,
    Freed,
    HeldTwice,
    OverCommitted,
    Overdrawn,
    Uncharged,
    Ungated,
    Waits,
)


class Meters:
    """Counters and histograms. Registries are not shared, so that one process may hold several."""

    def __init__(self, *, process: bool = True) -> None:
        """`process` adds what Prometheus' client tells of the process, as `process_*` and `python_*`."""
        self.registry = CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self.decision = self._histogram(of.DECISION)
        self.allocation = self._histogram(of.ALLOCATION)
        self.refusals = self._counter(of.REFUSALS)
        self.freed = self._counter(of.FREED)
        self.ungated = self._counter(of.UNGATED)
        self.findings = self._counter(of.FINDINGS)
        self.requests = self._counter(of.REQUESTS)
        self.request_seconds = self._histogram(of.REQUEST_SECONDS)
        self.watch_restarts = self._counter(of.WATCH_RESTARTS)
        self.listings = self._counter(of.LISTINGS)
        self.loop_lag = self._histogram(of.LOOP_LAG)
        self.build = Gauge(of.BUILD.full_name, of.BUILD.help, of.BUILD.label_names, registry=self.registry)
        # A series that begins at 0 can be compared with before.
        self._decided = {name: self.decision.labels(name) for name in ("granted", "refused", "gave_up")}
        self._refused: dict[str, Counter] = {}
        for finding in ("held_twice", "at_odds", "overdrawn", "over_committed", "uncharged"):
            self.findings.labels(finding)

    def answered(self, reason: str, seconds: float, decision_id: str) -> None:
        """Count the answer of a search; see `reconciler.reconcile.decisions.Answered`."""
        result = "granted"
        if reason:
            result = "gave_up" if reason == Reason.GAVE_UP else "refused"
            if reason not in self._refused:  # to look a series up costs more than to count
                self._refused[reason] = self.refusals.labels(reason)
            self._refused[reason].inc()
        self._decided[result].observe(seconds, {"decision_id": decision_id})

    def tell(self, decision: Decision) -> None:
        """Count a decision."""
        match decision:
            case Allocated():
                self.allocation.observe(decision.seconds, {"decision_id": decision.decision_id})
            case Equipped():
                self.allocation.observe(decision.seconds, {"decision_id": decision.decision_id})
            case Freed():
                self.freed.inc()
            case Ungated():
                self.ungated.inc()
            case HeldTwice():
                self.findings.labels("held_twice").inc()
            case AtOdds():
                self.findings.labels("at_odds").inc()
            case Overdrawn():
                self.findings.labels("overdrawn").inc()
            case OverCommitted():
                self.findings.labels("over_committed").inc()
            case Uncharged():
                self.findings.labels("uncharged").inc()
            case Waits():
                pass  # told once a reason; every refusal is counted where it is answered

    def _counter(self, spec: Spec) -> Counter:
        return Counter(spec.full_name, spec.help, spec.label_names, registry=self.registry)

    def _histogram(self, spec: Spec) -> Histogram:
        return Histogram(
            spec.full_name, spec.help, spec.label_names, buckets=spec.buckets, registry=self.registry
        )
