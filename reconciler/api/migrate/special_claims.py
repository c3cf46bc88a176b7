"""Which class an extended resource stands for, and the special claim that kube-scheduler makes for
extended resources of a pod.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reconciler.api.manifests.parsing import ParseError, parse_yaml
from reconciler.api.objects.claims import SPECIAL_CLAIM, DeviceClass, ResourceClaim
from reconciler.api.objects.core import Container, ExtendedResourceClaimStatus, Pod
from reconciler.api.objects.gangs import gang_of
from reconciler.api.objects.quantity import INT64_MAX, NANO, Quantity
from reconciler.api.objects.semantics import EXTENDED_RESOURCES, Semantics
from reconciler.api.versions import reading
from reconciler.api.versions.kinds import KINDS
from reconciler.errors import Malformed

MOST = 32
"""Devices of one claim"""


IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Prefix of the name of a class: the extended resource that Kubernetes gives to each class (EXT-1)"""
_MIG = "nvidia.com/mig-"
_MIG_CLASS = "mig.nvidia.com"
_MIG_LABEL = f"{_MIG_CLASS}-"
_MIG_PROFILE = re.compile(r"([0-9]+g\.[0-9]+gb)(?:\.(me|me\.all|gfx)|-me)?")
"""As NVIDIA's device plugin writes profiles: `.` for `+`, and of what has all slices of its instance alone"""
_KNOWN = {"nvidia.com/gpu": "gpu.nvidia.com"}
"""Resources of common device plugins -> the class that the vendor's DRA driver installs"""
_FIELDS = ("class", "selector", "name")


class Wanted(NamedTuple):
    """What a request asks for instead of a resource."""

    device_class: str
    selector: str = ""
    """An expression in addition to those of the class; empty for none"""
    name: str = ""
    """Part of the names of claims and templates in place of the class; empty for the class"""

    @property
    def label(self) -> str:
        """What names the devices."""
        return self.name or self.device_class


class Resources(NamedTuple):
    """All known resources."""

    named: Mapping[str, Wanted]
    """Of a mapping file, or else of the classes, or else of common device plugins"""

    def wanted(self, resource: str) -> Wanted | None:
        """What a resource stands for; None if that is unknown."""
        if resource in self.named:
            return self.named[resource]
        if resource.startswith(IMPLICIT):
            return Wanted(resource.removeprefix(IMPLICIT))
        profile = _profile(resource, _MIG)
        return mig(profile) if profile else None

    def labelled(self, label: str) -> Wanted:
        """What names of templates begin with a label for; if nothing does, a class of that name."""
        for wanted in self.named.values():
            if wanted.label == label:
                return wanted
        profile = _profile(label, _MIG_LABEL)
        return mig(profile) if profile else Wanted(label)


def mig(profile: str) -> Wanted:
    """The partition of a MIG profile; the device plugin writes `.` for `+`, as in `.gfx`, and keeps `-me`."""
    found = _MIG_PROFILE.fullmatch(profile)
    written = f"{found[1]}+{found[2]}" if found and found[2] else profile
    return Wanted(
        _MIG_CLASS, f'device.attributes["gpu.nvidia.com"].profile == "{written}"', f"{_MIG_LABEL}{profile}"
    )


def _profile(text: str, prefix: str) -> str:
    """The MIG profile after a prefix; empty if there is none."""
    profile = text.removeprefix(prefix)
    return profile if profile != text and _MIG_PROFILE.fullmatch(profile) else ""


def class_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """The class that names each extended resource: of several the newest, then the first by name (EXT-1)."""
    ordered = sorted(classes, key=lambda one: one.key.name, reverse=True)
    ordered.sort(key=lambda one: str(one.metadata.creation_timestamp or ""))
    return {
        one.spec.extended_resource_name: one.key.name for one in ordered if one.spec.extended_resource_name
    }


def mapping(
    classes: Iterable[DeviceClass], file: Mapping[str, Any] | None = None, where: str = ""
) -> Resources:
    """The mapping of a file, with the classes' `extendedResourceName` for what it does not name.

    Raises Malformed for a file of another shape, or with a name that templates for other devices have.
    """
    found = {resource: Wanted(name) for resource, name in class_by_resource(classes).items()}
    known = {resource: Wanted(name) for resource, name in _KNOWN.items()}
    given = _read(file, where)
    others = {resource: wanted for resource, wanted in {**known, **found}.items() if resource not in given}
    _check_labels(given, others, where)
    return Resources({**others, **given})


