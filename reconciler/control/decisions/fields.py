"""The types of the fields of decisions: each says how it is logged, and what docs/logs.md says about it."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from reconciler.api.objects.gangs import GangKey
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import RequestCount
from reconciler.control.decisions.declaration import Logged
from reconciler.state import nominations


def texts(values: Iterable[object]) -> list[str]:
    """Names as in log lines."""
    return [str(value) for value in values]


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _rounded(seconds: float) -> float:
    return round(seconds, 1)


def _counts(counts: Iterable[RequestCount]) -> list[Mapping[str, Any]]:
    return [
        {
            "claim": str(count.claim),
            "request": count.request,
            "wanted": "all" if count.wanted is None else count.wanted,
            "left": {gate.name: gate.left for gate in count.gates},
        }
        for count in counts
    ]


_CLAIM = "NAMESPACE/NAME of a ResourceClaim"
_POD = "NAMESPACE/NAME of a pod"

ClaimKey = Annotated[ObjectKey, Logged(_CLAIM, write=str)]
MaybeClaimKey = Annotated[ObjectKey | None, Logged(_CLAIM, write=str, optional=True)]
ClaimKeys = Annotated[tuple[ObjectKey, ...], Logged("NAMESPACE/NAME of each", list, texts)]
PodKey = Annotated[ObjectKey, Logged(_POD, write=str)]
MaybePodKey = Annotated[ObjectKey | None, Logged(_POD, write=str, optional=True)]
MaybePodKeys = Annotated[
    tuple[ObjectKey, ...] | None, Logged("NAMESPACE/NAME of each", list, texts, optional=True)
]
PodKeys = Annotated[tuple[ObjectKey, ...], Logged("NAMESPACE/NAME of each", list, texts)]
Gang = Annotated[GangKey, Logged("NAMESPACE/NAME", write=str)]
MaybeGang = Annotated[GangKey | None, Logged("NAMESPACE/NAME", write=str, optional=True)]

Device = Annotated[
    DeviceID, Logged("DRIVER/POOL/DEVICE; of Koordinator's devices TYPE/NODE/MINOR", write=str)
]
Devices = Annotated[tuple[DeviceID, ...], Logged("names of devices, as in `device`", list, texts)]
Pool = Annotated[PoolID, Logged("DRIVER/POOL", write=str)]
CounterSet = Annotated[str, Logged("as the name says")]
Node = Annotated[str, Logged("name of a node")]
Nominee = Annotated[
    nominations.Nominee,
    Logged(
        "`claim`, `pod`, `gang` or `workload`, and NAMESPACE/NAME; or `the next pod of` a controller",
        write=str,
    ),
]
Uid = Annotated[str, Logged("as the name says")]
Goal = Annotated[str, Logged("as in the setting `rebalance_goals`")]
CountedThing = Annotated[str, Logged("what is to fit, in the singular")]

Message = Annotated[str, Logged("as the name says")]
Policy = Annotated[str | None, Logged("the policy that chose; absent for first fit", optional=True)]
Steps = Annotated[int, Logged("devices that the search tried", int)]
NodeCount = Annotated[int, Logged("nodes that were considered", int)]
Counts = Annotated[
    tuple[RequestCount, ...], Logged("for each request, the devices that passed each test", list, _counts)
]
Seconds = Annotated[
    float,
    Logged(
        "from the start of the decision until it was stored", (int, float), _milliseconds, name="duration_ms"
    ),
]
PendingSeconds = Annotated[
    float | None,
    Logged(
        "from the creation of the claim until it was stored",
        (int, float),
        _rounded,
        name="pending_seconds",
        optional=True,
    ),
]
