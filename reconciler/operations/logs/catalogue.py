"""Every event that is logged, with its fields. docs/logs.md is made from it; a test holds the code to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Fields = Mapping[str, str]
"""Field -> a key of `FIELDS`, mostly its own name"""


class Level(StrEnum):
    """From which level on an event is seen."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


DEBUG, INFO, WARNING, ERROR = Level


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of line."""

    name: str
    level: Level
    meaning: str
    fields: tuple[str, ...] = ()
    """Always there"""
    maybe: tuple[str, ...] = ()
    """There where they apply"""


FIELDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "timestamp": (str, "time in UTC, ISO 8601 with microseconds"),
    "level": (str, "debug, info, warning or error"),
    "logger": (str, "the module that wrote the line"),
    "event": (str, "name of the event; everything below goes by it"),
    "exception": (str, "traceback, without the values of variables"),
    "decision_id": (str, "names one decision in log lines, Events, metric exemplars and the journal"),
    "claim": (str, "NAMESPACE/NAME of a ResourceClaim"),
    "claims": (list, "NAMESPACE/NAME of ResourceClaims"),
    "compared": (int, "comparisons made"),
    "counter_set": (str, "name of a counter set in the pool"),
    "counters": (list, "names of counters of the set"),
    "counts": (list, "for each request how many devices each gate left: claim, request, wanted, left"),
    "device": (str, "DRIVER/POOL/DEVICE; of Koordinator's devices TYPE/NODE/MINOR"),
    "devices": (list, "the same, several"),
    "drain_seconds": ((int, float), "seconds that begun writes were given"),
    "dropped": (int, "bytes thrown away"),
    "duration_ms": (
        (int, float),
        "milliseconds from the begin of the decision until the server had stored it",
    ),
    "error": (str, "what went wrong, in words"),
    "cause": (str, "conflict: somebody wrote first; retry: the server was busy or away"),
    "field": (str, "path in the object"),
    "file": (str, "path of a file"),
    "findings": (int, "findings of the doctor"),
    "gate": (str, "the feature gate that the field belongs to; empty if none is known"),
    "gates": (list, "feature gates that are off on the server"),
    "held": (int, "claims and pods that would have been written to meanwhile"),
    "holder": (str, "who holds the Lease"),
    "identity": (str, "by which name this process holds the Lease"),
    "kind": (str, "Kubernetes kind"),
    "kinds": (list, "Kubernetes kinds"),
    "lease": (str, "NAMESPACE/NAME of a Lease"),
    "message": (str, "the same in words"),
    "name": (str, "NAMESPACE/NAME, or NAME, of an object"),
    "node": (str, "name of a node"),
    "nodes": (int, "nodes that were considered"),
    "not_served": (list, "kinds that the server does not serve"),
    "objects": (int, "objects in a listing"),
    "others": (list, "shards, by their Leases"),
    "outcome": (str, "agrees, other devices, other node, we refuse, they wait"),
    "path": (str, "path of a request"),
    "paths": (str, "paths that are served"),
    "pause": ((int, float), "seconds until it is tried again"),
    "pod": (str, "NAMESPACE/NAME of a pod"),
    "pods": (list, "NAMESPACE/NAME of pods"),
    "pool": (str, "DRIVER/POOL"),
    "pools": (int, "pools with something wrong"),
    "reason": (str, "a word of docs/reasons.md, or why an object cannot be read"),
    "refused": (int, "objects that cannot be read"),
    "remedy": (str, "what to do about it"),
    "seconds": ((int, float), "seconds"),
    "server": (str, "URL of the API server"),
    "shard": (str, "definition of a shard"),
    "short": (dict, "counter -> how much of it is missing"),
    "steps": (int, "devices tried"),
    "their_devices": (list, "what the other scheduler gave"),
    "their_node": (str, "where the other scheduler put it; empty where its devices leave a choice"),
    "there": ((str, type(None)), "how we compare on their node, where ours would have been another"),
    "unit": (str, "what a turn is about: `claim NAMESPACE/NAME` or `pod NAMESPACE/NAME`"),
    "url": (str, "where something is served"),
    "wait_seconds": ((int, float), "seconds that the next leader still has to wait"),
    "why": ((str, list), "for what cause"),
}
"""Field -> type of its JSON value, and what it is"""

COMMON = ("timestamp", "level", "logger", "event")
_COMPARED = (
    "outcome", "claims", "node", "devices", "their_node", "their_devices", "there", "message", "decision_id",
)  # fmt: skip

DECISIONS = (
    Event("claim allocated", INFO, "A claim holds devices, and the server knows.",
          ("claim", "devices", "node", "duration_ms", "steps", "decision_id"), ("pod",)),
    Event("claim waits", INFO, "Claims cannot be met now; told when the reason is another one.",
          ("claims", "reason", "message", "nodes", "steps", "counts", "decision_id"), ("pod",)),
    Event("claim explained", INFO, "What stands in the way of claims that wait, worked out afterwards.",
          ("claims", "reason", "why", "remedy", "decision_id")),
    Event("claim freed", INFO, "A claim let go of what it held.", ("claim", "why", "decision_id")),
    Event("pod ungated", INFO, "All claims of a pod are allocated; it is the scheduler's turn.",
          ("pod", "decision_id")),
    Event("pod given devices", INFO, "A pod holds Koordinator's devices, recorded in its annotation.",
          ("pod", "devices", "node", "duration_ms", "decision_id")),
    Event("device held twice", WARNING, "Two claims hold a device that only one can hold.",
          ("device", "claims", "decision_id")),
    Event("device overdrawn", WARNING, "Pods hold more of a device than there is, by their annotations.",
          ("device", "pods", "decision_id")),
    Event("exclusive devices at odds", WARNING, "Devices that exclude one another are held side by side.",
          ("message", "decision_id")),
    Event("counters over-committed", WARNING, "More is drawn from a counter set than it publishes.",
          ("pool", "counter_set", "short", "claims", "decision_id")),
    Event("counters no longer over-committed", INFO, "As much is drawn as is published, or the set is gone.",
          ("pool", "counter_set", "decision_id")),
    Event("held counters unpublished", WARNING, "A held device drew from counters that its pool has no more.",
          ("device", "counter_set", "counters", "claims", "decision_id")),
    Event("allocation taken back by kube-scheduler", WARNING, "kube-scheduler decides about a pod afresh.",
          ("claim", "pod", "node", "devices", "message", "decision_id")),
    Event("shadow agrees", INFO, "Shadow mode: we would have decided the same.", _COMPARED, ("pod",)),
    Event("shadow differs", INFO, "Shadow mode: we would have decided otherwise.", _COMPARED, ("pod",)),
    Event("writes paused", WARNING, "Nothing is written from now on.", ("reason", "decision_id")),
    Event("write held back", INFO, "Something would have been written, but for the pause.",
          ("decision_id",), ("claim", "pod")),
    Event("writes resumed", INFO, "Writes go on.", ("held", "decision_id")),
)  # fmt: skip

TURNS = (
    Event("turn to be repeated", INFO, "A write met a conflict or a server that is busy or away.",
          ("unit", "cause", "error", "pause")),
    Event("write refused", WARNING, "The server refuses a write for good; a right may be missing.",
          ("unit", "error", "pause")),
    Event("turn failed", ERROR, "An error nobody expected: a defect. The unit is tried again.",
          ("unit", "pause", "exception")),
    Event("nothing left to do", DEBUG, "What was to be written to is gone.", ("unit", "error")),
    Event("object refused", WARNING, "An object on the server cannot be read; it is left out alone.",
          ("kind", "name", "reason")),
    Event("devices not understood", WARNING, "Part of a Device or a pod's annotation is not understood.",
          ("kind", "name", "reason")),
    Event("fencing off what may still be written", INFO,
          "Claims that another process may have been about to write get a new version first.", ("claims",)),
    Event("cannot fence off a claim", WARNING, "The write deadline is waited out instead.",
          ("claim", "error")),
    Event("refusal not explained", ERROR, "An explanation failed: a defect. The decision stands.",
          ("unit", "decision_id", "exception")),
)  # fmt: skip

PROCESS = (
    Event("reconciling", INFO, "The server was asked what it serves; watches begin.", ("kinds",)),
    Event("claims are not served", INFO,
          "The server has no resource.k8s.io that we read: only Koordinator's devices are given.",
          ("not_served", "gates")),
    Event("the server lacks features", INFO, "Kinds or feature gates are missing there.",
          ("not_served", "gates")),
    Event("status served", INFO, "Health, metrics and status are served.", ("url", "paths")),
    Event("stopped", INFO, "The end; begun writes are through."),
    Event("stopped before the server answered", INFO, "The end, before there was anything to do."),
    Event("writes cut off", WARNING, "Writes were still under way at the end of their time.",
          ("drain_seconds",)),
    Event("shadow summary", INFO, "Shadow mode at its end: how often we agreed.", ("compared",), ("*",)),
    Event("lease held, taking over", INFO, "What its last holder may still write is waited out.",
          ("lease", "identity")),
    Event("leading", INFO, "From now on this process decides.", ("lease",)),
    Event("not leading any more", WARNING, "Another process holds the Lease; nothing is written.",
          ("lease", "holder")),
    Event("lease not reached", WARNING, "The Lease could not be read or renewed; it is tried again.",
          ("lease", "error")),
    Event("lease not believed", WARNING, "A Lease says what no replica would; our own terms are assumed.",
          ("lease", "why")),
    Event("lease released", INFO, "Another process may begin at once.", ("lease", "wait_seconds")),
    Event("lease not released", INFO, "It was not ours any more, or the server did not answer.",
          ("lease", "error")),
    Event("lease not released, it ends by itself", WARNING, "Another process begins when it has run out.",
          ("error",)),
    Event("shard overlaps with another, nothing is decided here", ERROR,
          "Two shards would own one device; change --shard of one of them.", ("shard", "others")),
    Event("journal ended", WARNING, "The journal cannot be written any more; the work goes on.",
          ("file", "error")),
    Event("listed", DEBUG, "All objects of a kind were listed.", ("kind", "objects", "refused")),
    Event("stream cut within a line", DEBUG, "A watch ended in the middle of an event.", ("dropped",)),
    Event("the API server's certificate is not verified", WARNING,
          "Because --insecure-skip-tls-verify says so.", ("server",)),
    Event("the server dropped a field", WARNING,
          "An allocation was stored with other fields than were written; a feature gate may be off there.",
          ("field", "gate", "claim")),
    Event("the doctor made a round", INFO, "All checks of `doctor` were made on the cluster.",
          ("findings", "pools")),
    Event("the doctor's round failed", WARNING, "The cluster could not be looked at.", ("error",)),
    Event("the doctor's round took too long", WARNING, "It was given up.", ("seconds",)),
    Event("events cannot be written", WARNING, "Events are left out for a while.",
          ("error", "pause")),
    Event("event dropped", DEBUG, "One Event could not be written.", ("error",)),
    Event("certificate of the status port renewed", INFO, "Its files changed.", ("file",)),
    Event("certificate of the status port not renewed", WARNING, "Its files cannot be used.", ("error",)),
    Event("access to the status port could not be reviewed", WARNING, "The API server did not answer.",
          ("error",)),
    Event("status request failed", ERROR, "A defect in the status port.", ("path", "exception")),
    Event("devices could not be counted", ERROR, "A defect in the metrics of devices.", ("exception",)),
)  # fmt: skip

EVENTS: Mapping[str, Event] = {event.name: event for event in (*DECISIONS, *TURNS, *PROCESS)}
