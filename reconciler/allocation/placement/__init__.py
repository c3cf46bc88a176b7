"""Which nodes a pod, or a claim without a pod, may use, and which pod or claim is allocated first.

Every front end uses this package: the live loop, shadow mode, `allocate`, `explain`, `whatif` and its
endpoint. No I/O, no clock. It does not choose devices.
"""

from reconciler.allocation.placement.order import Place, place
from reconciler.allocation.placement.placing import NodeChoice, Placement, refusal_reason
from reconciler.allocation.placement.releasing import Release
from reconciler.allocation.placement.together import Together
from reconciler.allocation.placement.volume_filters import minds_other_pods

__all__ = [
    "NodeChoice",
    "Place",
    "Placement",
    "Release",
    "Together",
    "minds_other_pods",
    "place",
    "refusal_reason",
]
