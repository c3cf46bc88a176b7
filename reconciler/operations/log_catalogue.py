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
    Event("reconcile will be retried", INFO, "After a conflict, or if the API server is busy or unreachable.",
          ("unit", "cause", "error", "pause")),
    Event("write rejected", WARNING, "A permission may be missing.", ("unit", "error", "pause")),
    Event("reconcile failed", ERROR, "A claim or pod failed; it is retried.", ("unit", "pause", "exception")),
    Event("object is gone", DEBUG, "The object to write was deleted.", ("unit", "error")),
    Event("invalid object ignored", WARNING, "It cannot be read. All others are used.",
          ("kind", "name", "reason")),
    Event("volumes not considered", INFO, "Because of --without-volumes.", ("pod",)),
    Event("invalid Koordinator devices ignored", WARNING,
          "Part of a Device or of a pod's annotation cannot be read.", ("kind", "name", "reason")),
    Event("fencing writes of the previous leader", INFO,
          "Claims that the previous leader may still write get a new version.", ("claims",)),
    Event("cannot fence claim", WARNING, "The process waits until the write deadline instead.",
          ("claim", "error")),
    Event("explanation failed", ERROR, "An explanation failed.", ("unit", "decision_id", "exception")),
    Event("eviction not allowed now", INFO, "By a budget, or the API server is busy. It is retried.",
          ("pod", "error", "pause")),
    Event("others asked to end the pod (preview)", INFO,
          "An EvictionRequest; evicted after `pause` seconds.", ("pod", "pause")),
    Event("eviction requests (preview) not withdrawn yet", INFO, "It is retried.", ("error",)),
    Event("plan to make room failed", ERROR, "A plan to evict failed; nobody is evicted.",
          ("unit", "exception")),
    Event("making room failed", ERROR, "An eviction failed; held room expires.", ("exception",)),
    Event("rebalancing failed", ERROR, "A move failed; the held place expires.", ("exception",)),
    Event("budgets not considered", INFO,
          "Advice on moves ignores PodDisruptionBudgets: no right to read them.", ("error",)),
    Event("job failed", ERROR, "A task of a plugin failed; it is retried.", ("job", "name", "exception")),
    Event("hint not written", DEBUG, "Of status.nominatedNodeName.", ("pod", "error")),
)  # fmt: skip

