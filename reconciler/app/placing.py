"""Parts for placement policies: the policies in use, and the demand that is learnt for them."""

from collections.abc import Callable

import structlog

from reconciler.api.objects.meta import ObjectKey
from reconciler.app.foundation import now
from reconciler.app.from_settings import policies
from reconciler.cluster.client import Client
from reconciler.cluster.watch import Sink
from reconciler.control.demand.config_map import DemandConfigMap
from reconciler.control.demand.in_use import PoliciesInUse
from reconciler.control.demand.learner import DemandLearner
from reconciler.control.intake import Intake
from reconciler.operations.journal.recording import Recorder
from reconciler.settings import Settings

log = structlog.get_logger()


def policies_in_use(settings: Settings, recorder: Recorder | None) -> PoliciesInUse:
    """The policies of the settings. The journal records them. Raises Malformed for a demand file."""
    found, refused = policies(settings)
    for problem in refused:
        log.warning("shape of the demand refused", error=str(problem))
    return PoliciesInUse(found) if recorder is None else PoliciesInUse(found, recorder.use)


def learner_of(
    settings: Settings,
    intake: Intake,
    sink: Sink,
    in_use: PoliciesInUse,
    client: Client,
    leads: Callable[[], bool],
) -> DemandLearner | None:
    """What learns the demand; None if no policy uses one, or if it is given.

    In shadow mode nothing is kept. `leads` says whether this process may write.
    """
    if settings.demand is not None or not in_use().uses_demand:
        return None
    keeper = None
    if settings.demand_config_map is not None and settings.mode != "shadow":
        namespace, _, name = settings.demand_config_map.partition("/")
        keeper = DemandConfigMap(client, ObjectKey(namespace, name), writes=leads)
    half_life = settings.demand_half_life_hours * 3600.0
    return DemandLearner(intake, sink, in_use, keeper, half_life=half_life, now=now)
