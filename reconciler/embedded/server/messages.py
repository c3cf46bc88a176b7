"""The requests and responses of the server, without sockets."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Header names have their usual case: Accept, Content-Type."""

    method: str
    path: str
    """Percent-decoded, without the query."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    groups: Sequence[str] = ()
    """The values of `Impersonate-Group`, the only header that clients repeat."""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch: chunks of complete lines, one event per line, until the server ends it. Status 200."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str = "application/json"
