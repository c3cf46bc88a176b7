"""Every event that is logged, with its fields. docs/logs.md is made from it.

The lines of decisions are declared on their classes. The others are declared here; a test holds the code to
them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reconciler.control.decisions.decisions import DECISIONS as KINDS
from reconciler.control.decisions.decisions import Decision
from reconciler.control.decisions.declaration import Level

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


def events_of(kind: type[Decision]) -> Iterator[Event]:
    """The log lines of a kind of decision."""
    found = list(kind.logged_fields())
    fields = tuple(one.name for one in found if not one.logged.optional)
    maybe = tuple(one.name for one in found if one.logged.optional)
    for line in kind.LINES:
        yield Event(line.event, line.level, line.meaning or kind.meaning(), fields, maybe)


DECISIONS = (
    *(event for kind in KINDS for event in events_of(kind)),
    Event("claim explained", INFO, "What stands in the way of claims that wait, worked out afterwards.",
          ("claims", "reason", "why", "remedy", "decision_id")),
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
