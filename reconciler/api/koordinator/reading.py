"""JSON to Device objects."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.koordinator.device import Device
from reconciler.api.objects.validating import subject_of, validated
from reconciler.errors import Malformed

GROUP = "scheduling.koordinator.sh"
VERSION = "v1alpha1"


def is_device(raw: Mapping[str, Any]) -> bool:
    """Whether this is a Device of any version."""
    group = str(raw.get("apiVersion") or "").rpartition("/")[0]
    return raw.get("kind") == "Device" and group == GROUP


def read_device(raw: Mapping[str, Any]) -> Device:
    """The typed object. Raises Malformed."""
    given = raw.get("apiVersion")
    if given != f"{GROUP}/{VERSION}":
        raise Malformed(subject_of(raw), "apiVersion", f"{given} is not supported; use {GROUP}/{VERSION}")
    return validated(Device, raw)
