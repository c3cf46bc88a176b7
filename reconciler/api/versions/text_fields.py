"""What the fast readers share: objects cut into fields as text, which are decoded once for equal texts."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from msgspec import UNSET, Raw, UnsetType
from pydantic_core import from_json

from reconciler.api.objects.meta import ApiObject
from reconciler.api.versions.reading import read

MAX_CACHED_BYTES = 1 << 14
"""Maximum bytes of a cached text. Environments and opaque parameters may be of any size"""

T = TypeVar("T")


class ObjectText(Protocol):
    """An object of which the kind and version are decoded."""

    kind: str
    api_version: str | UnsetType


C = TypeVar("C", bound=ObjectText)


def cut_object(
    text: bytes, cut: Callable[[bytes], C], kind: str, api_versions: Collection[str], *, default: str
) -> C | None:
    """The fields of an object; None if it is of another kind or version. `default` is the version of an
    object that names none. Raises ValueError and MsgspecError.
    """
    if not text.isascii():
        text.decode()  # also checks the fields that are not decoded
    found = cut(text)
    version = default if found.api_version is UNSET else found.api_version
    return found if found.kind == kind and version in api_versions else None


def with_spec(text: bytes, kind: str, api_version: str) -> ApiObject:
    """An object with this spec, as `reading` reads it. Raises Malformed and ValueError."""
    return read({
        "kind": kind, "apiVersion": api_version, "metadata": {"name": "any"}, "spec": from_json(text),
    })  # fmt: skip


def once(decode: Callable[[bytes], T], size: int, longest: int = MAX_CACHED_BYTES) -> Callable[[bytes], T]:
    """Decodes each distinct text once, but for those of more bytes than `longest`.

    Of `size` texts the least recently used is dropped first.
    """
    cached = lru_cache(size)(decode)
    return lambda text: cached(text) if len(text) <= longest else decode(text)


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
