"""Names that an API server accepts. Source: rules V-1 and V-4."""

import re
from collections.abc import Iterable, Iterator

from reconciler.api.versions.shapes import Raw, mapping, mappings

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_IDENTIFIER = 32

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_label(text: str) -> bool:
    """Whether this is a DNS label: the name of a device, a counter set or a counter."""
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether this is a DNS subdomain: the name of a slice."""
    return len(text) <= MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Whether the name of an attribute or capacity is valid after its domain."""
    name = text.rpartition("/")[2]
    return len(name) <= MAX_IDENTIFIER and _IDENTIFIER.fullmatch(name) is not None


def invalid_names(spec: Raw) -> Iterator[str]:
    """The names in a slice with flat devices that servers reject, one line for each kind of name."""
    devices = mappings(spec.get("devices"))
    names = (device.get("name") for device in devices)
    yield from _line("device", (name for name in names if isinstance(name, str) and not is_label(name)))
    for kind, field in (("attribute", "attributes"), ("capacity", "capacity")):
        # Each once: thousands of devices have the same few.
        keys = dict.fromkeys(key for device in devices for key in mapping(device.get(field)))
        yield from _line(kind, (key for key in keys if not is_key(str(key))))


def _line(kind: str, names: Iterable[str]) -> Iterator[str]:
    found = list(dict.fromkeys(names))
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{kind} {found[0]}{more}: invalid name; `dra-reconciler convert` fixes it"
