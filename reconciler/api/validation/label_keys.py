"""Label keys in affinity and spread of pods: the API server adds them to the selectors of a new pod."""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

Json = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def merge_label_keys(pod: Json) -> None:
    """Add `matchLabelKeys` and `mismatchLabelKeys` with the pod's own labels to the selectors, in place."""
    labels = _mapping(_mapping(pod.get("metadata")).get("labels"))
    for term in _terms(_mapping(pod.get("spec"))):
        selector = term.get("labelSelector")
        if not isinstance(selector, dict):  # no selector selects nothing, whatever the keys
            continue
        added = [
            *_requirements(term.get("matchLabelKeys"), "In", labels),
            *_requirements(term.get("mismatchLabelKeys"), "NotIn", labels),
        ]
        if added:
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def with_label_keys(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """A pod of a manifest as the API server would store it. One with a uid was stored already."""
    if _mapping(pod.get("metadata")).get("uid") or not any(
        term.get("matchLabelKeys") or term.get("mismatchLabelKeys")
        for term in _terms(_mapping(pod.get("spec")))
    ):
        return pod
    copied = deepcopy(dict(pod))
    merge_label_keys(copied)
    return copied


def _terms(spec: Mapping[str, Any]) -> Iterator[Json]:
    """Everything with a selector and label keys. What has another shape is left to validation."""
    affinity = _mapping(spec.get("affinity"))
    for kind in ("podAffinity", "podAntiAffinity"):
        of_kind = _mapping(affinity.get(kind))
        yield from _objects(of_kind.get(_REQUIRED))
        for weighted in _objects(of_kind.get(_PREFERRED)):
            yield from _objects([weighted.get("podAffinityTerm")])
    yield from _objects(spec.get("topologySpreadConstraints"))


def _requirements(keys: object, operator: str, labels: Mapping[str, Any]) -> list[Json]:
    found = keys if isinstance(keys, list) else ()
    return [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for key in found
        if isinstance(key, str) and key in labels
    ]


def _objects(value: object) -> Iterable[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else ()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