def _read(file: Mapping[str, Any] | None, where: str) -> Mapping[str, Wanted]:
    if file is None:
        return {}
    entries = file.get("resources") if isinstance(file, Mapping) else None
    if not isinstance(entries, Mapping):
        raise Malformed(where, "resources", "must be a map from resources to {class: NAME, selector: CEL}")
    made: dict[str, Wanted] = {}
    for resource, one in entries.items():
        field = f"resources[{resource}]"
        if not isinstance(one, Mapping) or not isinstance(one.get("class"), str) or not one["class"]:
            raise Malformed(where, field, "needs a class, such as {class: gpu.example.com}")
        if unknown := sorted(map(str, {*one} - {*_FIELDS})):
            raise Malformed(where, field, f"unknown field {unknown[0]}; known: {', '.join(_FIELDS)}")
        if not all(isinstance(value, str) for value in one.values()):
            raise Malformed(where, field, "selector and name must be texts")
        if one.get("selector") and not one.get("name"):
            raise Malformed(where, field, "a selector needs a name, by which its templates are named")
        made[str(resource)] = Wanted(one["class"], one.get("selector", ""), one.get("name", ""))
    return made


def _check_labels(given: Mapping[str, Wanted], others: Mapping[str, Wanted], where: str) -> None:
    """Raise Malformed if an entry of the file names its templates as those of other devices are named."""
    first: dict[str, tuple[str, Wanted]] = {wanted.label: (of, wanted) for of, wanted in others.items()}
    for resource, wanted in given.items():
        profile = _profile(wanted.label, _MIG_LABEL)
        if profile and f"{_MIG}{profile}" not in given:
            first[wanted.label] = (f"{_MIG}{profile}", mig(profile))
        of, before = first.setdefault(wanted.label, (f"resources[{resource}]", wanted))
        if before[:2] != wanted[:2]:
            raise Malformed(
                where,
                f"resources[{resource}]",
                f"templates are named by {wanted.label}, as those of {of}, which stands for other devices; "
                "give one of the two another name",
            )


def read_map(path: Path | None) -> Mapping[str, Any] | None:
    """The content, for `mapping`, which checks it; None without a file. Raises Malformed."""
    if path is None:
        return None
    try:
        found = parse_yaml(path.read_text(encoding="utf-8"))
    except (ParseError, UnicodeDecodeError) as exc:
        raise Malformed(str(path), "", f"is not YAML: {exc}") from exc
    except OSError as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc.strerror}") from exc
    return found if isinstance(found, dict) else {}


ALWAYS = "Always"


def served_by_classes(pod: Pod, classes: Mapping[str, Any]) -> dict[str, str]:
    """Extended resource that a pod requests -> the class that serves it (EXT-1). `classes` are by name."""
    if not pod.may_ask_for_extended_resources:
        return {}
    wanted = {
        name for one in pod.spec.all_containers for name in _asked(one) if "/" in name and _devices(one, name)
    }
    found = class_by_resource(classes.values())
    found |= {f"{IMPLICIT}{name}": name for name in classes}
    return {name: found[name] for name in sorted(wanted) if name in found}


OFF, UNSAFE = "ExtendedResourcesOff", "ExtendedResourcesUnsafe"
"""The reasons if kube-scheduler makes no claim, and if it may take devices that others give away."""
REMEDY = "rewrite the pod with dra-reconciler migrate"


class Unserved(NamedTuple):
    """Why a pod gets no devices for its extended resources, whatever is free."""

    reason: str
    message: str


def unserved(pod: Pod, classes: Mapping[str, Any], rules: Semantics) -> Unserved | None:
    """What stands against the special claim of a pod; None if nothing does, or if it needs none."""
    served = served_by_classes(pod, classes)
    if not served:
        return None
    names = ", ".join(served)
    if not rules.has(EXTENDED_RESOURCES):
        why = f"kube-scheduler makes no claim for {names} while the feature gate {EXTENDED_RESOURCES} is off"
        return Unserved(OFF, f"{why}; {REMEDY}")
    if gang_of(pod) is not None:
        why = f"kube-scheduler chooses the devices for {names}, so they cannot be decided with a gang"
        return Unserved(UNSAFE, f"{why}; {REMEDY}")
    return None


