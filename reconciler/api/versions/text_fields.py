"""What the fast readers of nodes and pods share: fields as text, which are decoded once for equal texts."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import UNSET, Raw, UnsetType
from pydantic_core import from_json

MAX_CACHED_BYTES = 1 << 14
"""Maximum bytes of a cached text. Annotations and environments may be of any size"""

T = TypeVar("T")


class ObjectText(Protocol):
    """An object of which the kind and version are decoded."""

    kind: str
    api_version: str | UnsetType


C = TypeVar("C", bound=ObjectText)


def cut_object(
    text: bytes, cut: Callable[[bytes], C], kind: str, api_version: str, *, default: str
) -> C | None:
    """The fields of an object; None if it is of another kind or version. `default` is the version of an
    object that names none. Raises ValueError and MsgspecError.
    """
    if not text.isascii():
        text.decode()  # also checks the fields that are not decoded
    found = cut(text)
    version = default if found.api_version is UNSET else found.api_version
    return found if found.kind == kind and version == api_version else None


def text_of(field: Raw | UnsetType) -> bytes | None:
    """The text of a field, None if it is missing. Raises ValueError if it is too long to be cached."""
    if field is UNSET:
        return None
    found = bytes(field)
    if len(found) > MAX_CACHED_BYTES:
        raise ValueError("a field of unusual length")
    return found


def given(value: T | UnsetType) -> T | None:
    """A value, None if it is missing."""
    return None if value is UNSET else value


def decoded(texts: Mapping[str, bytes | None]) -> dict[str, Any]:
    """The values of the fields that are there, by their names."""
    return {name: from_json(text) for name, text in texts.items() if text is not None}