PROCESS_EVENTS = (
    Event("reconciling", INFO, "Discovery is done; watches start.", ("kinds",)),
    Event("ResourceClaims are not served", INFO, "Only Koordinator's devices are allocated.",
          ("not_served", "gates")),
    Event("API server lacks kinds or feature gates", INFO,
          "`not_served` and `gates` name them.", ("not_served", "gates")),
    Event("cluster", INFO, "The first line.", ("server", "context")),
    Event("status served", INFO, "The status port listens.", ("url", "paths")),
    Event("stopped", INFO, "The process ends."),
    Event("stopped before the API server answered", INFO, "The process ends."),
    Event("writes aborted by drain timeout", WARNING, "Writes took too long at the end.", ("drain_seconds",)),
    Event("shadow summary", INFO, "Shadow mode, at the end: comparisons by outcome.", ("compared",), ("*",)),
    Event("standby, another process holds the lease", INFO,
          "It takes the Lease after `wait_seconds` without a renewal.", ("lease", "holder", "wait_seconds")),
    Event("waiting before allocation starts", INFO, "It allocates once no earlier leader can write any more.",
          ("lease", "why", "wait_seconds", "until")),
    Event("lease acquired, taking over", INFO, "Claims are listed again before the first decision.",
          ("lease", "identity")),
    Event("became leader", INFO, "This process allocates from now on.", ("lease",)),
    Event("held room taken over", INFO, "Held until the same deadline.", ("nominees",)),
    Event("lost leadership", WARNING, "Another process holds the Lease; this one writes nothing.",
          ("lease", "holder")),
    Event("lease request failed", WARNING, "The request is retried.", ("lease", "error")),
    Event("invalid lease ignored", WARNING, "A Lease has impossible values; defaults apply.",
          ("lease", "why")),
    Event("lease released", INFO, "Another process may lead at once.", ("lease", "wait_seconds")),
    Event("lease not released", INFO,
          "Another holds it, or the API server did not answer.", ("lease", "error")),
    Event("lease not released, it will expire", WARNING, "Then another process leads.", ("error",)),
    Event("shard overlaps with another, allocation stopped", ERROR,
          "Two shards would own a device. Change one.", ("shard", "others")),
    Event("journal stopped", WARNING, "It cannot be written. It is tried again every minute.",
          ("file", "error")),
    Event("journal resumed", INFO, "It is written again, to a new file.", ("file",)),
    Event("API server is busy, start delayed", WARNING, "It is asked again after the pause.",
          ("error", "pause")),
    Event("hard question not kept", WARNING, "Of --keep-hard-questions.", ("path", "error")),
    Event("policy comparison failed", ERROR, "A comparison failed.", ("exception",)),
    Event("demand learnt", INFO, "Policies keep room for a new demand.", ("shapes", "digest", "counted")),
    Event("template made", INFO, "For a rewritten pod.", ("template", "device_class", "devices")),
    Event("template not made", WARNING, "A rewritten pod waits for it. It is retried.",
          ("template", "error", "remedy")),
    Event("learnt demand refused", WARNING, "The demand cannot be read. Learning starts anew.",
          ("config_map", "error")),
    Event("shape of the demand refused", WARNING,
          "Part of a demand cannot be read. The rest is used.", ("error",)),
    Event("learnt demand not kept", WARNING, "Its ConfigMap cannot be read or written.",
          ("config_map", "error", "remedy")),
    Event("held room not written down", WARNING,
          "Its ConfigMap cannot be read or written: a restart ends the room.",
          ("config_map", "error", "remedy")),
    Event("held room not taken over", WARNING, "A record of the previous leader cannot be read.",
          ("config_map", "error")),
    Event("admission check not written", WARNING, "The API server rejected it. It is retried.",
          ("name", "error")),
    Event("provisioning request not written", WARNING,
          "The API server rejected it. It is retried.", ("error",)),
    Event("listed", DEBUG, "All objects of a kind were listed.", ("kind", "objects", "refused")),
    Event("watch stream ended within a line", DEBUG, "A watch ended inside an event.", ("dropped",)),
    Event("API server certificate is not verified", WARNING, "As the flag or the kubeconfig says.",
          ("server",)),
    Event("API server dropped a field", WARNING, "A feature gate may be off there.",
          ("field", "gate", "claim")),
    Event("claim is not managed", WARNING, "Embedded server: it has neither our label nor a gated pod.",
          ("claim",)),
    Event("doctor run finished", INFO, "All checks ran.", ("findings", "pools")),
    Event("doctor run failed", WARNING, "It could not read the cluster.", ("error",)),
    Event("doctor run timed out", WARNING, "It took too long.", ("seconds",)),
    Event("events cannot be written", WARNING, "None are written during the pause.", ("error", "pause")),
    Event("event dropped", DEBUG, "It could not be written.", ("error",)),
    Event("status port certificate reloaded", INFO, "Its files changed.", ("file",)),
    Event("status port certificate not reloaded", WARNING, "Its files cannot be used.", ("error",)),
    Event("status port token review failed", WARNING, "The API server did not answer.", ("error",)),
    Event("malformed status requests", WARNING,
          "The status port got what is not HTTP; at most one line a minute.", ("refused", "error")),
    Event("status request failed", ERROR, "The status port failed.", ("path", "exception")),
    Event("device metrics failed", ERROR, "Device metrics failed.", ("exception",)),
)  # fmt: skip

EVENTS: Mapping[str, Event] = {
    event.name: event for event in (*DECISION_EVENTS, *RECONCILE_EVENTS, *PROCESS_EVENTS)
}


COMMON = ("timestamp", "level", "logger", "event")
"""The fields of every line"""

Types = type | tuple[type, ...]

_PLAIN: Mapping[Types, str] = {
    int: "compared dropped findings objects pools refused",
    str: "context device_class error exception field file gate job kind logger path paths remedy server "
    "shard url",
    (int, float): "drain_seconds seconds",
    list: "kinds not_served",
}
"""Fields of each type that are as their names say"""
OTHER_FIELDS: Mapping[str, tuple[Types, str]] = {
    **{name: (of, "as the name says") for of, names in _PLAIN.items() for name in names.split()},
    "cause": (str, "conflict, or retry: the API server was busy or unreachable"),
    "config_map": (str, "NAMESPACE/NAME"),
    "counted": (int, "claims that this process counted"),
    "digest": (str, "identifies a demand"),
    "event": (str, "name of the event"),
    "gates": (list, "feature gates that are off"),
    "holder": (str, "a process, as its Lease names it"),
    "identity": (str, "a process, as its Lease names it"),
    "lease": (str, "NAMESPACE/NAME"),
    "level": (str, "debug, info, warning or error"),
    "name": (str, "NAMESPACE/NAME or NAME of an object"),
    "nominees": (list, "what room is held for"),
    "others": (list, "Leases of other shards"),
    "pause": ((int, float), "seconds until the retry"),
    "reason": (str, "why an object cannot be read"),
    "shapes": (int, "how many of a demand"),
    "template": (str, "NAMESPACE/NAME"),
    "timestamp": (str, "time in UTC, ISO 8601 with microseconds"),
    "unit": (str, "`claim NAMESPACE/NAME` or `pod NAMESPACE/NAME`"),
    "until": (str, "time at which the wait ends, RFC 3339"),
    "wait_seconds": ((int, float), "seconds to wait, from this line on"),
    "why": ((str, list), "the cause"),
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
