"""URLs, read as Go's net/url reads the URI of a request: an absolute URL or an absolute path."""

import re
from dataclasses import replace
from ipaddress import IPv6Address
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from reconciler.cel.errors import CelError
from reconciler.cel.types import Library, readable
from reconciler.cel.values import Url, Value

LIBRARY = Library()

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USER = re.compile(r"[a-zA-Z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_NO_HOST = re.compile(r"[ /?@#\\^`{|}]|%(?!25)[0-7]")
"""What a host does not have: some characters, and escapes of ASCII other than a percent sign."""
_PLAIN_IN_PATH = "$&+,/:;=@-_.~"
_ALLOWED_IN_PATH = re.compile(r"[a-zA-Z0-9!$&'()*+,;=:@\[\]%/._~-]*", re.ASCII)
_SHOWN = 64
"""Characters of a bad argument that a message quotes."""


def parse(text: str) -> Url:
    """Parse a URL. Raises CelError."""
    try:
        return _parse(text)
    except ValueError:
        raise CelError(f"{text[:_SHOWN]!r} is not a URL") from None


def _parse(text: str) -> Url:
    if not text or _CONTROL.search(text):
        raise ValueError(text)
    scheme, rest = "", text
    if match := _SCHEME.match(text):
        scheme, rest = match[1].lower(), text[match.end() :]
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme and text != "*":
            raise ValueError(text)
        return Url(text, scheme, "", text if text == "*" else "", query)
    host, path = "", rest
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        host, path = _host(authority), slash + path
    _without_bad_escape(path)
    return Url(text, scheme, host, path, query)


def _without_bad_escape(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise ValueError(text)
    return text


def _host(authority: str) -> str:
    """The host and port of an authority, after what names a user."""
    user, _, host = authority.rpartition("@")
    if _USER.fullmatch(_without_bad_escape(user)) is None:
        raise ValueError(authority)
    _without_bad_escape(host)
    if host.startswith("["):
        address, bracket, port = host[1:].rpartition("]")
        address, zone, _ = address.partition("%25")
        if not bracket or "%" in address:
            raise ValueError(authority)
        IPv6Address(address)
    else:
        _, colon, port = host.partition(":")
        zone, port = "", colon + port
    if _PORT.fullmatch(port) is None or (not zone and _NO_HOST.search(host)):
        raise ValueError(authority)
    return unquote_to_bytes(host).decode(errors="replace")


LIBRARY.function("isURL", "string -> bool", cost=lambda text: len(text) // 10)(readable(parse))


@LIBRARY.function("url", "string -> URL", cost=lambda text: len(text) // 10)
def url(text: str) -> Url:
    """Parse a URL, and take its fragment away. Raises CelError."""
    parse(text)
    whole, _, fragment = text.partition("#")
    if _BAD_ESCAPE.search(fragment):
        raise CelError(f"{text[:_SHOWN]!r} is not a URL")
    if whole.startswith("//") and not whole.startswith("///"):  # a host without a scheme
        try:
            without_scheme = _parse(f"x:{whole}")
        except ValueError:
            raise CelError(f"{text[:_SHOWN]!r} is not a URL") from None
        return replace(without_scheme, text=text, scheme="")
    return replace(parse(whole), text=text)


LIBRARY.member("getScheme", "URL -> string")(lambda address: address.scheme)
LIBRARY.member("getHost", "URL -> string")(lambda address: address.host)


@LIBRARY.member("getEscapedPath", "URL -> string", cost=lambda address: len(address.path) // 10)
def escaped_path(address: Url) -> str:
    """The path as written if it needs no further escapes."""
    if address.path == "*" or _ALLOWED_IN_PATH.fullmatch(address.path):
        return address.path
    return quote(unquote_to_bytes(address.path), safe=_PLAIN_IN_PATH)


def _split(host: str) -> tuple[str, str]:
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and _PORT.fullmatch(f":{port}") else (host, "")


@LIBRARY.member("getHostname", "URL -> string", cost=lambda address: len(address.host) // 10)
def hostname(address: Url) -> str:
    """The host without its port and brackets, as written."""
    name, _ = _split(address.host)
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


@LIBRARY.member("getPort", "URL -> string", cost=lambda address: len(address.host) // 10)
def port(address: Url) -> str:
    """The port as written, or the empty string."""
    return _split(address.host)[1]


@LIBRARY.member("getQuery", "URL -> map(string, list(string))", cost=lambda address: len(address.query) // 10)
def query(address: Url) -> dict[str, Value]:
    """Each parameter with its values. Parameters that cannot be read are left out."""
    found: dict[str, list[str]] = {}
    for pair in address.query.split("&"):
        if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
            name, _, value = pair.partition("=")
            found.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return {name: tuple(values) for name, values in found.items()}
