"""Syntax of names and keys (rules V-1 to V-5). Each check adds its causes to the given field."""

import re

from reconciler.api.validation.fields import Field

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def is_dns_label(text: str) -> bool:
    """V-1."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """V-1."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_label_name(text: str) -> bool:
    """The key of a label: an optional DNS subdomain and a slash, then a short name."""
    domain, slash, name = text.rpartition("/")
    return (is_dns_subdomain(domain) if slash else True) and is_label_value(name) and name != ""


def is_label_value(text: str) -> bool:
    """The value of a label; may be empty."""
    return text == "" or (len(text) <= 63 and _LABEL_NAME.fullmatch(text) is not None)


def dns_label(field: Field) -> None:
    """A mandatory DNS label."""
    if not field.text():
        field.required()
    elif not is_dns_label(field.text()):
        field.invalid(
            "must be a DNS label: at most 63 lower case letters, digits and '-', with no '-' at either end"
        )


def dns_subdomain(field: Field) -> None:
    """A mandatory DNS subdomain."""
    if not field.text():
        field.required()
    elif not is_dns_subdomain(field.text()):
        field.invalid("must be a DNS subdomain: DNS labels joined by dots, at most 253 characters")


def driver_name(field: Field) -> None:
    """V-2: checked in lower case, stored as written."""
    text = field.text()
    if not text:
        field.required()
    elif len(text.encode()) > 63:
        field.too_long(63)
    elif not is_dns_subdomain(text.lower()):
        field.invalid("must be a DNS subdomain")


def pool_name(field: Field) -> None:
    """V-3."""
    text = field.text()
    if not text:
        field.required()
    elif len(text.encode()) > 253:
        field.too_long(253)
    elif not all(is_dns_subdomain(part) for part in text.split("/")):
        field.invalid("must be DNS subdomains joined by slashes")


def qualified_name(field: Field, text: str) -> None:
    """V-4: the key of an attribute or a capacity; causes are added to `field`."""
    domain, slash, name = text.rpartition("/")
    if slash and not (len(domain.encode()) <= 63 and is_dns_subdomain(domain.lower())):
        field.invalid("the domain must be a DNS subdomain of at most 63 bytes")
    if len(name.encode()) > 32:
        field.too_long(32)
    elif not _IDENTIFIER.fullmatch(name):
        field.invalid("the name must be a C identifier")


def fully_qualified_name(field: Field) -> None:
    """V-5."""
    if "/" not in field.text():
        field.invalid("must include a domain")
    else:
        qualified_name(field, field.text())


def label_name(field: Field) -> None:
    """The mandatory key of a label or taint."""
    if not field.text():
        field.required()
    elif not is_label_name(field.text()):
        field.invalid("must be a label name: an optional DNS subdomain and '/', then at most 63 characters")


def label_value(field: Field) -> None:
    """The value of a label or taint."""
    if not is_label_value(field.text()):
        field.invalid("must be a label value: at most 63 letters, digits, '-', '_' and '.'")
