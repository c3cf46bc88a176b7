"""Which class, and which of its devices, an extended resource stands for."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from reconciler.api.manifests.parsing import ParseError, parse_yaml
from reconciler.api.objects.claims import DeviceClass
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
