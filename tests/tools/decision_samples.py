"""A decision of every kind, and the log line that it makes."""

from typing import Any, NamedTuple

from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.plan import Gate, RequestCount
from reconciler.control.decisions.allocating import (
    Allocated,
    AllocatedByScheduler,
    AllocationUnreadable,
    Compared,
    Deleted,
    DevicesGiven,
    ExclusionViolated,
    Freed,
    GroupModeChanged,
    HeldBack,
    HeldTwice,
    NoLongerOverCommitted,
    Outcome,
    OverCommitted,
    Overdrawn,
    Reclaimed,
    Uncharged,
    Ungated,
    Waits,
    WritesPaused,
    WritesResumed,
)
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import (
    Evicted,
    GangGivenBack,
    GangPlaced,
    MoveEvicted,
    MovesAborted,
    MovesPlanned,
    NodesNotRequested,
    NodesRequested,
    Nominated,
    NominationDropped,
    NominationExpired,
    NominationUsed,
    PodMoved,
    RoomPlanAborted,
    RoomPlanned,
    WorkloadChecked,
)
from reconciler.state.nominations import of_pod

CLAIM, POD, DEVICE = ObjectKey("ns", "c"), ObjectKey("ns", "p"), DeviceID("d", "p", "x")
GANG = GangKey("ns", GangSource.ANNOTATION, "g")
POOL = PoolID("d", "p")
COUNTS = (
    RequestCount(CLAIM, "r", 2, (Gate("class", 3), Gate("free", 1))),
    RequestCount(CLAIM, "q/big", None, ()),
)


class Sample(NamedTuple):
    decision: Decision
    level: str
    event: str
    fields: dict[str, Any]
    """Without `decision_id`, in the order of the line"""


NOMINEE = of_pod(POD)

