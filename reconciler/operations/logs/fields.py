"""Every field of the log lines: the type of its JSON value, and its meaning."""

from collections.abc import Iterable, Mapping

from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import DECISIONS

COMMON = ("timestamp", "level", "logger", "event")
"""The fields of every line"""

Types = type | tuple[type, ...]

OTHERS: Mapping[str, tuple[Types, str]] = {
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


def described(kinds: Iterable[type[Decision]]) -> dict[str, tuple[tuple[type, ...], str]]:
    """Field -> types and meaning, of `OTHERS` and of the fields that decisions declare.

    The meanings of a field that differ between lines are joined.
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
