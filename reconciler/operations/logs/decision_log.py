"""One log line a decision."""

from typing import Any

import structlog

from reconciler.objects.plan import RequestCount
from reconciler.reconcile.decisions import (
    Allocated,
    AtOdds,
    CommitmentMet,
    Compared,
    Decision,
    Equipped,
    Freed,
    HeldBack,
    HeldTwice,
    Outcome,
    OverCommitted,
    Overdrawn,
    TakenBack,
    Uncharged,
    Ungated,
    Waits,
    WritesPaused,
    WritesResumed,
)

log = structlog.get_logger(__name__)


def log_decision(decision: Decision) -> None:
    """Log a decision."""
    match decision:
        case Allocated():
            log.info(
                "claim allocated",
                claim=str(decision.claim),
                **_pod(decision),
                devices=[str(device) for device in decision.devices],
                node=decision.node,
                duration_ms=round(decision.seconds * 1000, 1),
                steps=decision.steps,
                decision_id=decision.decision_id,
            )
        case Waits():
            log.info(
                "claim waits",
                claims=[str(claim) for claim in decision.claims],
                **_pod(decision),
                reason=decision.reason,
                message=decision.message,
                nodes=decision.nodes,
                steps=decision.steps,
                counts=[_count(count) for count in decision.counts],
                decision_id=decision.decision_id,
            )
        case Freed():
            log.info(
                "claim freed",
                claim=str(decision.claim),
                why=decision.why,
                decision_id=decision.decision_id,
            )
        case Ungated():
            log.info("pod ungated", pod=str(decision.pod), decision_id=decision.decision_id)
        case HeldTwice():
            claims = [str(claim) for claim in decision.claims]
            log.warning(
                "device held twice",
                device=str(decision.device),
                claims=claims,
                decision_id=decision.decision_id,
            )
        case AtOdds():
            log.warning(
                "exclusive devices at odds", message=decision.message, decision_id=decision.decision_id
            )

        case Equipped():
            log.info(
                "pod given devices",
                pod=str(decision.pod),
                devices=[str(device) for device in decision.devices],
                node=decision.node,
                duration_ms=round(decision.seconds * 1000, 1),
                decision_id=decision.decision_id,
            )
        case Overdrawn():
            log.warning(
                "device overdrawn",
                device=str(decision.device),
                pods=[str(pod) for pod in decision.pods],
                decision_id=decision.decision_id,
            )
        case _:
            _log_decision_beside(decision)


def _log_decision_beside(decision: Decision) -> None:
    """Log what comes of living beside others."""
    match decision:
        case OverCommitted():
            log.warning(
                "counters over-committed",
                pool=str(decision.pool),
                counter_set=decision.counter_set,
                short=dict(decision.short),
                claims=[str(claim) for claim in decision.claims],
                decision_id=decision.decision_id,
            )
        case CommitmentMet():
            log.info(
                "counters no longer over-committed",
                pool=str(decision.pool),
                counter_set=decision.counter_set,
                decision_id=decision.decision_id,
            )
        case Uncharged():
            log.warning(
                "held counters unpublished",
                device=str(decision.device),
                counter_set=decision.counter_set,
                counters=list(decision.counters),
                claims=[str(claim) for claim in decision.claims],
                decision_id=decision.decision_id,
            )
        case TakenBack():
            log.warning(
                "allocation taken back by kube-scheduler",
                claim=str(decision.claim),
                pod=str(decision.pod),
                node=decision.node,
                devices=[str(device) for device in decision.devices],
                message=decision.message,
                decision_id=decision.decision_id,
            )
        case Compared():
            log.info(
                "shadow agrees" if decision.outcome is Outcome.AGREES else "shadow differs",
                outcome=str(decision.outcome),
                claims=[str(claim) for claim in decision.claims],
                **_pod(decision),
                node=decision.node,
                devices=[str(device) for device in decision.devices],
                their_node=decision.their_node,
                their_devices=[str(device) for device in decision.their_devices],
                there=None if decision.there is None else str(decision.there),
                message=decision.message,
                decision_id=decision.decision_id,
            )
        case WritesPaused():
            log.warning("writes paused", reason=decision.reason, decision_id=decision.decision_id)
        case HeldBack():
            what = {"claim": str(decision.claim)} if decision.claim else _pod(decision)
            log.info("write held back", **what, decision_id=decision.decision_id)
        case WritesResumed():
            log.info("writes resumed", held=decision.held, decision_id=decision.decision_id)


def _pod(decision: Allocated | Compared | HeldBack | Waits) -> dict[str, str]:
    return {"pod": str(decision.pod)} if decision.pod else {}


def _count(count: RequestCount) -> dict[str, Any]:
    return {
        "claim": str(count.claim),
        "request": count.request,
        "wanted": "all" if count.wanted is None else count.wanted,
        "left": {gate.name: gate.left for gate in count.gates},
    }