def special_claim(pod: Pod, served: Mapping[str, str]) -> dict[str, Any]:
    """The claim for the resources of a pod that classes serve, without the suffix that a server adds."""
    metadata: dict[str, Any] = {
        "name": special_name(pod),
        "namespace": pod.key.namespace,
        "annotations": {SPECIAL_CLAIM: "true"},
    }
    if pod.metadata.uid:  # an owner reference needs a uid
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.key.name, "uid": pod.metadata.uid}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    found: dict[str, Any] = {}
    for resource, device_class in served.items():
        for at, count in requests_for(pod, resource)[0].items():
            exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
            found[_name(pod, at, resource)] = exactly
    requests = [{"name": name, "exactly": found[name]} for name in sorted(found)]
    return {
        "apiVersion": KINDS["ResourceClaim"].in_shape[0],
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests}},
    }


def is_special(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is, or would be, made by kube-scheduler for extended resources."""
    return SPECIAL_CLAIM in (claim["metadata"].get("annotations") or {})


def request_mappings(pod: Pod, served: Iterable[str]) -> list[dict[str, str]]:
    """Which request of the special claim is for which container, as the status of the pod says it."""
    return [
        {
            "containerName": pod.spec.all_containers[user].name,
            "resourceName": resource,
            "requestName": _name(pod, at, resource),
        }
        for resource in served
        for user, at in requests_for(pod, resource)[1]
    ]


def requests_for(pod: Pod, resource: str) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """`shared_requests` of one extended resource of a pod."""
    counts = [_devices(one, resource) for one in pod.spec.all_containers]
    ending = [at for at, one in enumerate(pod.spec.init_containers) if one.restart_policy != ALWAYS]
    return shared_requests(counts, ending)


def shared_requests(
    counts: Sequence[int], ending: Sequence[int]
) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Container -> devices of the request that is named after it, and pairs of a container and a container
    whose request it uses (EXT-3). `counts` are the devices of each container.

    Init containers that end use what containers after them need anyway, and only one request for the rest.
    """
    made = {at: count for at, count in enumerate(counts) if count and at not in ending}
    uses = [(at, at) for at in made]
    lacking: dict[int, int] = {}
    brief: list[tuple[int, int]] = []
    for at in ending:
        left = counts[at]
        for later, count in made.items():
            if later > at and left > 0:
                brief.append((at, later))
                left -= count
        if left > 0:
            lacking[at] = left
            brief.append((at, at))
    if lacking:
        most = max(lacking, key=lacking.__getitem__)  # the first of equal ones
        made[most] = lacking[most]
        brief = [(user, most if at == user else at) for user, at in brief]
    return made, uses + brief


def with_special_claim(pod: Pod, name: str) -> Pod:
    """The pod as kube-scheduler leaves it once it has made its special claim."""
    found = ExtendedResourceClaimStatus(resource_claim_name=name)
    return pod.replacing("status", extended_resource_claim_status=found)


def typed_special_claim(pod: Pod, served: Mapping[str, str]) -> ResourceClaim:
    """`special_claim` as an object. No claim on a server has its uid."""
    claim = reading.typed(special_claim(pod, served))
    assert isinstance(claim, ResourceClaim)
    return claim.replacing("metadata", uid=f"special {pod.metadata.uid}")


def special_name(pod: Pod) -> str:
    """The name of the claim, without the random suffix of a server."""
    return f"{pod.key.name}-extended-resources"


def _name(pod: Pod, at: int, resource: str) -> str:
    container = pod.spec.all_containers[at]
    return f"container-{at}-request-{sorted(_asked(container)).index(resource)}"


def _asked(container: Container) -> Mapping[str, Quantity]:
    """The requests, as a server completes them from the limits."""
    return {**container.resources.limits, **container.resources.requests}


def _devices(container: Container, resource: str) -> int:
    """How many devices a container asks for; 0 for what is negative or not whole, as in kube-scheduler."""
    asked = _asked(container).get(resource)
    if asked is None or asked.nanos % NANO:
        return 0
    return min(max(asked.nanos // NANO, 0), INT64_MAX)
