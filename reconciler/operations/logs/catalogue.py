"""Every event that is logged, with its fields. docs/logs.md is generated from it.

The classes of decisions declare their own log lines. All others are declared here; a test compares them with
the code.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.control.decisions.declaration import Decision, Level
from reconciler.control.decisions.every import DECISIONS

DEBUG, INFO, WARNING, ERROR = Level


class Event(Struct, frozen=True):
    """One kind of line."""

    name: str
    level: Level
    meaning: str
    fields: tuple[str, ...] = ()
    """In every line of this event"""
    maybe: tuple[str, ...] = ()
    """In the lines to which they apply"""


def events_of(kind: type[Decision]) -> Iterator[Event]:
    """The log lines of a kind of decision."""
    found = list(kind.logged_fields())
    fields = tuple(one.name for one in found if not one.logged.optional)
    maybe = tuple(one.name for one in found if one.logged.optional)
    for line in kind.LINES:
        yield Event(line.event, line.level, line.meaning or kind.meaning(), fields, maybe)


DECISION_EVENTS = (
    *(event for kind in DECISIONS for event in events_of(kind)),
    Event("claim explained", INFO, "Why claims are pending, worked out after the decision.",
          ("claims", "reason", "why", "remedy", "decision_id")),
)  # fmt: skip

RECONCILE_EVENTS = (
    Event("reconcile will be retried", INFO,
          "A write met a conflict, or the API server is busy or unreachable.",
          ("unit", "cause", "error", "pause")),
    Event("write rejected", WARNING,
          "The API server rejects a write permanently. A permission may be missing.",
          ("unit", "error", "pause")),
    Event("reconcile failed", ERROR,
          "Internal error (please report). The claim or pod is retried after a pause.",
          ("unit", "pause", "exception")),
    Event("object is gone", DEBUG, "The object to write was deleted.", ("unit", "error")),
    Event("invalid object ignored", WARNING, "An object cannot be read. All others are used.",
          ("kind", "name", "reason")),
    Event("volumes not considered", INFO,
          "The volumes of a gated pod do not decide its node, because of --without-volumes.", ("pod",)),
    Event("invalid Koordinator devices ignored", WARNING,
          "Part of a Device or of a pod's annotation cannot be read.", ("kind", "name", "reason")),
    Event("fencing writes of the previous leader", INFO,
          "Claims that another process may still write get a new resourceVersion first.", ("claims",)),
    Event("cannot fence claim", WARNING, "The process waits until the write deadline instead.",
          ("claim", "error")),
    Event("explanation failed", ERROR, "Internal error (please report). The decision is not affected.",
          ("unit", "decision_id", "exception")),
    Event("eviction not allowed now", INFO,
          "A PodDisruptionBudget does not allow an eviction now, or the API server is busy. It is retried.",
          ("pod", "error", "pause")),
    Event("plan to make room failed", ERROR,
          "Internal error (please report). Nobody is evicted; allocation is not affected.",
          ("unit", "exception")),
    Event("making room failed", ERROR,
          "Internal error (please report). Room that is held expires; allocation is not affected.",
          ("exception",)),
    Event("rebalancing failed", ERROR,
          "Internal error (please report). A place that is held expires; allocation is not affected.",
          ("exception",)),
    Event("budgets not considered", INFO,
          "Advice which pods to move is made without PodDisruptionBudgets: this account may not read them. "
          "So it may name pods whose budgets allow no eviction. docs/rebalancing.md says how to grant the "
          "right.",
          ("error",)),
    Event("job failed", ERROR,
          "Internal error (please report) of the admission check or of the requests for nodes. It is tried "
          "again later; allocation is not affected.", ("job", "name", "exception")),
    Event("hint not written", DEBUG, "status.nominatedNodeName could not be written. Nothing depends on it.",
          ("pod", "error")),
)  # fmt: skip

PROCESS_EVENTS = (
    Event("reconciling", INFO, "Discovery is done; watches start.", ("kinds",)),
    Event("ResourceClaims are not served", INFO,
          "No supported resource.k8s.io version is served. Only Koordinator's devices are allocated.",
          ("not_served", "gates")),
    Event("API server lacks kinds or feature gates", INFO,
          "Some kinds are not served, or some feature gates are off.", ("not_served", "gates")),
    Event("cluster", INFO, "The first line: the API server, and the context of the kubeconfig, if any.",
          ("server", "context")),
    Event("status served", INFO, "The status port serves health, metrics and status.", ("url", "paths")),
    Event("stopped", INFO, "The process ends; started writes are complete."),
    Event("stopped before the API server answered", INFO, "The process ends before it did any work."),
    Event("writes aborted by drain timeout", WARNING, "Writes were in progress when the drain timeout ended.",
          ("drain_seconds",)),
    Event("shadow summary", INFO, "Shadow mode, at the end: the number of comparisons by outcome.",
          ("compared",), ("*",)),
    Event("standby, another process holds the lease", INFO,
          "Without a renewal, this process takes the Lease after `wait_seconds`.",
          ("lease", "holder", "wait_seconds")),
    Event("waiting before allocation starts", INFO,
          "This process holds the Lease. It allocates once no earlier leader can write any more.",
          ("lease", "why", "wait_seconds", "until")),
    Event("lease acquired, taking over", INFO,
          "No earlier leader can write any more. Claims are listed again before the first decision.",
          ("lease", "identity")),
    Event("became leader", INFO, "This process allocates from now on.", ("lease",)),
    Event("held room taken over", INFO, "Room that the previous leader held is held until the same deadline.",
          ("nominees",)),
    Event("lost leadership", WARNING, "Another process holds the Lease; this one writes nothing.",
          ("lease", "holder")),
    Event("lease request failed", WARNING, "The Lease could not be read or renewed. The request is retried.",
          ("lease", "error")),
    Event("invalid lease ignored", WARNING,
          "A Lease has values that no replica writes. The defaults of this process apply instead.",
          ("lease", "why")),
    Event("lease released", INFO, "Another process may take the Lease at once.", ("lease", "wait_seconds")),
    Event("lease not released", INFO,
          "Another process holds the Lease already, or the API server did not answer.", ("lease", "error")),
    Event("lease not released, it will expire", WARNING, "Another process starts when the Lease has expired.",
          ("error",)),
    Event("shard overlaps with another, allocation stopped", ERROR,
          "Two shards would own the same device. Change --shard of one of them.", ("shard", "others")),
    Event("journal stopped", WARNING, "The journal cannot be written. Allocation continues without it.",
          ("file", "error")),
    Event("policy comparison failed", ERROR,
          "Internal error (please report). Decisions are not affected.", ("exception",)),
    Event("demand learnt", INFO,
          "Placement policies keep room for another demand from the next decision on.",
          ("shapes", "digest", "counted")),
    Event("template made", INFO,
          "A pod names a template that did not exist; it is made in a namespace whose pods are rewritten.",
          ("template", "device_class", "devices")),
    Event("template not made", WARNING,
          "A rewritten pod stays pending for want of this template. Making it is tried again.",
          ("template", "error", "remedy")),
    Event("learnt demand refused", WARNING,
          "The ConfigMap has no demand that can be read. Learning starts anew.",
          ("config_map", "error")),
    Event("shape of the demand refused", WARNING,
          "Part of a given or kept demand cannot be read. The rest is used.", ("error",)),
    Event("learnt demand not kept", WARNING,
          "The ConfigMap cannot be read or written. A restart starts to learn anew.",
          ("config_map", "error", "remedy")),
    Event("held room not written down", WARNING,
          "The ConfigMap cannot be read or written. Commands do not know the room, and a restart ends it.",
          ("config_map", "error", "remedy")),
    Event("held room not taken over", WARNING,
          "The record of the previous leader, or a part of it, cannot be read. That room is not held.",
          ("config_map", "error")),
    Event("admission check not written", WARNING,
          "The state of a Workload, or that the check is served, was rejected. It is tried again.",
          ("name", "error")),
    Event("provisioning request not written", WARNING,
          "A request for nodes, or its template, was rejected. It is tried again.", ("error",)),
    Event("listed", DEBUG, "All objects of a kind were listed.", ("kind", "objects", "refused")),
    Event("watch stream ended within a line", DEBUG, "A watch ended inside an event.", ("dropped",)),
    Event("API server certificate is not verified", WARNING, "As the flag or the kubeconfig says.",
          ("server",)),
    Event("API server dropped a field", WARNING,
          "A stored allocation differs from the written one. A feature gate may be off on the API server.",
          ("field", "gate", "claim")),
    Event("claim is not managed", WARNING,
          "Embedded server only: a claim stays pending, because it has neither our label nor a gated pod.",
          ("claim",)),
    Event("doctor run finished", INFO, "All checks of `doctor` ran on the cluster.", ("findings", "pools")),
    Event("doctor run failed", WARNING, "The doctor could not read the cluster.", ("error",)),
    Event("doctor run timed out", WARNING, "The run took too long and was stopped.", ("seconds",)),
    Event("events cannot be written", WARNING, "No Events are written during the pause.", ("error", "pause")),
    Event("event dropped", DEBUG, "One Event could not be written.", ("error",)),
    Event("status port certificate reloaded", INFO, "The files of the certificate changed.", ("file",)),
    Event("status port certificate not reloaded", WARNING, "The files of the certificate cannot be used.",
          ("error",)),
    Event("status port token review failed", WARNING, "The API server did not answer.", ("error",)),
    Event("status request failed", ERROR, "Internal error of the status port (please report).",
          ("path", "exception")),
    Event("device metrics failed", ERROR, "Internal error of the device metrics (please report).",
          ("exception",)),
)  # fmt: skip

EVENTS: Mapping[str, Event] = {
    event.name: event for event in (*DECISION_EVENTS, *RECONCILE_EVENTS, *PROCESS_EVENTS)
}


COMMON = ("timestamp", "level", "logger", "event")
"""The fields of every line"""

Types = type | tuple[type, ...]

OTHER_FIELDS: Mapping[str, tuple[Types, str]] = {
    "cause": (str, "conflict: another client wrote first; retry: the API server was busy or unreachable"),
    "compared": (int, "number of comparisons"),
    "config_map": (str, "NAMESPACE/NAME of a ConfigMap"),
    "context": (str, "context of the kubeconfig; empty without one"),
    "counted": (int, "claims that this process counted"),
    "device_class": (str, "DeviceClass of what a template asks for"),
    "digest": (str, "identifies a demand"),
    "drain_seconds": ((int, float), "seconds that started writes had to complete"),
    "dropped": (int, "bytes dropped"),
    "error": (str, "error message"),
    "event": (str, "name of the event; it determines the other fields"),
    "exception": (str, "traceback without the values of variables"),
    "field": (str, "path of a field in the object"),
    "file": (str, "path of a file"),
    "findings": (int, "findings of the doctor"),
    "gate": (str, "the feature gate that the field belongs to; empty if none is known"),
    "gates": (list, "feature gates that are off on the API server"),
    "holder": (str, "holder of the Lease"),
    "identity": (str, "name under which this process holds the Lease"),
    "job": (str, "the job that failed"),
    "kind": (str, "Kubernetes kind"),
    "kinds": (list, "Kubernetes kinds"),
    "lease": (str, "NAMESPACE/NAME of a Lease"),
    "level": (str, "debug, info, warning or error"),
    "logger": (str, "the module that wrote the line"),
    "name": (str, "NAMESPACE/NAME or NAME of an object"),
    "nominees": (list, "what room is held for: kind and NAMESPACE/NAME of each"),
    "not_served": (list, "kinds that the API server does not serve"),
    "objects": (int, "number of listed objects"),
    "others": (list, "Leases of the other shards"),
    "path": (str, "path of the request"),
    "paths": (str, "served paths"),
    "pause": ((int, float), "seconds until the retry"),
    "pools": (int, "number of pools with a finding"),
    "reason": (str, "why an object cannot be read"),
    "refused": (int, "number of objects that cannot be read"),
    "remedy": (str, "how to fix it"),
    "seconds": ((int, float), "timeout in seconds"),
    "server": (str, "URL of the API server"),
    "shapes": (int, "shapes of the demand"),
    "shard": (str, "definition of the shard"),
    "template": (str, "the ResourceClaimTemplate: NAMESPACE/NAME"),
    "timestamp": (str, "time in UTC, ISO 8601 with microseconds"),
    "unit": (str, "the reconciled object: `claim NAMESPACE/NAME` or `pod NAMESPACE/NAME`"),
    "until": (str, "time at which the wait ends, RFC 3339"),
    "url": (str, "URL of the status port"),
    "wait_seconds": ((int, float), "seconds to wait, from this line on"),
    "why": ((str, list), "cause"),
}
"""Fields of the lines that are not decisions, unless a decision has a field of the same meaning"""


def described_fields(kinds: Iterable[type[Decision]]) -> dict[str, tuple[tuple[type, ...], str]]:
    """Field -> types and meaning, of `OTHERS` and of the fields that decisions declare.

    The meanings of a field that differ between lines are joined.
    """
    types: dict[str, dict[type, None]] = {}
    meanings: dict[str, dict[str, None]] = {}
    declared = [
        (one.name, one.logged.json, one.logged.meaning) for kind in kinds for one in kind.logged_fields()
    ]
    for name, json, meaning in [*declared, *((name, *what) for name, what in OTHER_FIELDS.items())]:
        types.setdefault(name, {}).update(dict.fromkeys(json if isinstance(json, tuple) else (json,)))
        meanings.setdefault(name, {})[meaning] = None
    return {
        name: (tuple(types[name]), "; ".join(meanings[name]))
        for name in [*COMMON, *sorted(types.keys() - set(COMMON))]
    }


FIELDS = described_fields(DECISIONS)
