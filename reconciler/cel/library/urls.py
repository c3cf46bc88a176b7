"""URLs: absolute URLs and absolute paths."""

import re
from urllib.parse import parse_qs, quote, urlsplit

from reconciler.cel.errors import CelError
from reconciler.cel.functions import Library
from reconciler.cel.opaque import Url
from reconciler.cel.values import Value

LIBRARY = Library()

_ABSOLUTE = re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:)?/[^\x00-\x20\x7f]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_PLAIN = "/%:@!$&'()*+,;=~[]"
_SHOWN = 64
"""Characters of a bad argument that a message quotes."""


@LIBRARY.function("url", "string -> URL", cost=lambda text: len(text) // 10)
def url(text: str) -> Url:
    """Parse a URL."""
    try:
        parts = urlsplit(text, allow_fragments=False)
        valid = parts.port is None or parts.port >= 0
    except ValueError:
        valid = False
    if not valid or _ABSOLUTE.fullmatch(text) is None or _BAD_ESCAPE.search(parts.netloc + parts.path):
        raise CelError(f"{text[:_SHOWN]!r} is not a URL")
    return Url(text, parts)


@LIBRARY.function("isURL", "string -> bool", cost=lambda text: len(text) // 10)
def is_url(text: str) -> bool:
    """Whether `url` can parse it."""
    try:
        url(text)
    except CelError:
        return False
    return True


LIBRARY.member("getScheme", "URL -> string")(lambda address: address.parts.scheme)
LIBRARY.member("getHost", "URL -> string")(lambda address: address.parts.netloc.rpartition("@")[2])
LIBRARY.member("getEscapedPath", "URL -> string")(lambda address: quote(address.parts.path, safe=_PLAIN))


@LIBRARY.member("getHostname", "URL -> string")
def hostname(address: Url) -> str:
    """The host without its port and brackets, as written."""
    host = address.parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


@LIBRARY.member("getPort", "URL -> string")
def port(address: Url) -> str:
    """The port as written, or the empty string."""
    host = address.parts.netloc.rpartition("@")[2]
    return host.rpartition(":")[2] if ":" in host.rpartition("]")[2] else ""


@LIBRARY.member(
    "getQuery", "URL -> map(string, list(string))", cost=lambda address: len(address.parts.query) // 10
)
def query(address: Url) -> dict[str, Value]:
    """Each parameter with its values."""
    return {
        name: tuple(values) for name, values in parse_qs(address.parts.query, keep_blank_values=True).items()
    }
