"""Every field of the log lines: the type of its JSON value, and what it is."""

from collections.abc import Iterable, Mapping

from reconciler.control.decisions.decisions import DECISIONS, Decision

COMMON = ("timestamp", "level", "logger", "event")
"""The fields that every line has"""

Types = type | tuple[type, ...]

OTHERS: Mapping[str, tuple[Types, str]] = {
    "timestamp": (str, "time in UTC, ISO 8601 with microseconds"),
    "level": (str, "debug, info, warning or error"),
    "logger": (str, "the module that wrote the line"),
    "event": (str, "name of the event; everything below goes by it"),
    "cause": (str, "conflict: somebody wrote first; retry: the server was busy or away"),
    "compared": (int, "comparisons made"),
    "drain_seconds": ((int, float), "seconds that begun writes were given"),
    "dropped": (int, "bytes thrown away"),
    "error": (str, "what went wrong, in words"),
    "exception": (str, "traceback, without the values of variables"),
    "field": (str, "path in the object"),
    "file": (str, "path of a file"),
    "findings": (int, "findings of the doctor"),
    "gate": (str, "the feature gate that the field belongs to; empty if none is known"),
    "gates": (list, "feature gates that are off on the server"),
    "holder": (str, "who holds the Lease"),
    "identity": (str, "by which name this process holds the Lease"),
    "kind": (str, "Kubernetes kind"),
    "kinds": (list, "Kubernetes kinds"),
    "lease": (str, "NAMESPACE/NAME of a Lease"),
    "name": (str, "NAMESPACE/NAME, or NAME, of an object"),
    "not_served": (list, "kinds that the server does not serve"),
    "objects": (int, "objects in a listing"),
    "others": (list, "shards, by their Leases"),
    "path": (str, "path of a request"),
    "paths": (str, "paths that are served"),
    "pause": ((int, float), "seconds until it is tried again"),
    "pools": (int, "pools with something wrong"),
    "reason": (str, "why an object cannot be read"),
    "refused": (int, "objects that cannot be read"),
    "remedy": (str, "what to do about it"),
    "seconds": ((int, float), "seconds"),
    "server": (str, "URL of the API server"),
    "shard": (str, "definition of a shard"),
    "unit": (str, "what a turn is about: `claim NAMESPACE/NAME` or `pod NAMESPACE/NAME`"),
    "url": (str, "where something is served"),
    "wait_seconds": ((int, float), "seconds that the next leader still has to wait"),
    "why": ((str, list), "for what cause"),
}
"""The fields of lines that are no decisions, as far as decisions do not have the same"""


def described(kinds: Iterable[type[Decision]]) -> dict[str, tuple[tuple[type, ...], str]]:
    """Field -> types and meaning: those of `OTHERS` and those that decisions declare.

    What a field means in one line and what it means in another stand side by side.
    """
    types: dict[str, dict[type, None]] = {}
    meanings: dict[str, dict[str, None]] = {}
    declared = [
        (one.name, one.logged.json, one.logged.meaning) for kind in kinds for one in kind.logged_fields()
    ]
    for name, json, meaning in [*declared, *((name, *what) for name, what in OTHERS.items())]:
        types.setdefault(name, {}).update(dict.fromkeys(json if isinstance(json, tuple) else (json,)))
        meanings.setdefault(name, {})[meaning] = None
    return {
        name: (tuple(types[name]), "; ".join(meanings[name]))
        for name in [*COMMON, *sorted(types.keys() - set(COMMON))]
    }


FIELDS = described(DECISIONS)
