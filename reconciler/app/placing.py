"""Parts for placement policies: the policies in use, and the demand that is learnt for them."""

from collections.abc import Callable
from typing import NamedTuple

import structlog

from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.app.foundation import Foundation, now
from reconciler.app.from_settings import policies
from reconciler.app.job import Job
from reconciler.cluster.client import Client
from reconciler.cluster.watch import Sink
from reconciler.control.claim_handler import Journal
from reconciler.control.decider import Refusal
from reconciler.control.demand.config_map import DemandConfigMap
from reconciler.control.demand.in_use import PoliciesInUse
from reconciler.control.demand.learner import DemandLearner
from reconciler.control.intake import Intake
from reconciler.control.planner import Decide
from reconciler.control.queueing.units import Unit
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.page.sources import PlacementView
from reconciler.operations.policy_comparison import PolicyComparison
from reconciler.operations.telemetry.signals import Signals
from reconciler.settings import Settings
from reconciler.state.store import Store

log = structlog.get_logger()


class Placing(NamedTuple):
    """The policies in use, and what compares them with others."""

    in_use: PoliciesInUse
    comparison: PolicyComparison | None

    def journal(self, recorder: Recorder | None) -> Journal | None:
        """Takes every answer: for the journal, and as a sample."""
        comparison = self.comparison
        if comparison is None:
            return None if recorder is None else recorder.decided

        def take(name: str, unit: Unit, asked: Decide, answer: Granted | Refusal) -> None:
            if recorder is not None:
                recorder.decided(name, unit, asked, answer)
            comparison.offer(asked, answer)

        return take

    @property
    def signals(self) -> list[Signals]:
        """Metrics of the comparison, and a line on the status page."""
        return [] if self.comparison is None else [self.comparison.signals()]

    @property
    def jobs(self) -> list[Job]:
        """The task of the comparison."""
        return [] if self.comparison is None else [Job("compare policies", self.comparison.run)]

    def view(self) -> PlacementView | None:
        """For the status page."""
        return None if self.comparison is None else self.comparison.view()


def placing(base: Foundation, store: Store, recorder: Recorder | None) -> Placing:
    """The policies of the settings. The journal records them. Raises Malformed for a demand file."""
    found, refused = policies(base.settings)
    for problem in refused:
        log.warning("shape of the demand refused", error=str(problem))
    in_use = PoliciesInUse(found) if recorder is None else PoliciesInUse(found, recorder.use)
    return Placing(in_use, comparison_of(base, in_use, store))


def comparison_of(base: Foundation, in_use: PoliciesInUse, store: Store) -> PolicyComparison | None:
    """The standing comparison; None if nobody can see it, or if there is nothing to compare."""
    settings = base.settings
    wanted = settings.policy_compare_seconds and base.port is not None and settings.mode != "shadow"
    if not wanted or (in_use().first_fit and settings.demand is None):
        return None
    return PolicyComparison(store, in_use, seconds=settings.policy_compare_seconds, clock=base.clock)


def learner_of(
    settings: Settings,
    intake: Intake,
    sink: Sink,
    placing: Placing,
    client: Client,
    leads: Callable[[], bool],
) -> DemandLearner | None:
    """What learns the demand; None if no policy uses one, or if it is given.

    In shadow mode nothing is kept. `leads` says whether this process may write.
    """
    in_use, comparison = placing.in_use, placing.comparison
    if settings.demand is not None or not in_use().uses_demand:
        return None
    keeper = None
    if settings.demand_config_map is not None and settings.mode != "shadow":
        namespace, _, name = settings.demand_config_map.partition("/")
        keeper = DemandConfigMap(client, ObjectKey(namespace, name), writes=leads)
    half_life = settings.demand_half_life_hours * 3600.0
    return DemandLearner(
        intake,
        sink,
        in_use,
        keeper,
        half_life=half_life,
        now=now,
        comparison=(lambda: "") if comparison is None else comparison.to_json,
    )
