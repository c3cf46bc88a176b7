"""The requests and responses of the server, without sockets."""

from collections.abc import AsyncGenerator, Mapping, Sequence

from msgspec import Struct, field


class Request(Struct, frozen=True):
    """One HTTP request. Header names have their usual case: Accept, Content-Type."""

    method: str
    path: str
    """Percent-decoded, without the query."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    groups: Sequence[str] = ()
    """The values of `Impersonate-Group`, the only header that clients repeat."""


class Response(Struct, frozen=True):
    """A complete response."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Stream(Struct, frozen=True):
    """A watch: chunks of complete lines, one event per line, until the server ends it. Status 200."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str = "application/json"