SAMPLES = (
    Sample(
        Nominated(NOMINEE, ("n",), (DEVICE,), "2026-01-01T00:00:00Z", "pods of lower priority leave"),
        "info",
        "room held",
        {
            "nominee": "pod ns/p",
            "nodes": ["n"],
            "devices": ["d/p/x"],
            "deadline": "2026-01-01T00:00:00Z",
            "why": "pods of lower priority leave",
        },
    ),
    Sample(
        RoomPlanned(NOMINEE, (POD,), ("n",), (DEVICE,), False, "evictions are off"),
        "info",
        "room can be made",
        {
            "nominee": "pod ns/p",
            "victims": ["ns/p"],
            "nodes": ["n"],
            "devices": ["d/p/x"],
            "acts": False,
            "why": "evictions are off",
        },
    ),
    Sample(
        RoomPlanAborted(NOMINEE, "pod ns/p changed"),
        "warning",
        "making room aborted",
        {"nominee": "pod ns/p", "why": "pod ns/p changed"},
    ),
    Sample(
        Evicted(POD, "u", NOMINEE),
        "warning",
        "pod evicted",
        {"pod": "ns/p", "uid": "u", "nominee": "pod ns/p"},
    ),
    Sample(
        MovesPlanned("whole=2", "device of whole", 1, 2, (POD,), ("n",), acts=False, why="evictions are off"),
        "info",
        "moves can be made",
        {
            "goal": "whole=2",
            "counted": "device of whole",
            "before": 1,
            "after": 2,
            "pods": ["ns/p"],
            "nodes": ["n"],
            "acts": False,
            "why": "evictions are off",
        },
    ),
    Sample(
        MovesAborted("whole=2", POD, "u", (POD,), "it is gone"),
        "warning",
        "moves aborted",
        {"goal": "whole=2", "pod": "ns/p", "uid": "u", "pods": ["ns/p"], "why": "it is gone"},
    ),
    Sample(
        MoveEvicted(POD, "u", "n", "m", (DEVICE,), "device of whole", "n/gpu-0"),
        "warning",
        "pod evicted to move it",
        {
            "pod": "ns/p",
            "uid": "u",
            "node": "n",
            "to": "m",
            "devices": [str(DEVICE)],
            "counted": "device of whole",
            "place": "n/gpu-0",
        },
    ),
    Sample(
        PodMoved(POD, POD, "m", (DEVICE,)),
        "info",
        "pod moved",
        {"pod": "ns/p", "replacement": "ns/p", "node": "m", "devices": [str(DEVICE)]},
    ),
    Sample(
        WorkloadChecked(ObjectKey("ns", "w"), "Pending", "GangUnplaced", "no room"),
        "info",
        "workload checked",
        {"workload": "ns/w", "state": "Pending", "reason": "GangUnplaced", "message": "no room"},
    ),
    Sample(
        NodesRequested(ObjectKey("ns", "r"), POD, 3, ("big",)),
        "info",
        "nodes requested",
        {"request": "ns/r", "pod": "ns/p", "count": 3, "shapes": ["big"]},
    ),
    Sample(
        NodesNotRequested(ObjectKey("ns", "r"), "served"),
        "info",
        "nodes not requested any more",
        {"request": "ns/r", "why": "served"},
    ),
    Sample(NominationUsed(NOMINEE), "info", "held room used", {"nominee": "pod ns/p"}),
    Sample(NominationExpired(NOMINEE), "warning", "held room expired", {"nominee": "pod ns/p"}),
    Sample(
        NominationDropped(NOMINEE, "it is gone"),
        "info",
        "held room given up",
        {"nominee": "pod ns/p", "why": "it is gone"},
    ),
    Sample(
        Allocated(CLAIM, POD, (DEVICE,), "n", 0.25678, 3, 61.23),
        "info",
        "claim allocated",
        {
            "claim": "ns/c",
            "pod": "ns/p",
            "devices": ["d/p/x"],
            "node": "n",
            "duration_ms": 256.8,
            "steps": 3,
            "pending_seconds": 61.2,
        },
    ),
    Sample(
        Allocated(CLAIM, None, (), "", 0.0, 0),
        "info",
        "claim allocated",
        {"claim": "ns/c", "devices": [], "node": "", "duration_ms": 0.0, "steps": 0},
    ),
    Sample(
        Waits((CLAIM,), POD, "DevicesInUse", "words", 2, 3, COUNTS),
        "info",
        "claim pending",
        {
            "claims": ["ns/c"],
            "pod": "ns/p",
            "reason": "DevicesInUse",
            "message": "words",
            "nodes": 2,
            "steps": 3,
            "counts": [
                {"claim": "ns/c", "request": "r", "wanted": 2, "left": {"class": 3, "free": 1}},
                {"claim": "ns/c", "request": "q/big", "wanted": "all", "left": {}},
            ],
        },
    ),
    Sample(
        Waits((CLAIM,), None, "GangIncomplete", "words", gang=GANG, pods=(POD,)),
        "info",
        "claim pending",
        {
            "claims": ["ns/c"],
            "reason": "GangIncomplete",
            "message": "words",
            "nodes": 0,
            "steps": 0,
            "counts": [],
            "gang": "ns/g",
            "pods": ["ns/p"],
        },
    ),
    Sample(
        GangPlaced(GANG, 1, (POD,), ("n",), (ObjectKey("ns", "q"),), (("rack", "a"),), 0.25, 3),
        "info",
        "gang placed",
        {
            "gang": "ns/g",
            "size": 1,
            "pods": ["ns/p"],
            "on": ["n"],
            "left_out": ["ns/q"],
            "domain": {"rack": "a"},
            "duration_ms": 250.0,
            "steps": 3,
        },
    ),
    Sample(
        GangGivenBack(GANG, (CLAIM,), "words"),
        "info",
        "gang given back",
        {"gang": "ns/g", "claims": ["ns/c"], "why": "words"},
    ),
    Sample(Freed(CLAIM, "deleted"), "info", "claim freed", {"claim": "ns/c", "why": "deleted"}),
    Sample(Deleted(CLAIM, (DEVICE,)), "info", "claim deleted", {"claim": "ns/c", "devices": ["d/p/x"]}),
    Sample(Ungated(POD, (CLAIM,)), "info", "pod ungated", {"pod": "ns/p", "claims": ["ns/c"]}),
    Sample(
        AllocatedByScheduler(CLAIM, POD, (DEVICE,), (DEVICE,)),
        "info",
        "claim allocated by kube-scheduler",
        {"claim": "ns/c", "pod": "ns/p", "devices": ["d/p/x"], "decided": ["d/p/x"]},
    ),
    Sample(
        DevicesGiven(POD, (DEVICE,), "n", 0.25),
        "info",
        "devices allocated to pod",
        {"pod": "ns/p", "devices": ["d/p/x"], "node": "n", "duration_ms": 250.0},
    ),
    Sample(
        HeldTwice(DEVICE, (CLAIM,)), "warning", "device held twice", {"device": "d/p/x", "claims": ["ns/c"]}
    ),
    Sample(
        Overdrawn(DEVICE, (POD,)),
        "warning",
        "device over-committed",
        {"device": "d/p/x", "pods": ["ns/p"]},
    ),
    Sample(
        AllocationUnreadable(POD, "n", "words"),
        "warning",
        "device allocation unreadable",
        {"pod": "ns/p", "node": "n", "message": "words"},
    ),
    Sample(
        ExclusionViolated("words", (CLAIM,)),
        "warning",
        "exclusive devices held together",
        {"message": "words", "claims": ["ns/c"]},
    ),
    Sample(
        GroupModeChanged("d", "kep-5963", "pairwise", 2),
        "warning",
        "group mode changed",
        {"driver": "d", "before": "kep-5963", "after": "pairwise", "held": 2},
    ),
    Sample(
        OverCommitted(POOL, "set", (("memory", "3Gi"),), (CLAIM,)),
        "warning",
        "counters over-committed",
        {"pool": "d/p", "counter_set": "set", "short": {"memory": "3Gi"}, "claims": ["ns/c"]},
    ),
    Sample(
        NoLongerOverCommitted(POOL, "set"),
        "info",
        "counters no longer over-committed",
        {"pool": "d/p", "counter_set": "set"},
    ),
    Sample(
        Uncharged(DEVICE, "set", ("memory",), (CLAIM,)),
        "warning",
        "counters of held device no longer published",
        {"device": "d/p/x", "counter_set": "set", "counters": ["memory"], "claims": ["ns/c"]},
    ),
    Sample(
        Reclaimed(CLAIM, POD, "n", (DEVICE,), "words"),
        "warning",
        "allocation removed by kube-scheduler",
        {"claim": "ns/c", "pod": "ns/p", "node": "n", "devices": ["d/p/x"], "message": "words"},
    ),
    Sample(
        Compared(Outcome.AGREES, (CLAIM,), None, "n", (DEVICE,), "n", (DEVICE,)),
        "info",
        "shadow agrees",
        {
            "outcome": "agrees",
            "claims": ["ns/c"],
            "node": "n",
            "devices": ["d/p/x"],
            "their_node": "n",
            "their_devices": ["d/p/x"],
            "there": None,
            "message": "",
        },
    ),
    Sample(
        Compared(Outcome.OTHER_NODE, (CLAIM,), POD, "n", (), "m", (DEVICE,), Outcome.AGREES, "words"),
        "info",
        "shadow differs",
        {
            "outcome": "other node",
            "claims": ["ns/c"],
            "pod": "ns/p",
            "node": "n",
            "devices": [],
            "their_node": "m",
            "their_devices": ["d/p/x"],
            "there": "agrees",
            "message": "words",
        },
    ),
    Sample(WritesPaused("words"), "warning", "writes paused", {"reason": "words"}),
    Sample(HeldBack(CLAIM, None), "info", "write skipped while paused", {"claim": "ns/c"}),
    Sample(HeldBack(None, None, GANG), "info", "write skipped while paused", {"gang": "ns/g"}),
    Sample(HeldBack(None, POD), "info", "write skipped while paused", {"pod": "ns/p"}),
    Sample(WritesResumed(2), "info", "writes resumed", {"held": 2}),
)
