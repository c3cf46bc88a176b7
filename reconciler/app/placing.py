"""Parts for placement policies: the policies in use, and the demand that is learnt for them."""

import structlog

from reconciler.app.from_settings import policies
from reconciler.control.demand.in_use import PoliciesInUse
from reconciler.operations.journal.recording import Recorder
from reconciler.settings import Settings

log = structlog.get_logger()


def policies_in_use(settings: Settings, recorder: Recorder | None) -> PoliciesInUse:
    """The policies of the settings. The journal records them. Raises Malformed for a demand file."""
    found, refused = policies(settings)
    for problem in refused:
        log.warning("shape of the demand refused", error=str(problem))
    return PoliciesInUse(found) if recorder is None else PoliciesInUse(found, recorder.use)
