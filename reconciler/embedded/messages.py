"""What goes into the server and what comes out, without sockets."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Header names are looked up as they are usually written: Accept, Content-Type."""

    method: str
    path: str
    """Percent-decoded, without the query."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stream:
    """A watch: chunks of whole lines, one event a line, until the server ends it. Always status 200."""

    chunks: AsyncGenerator[bytes, None]
    content_type: str = "application/json"
