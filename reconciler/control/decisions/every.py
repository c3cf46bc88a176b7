"""Every kind of decision."""

from reconciler.control.decisions.allocating import Allocated, DevicesGiven, Freed, Reclaimed, Ungated, Waits
from reconciler.control.decisions.comparing import Compared
from reconciler.control.decisions.decision import Decision
from reconciler.control.decisions.findings import (
    ExclusionViolated,
    GroupModeChanged,
    HeldTwice,
    NoLongerOverCommitted,
    OverCommitted,
    Overdrawn,
    Uncharged,
)
from reconciler.control.decisions.gangs import GangGivenBack, GangPlaced
from reconciler.control.decisions.making_room import Evicted, RoomPlanAborted, RoomPlanned
from reconciler.control.decisions.moving import MoveEvicted, MovesAborted, MovesPlanned, PodMoved
from reconciler.control.decisions.nominations import (
    Nominated,
    NominationDropped,
    NominationExpired,
    NominationUsed,
)
from reconciler.control.decisions.pausing import HeldBack, WritesPaused, WritesResumed
from reconciler.control.decisions.workloads import NodesNotRequested, NodesRequested, WorkloadChecked

DECISIONS: tuple[type[Decision], ...] = (
    Allocated,
    Waits,
    Nominated,
    NominationUsed,
    NominationExpired,
    NominationDropped,
    WorkloadChecked,
    NodesRequested,
    NodesNotRequested,
    RoomPlanned,
    RoomPlanAborted,
    Evicted,
    MovesPlanned,
    MovesAborted,
    MoveEvicted,
    PodMoved,
    GangPlaced,
    GangGivenBack,
    Freed,
    Ungated,
    DevicesGiven,
    HeldTwice,
    Overdrawn,
    ExclusionViolated,
    GroupModeChanged,
    OverCommitted,
    NoLongerOverCommitted,
    Uncharged,
    Reclaimed,
    Compared,
    WritesPaused,
    HeldBack,
    WritesResumed,
)
"""Every kind of decision, in the order of docs/logs.md"""
