"""The libraries that Kubernetes adds: quantities, versions, IP addresses, URLs, named formats."""

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import date
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface
from urllib.parse import parse_qs, quote, urlsplit

from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError
from reconciler.cel.library.times import parse_timestamp
from reconciler.cel.types import Library
from reconciler.cel.values import INT_MAX, INT_MIN, NOTHING, Format, Option, Url, Value

LIBRARY = Library()

_BINARY = ("Quantity, Quantity -> {}", "Semver, Semver -> {}")


@LIBRARY.function("quantity", "string -> Quantity")
def quantity(text: str) -> Quantity:
    """Parse a quantity."""
    try:
        return Quantity.parse(text)
    except ValueError as exc:
        raise CelError(str(exc)) from None


@LIBRARY.function("isQuantity", "string -> bool")
def is_quantity(text: str) -> bool:
    """Whether `quantity` can parse it."""
    try:
        Quantity.parse(text)
    except ValueError:
        return False
    return True


@LIBRARY.function("semver", "string -> Semver", "string, bool -> Semver")
def semver(text: str, normalize: bool = False) -> Semver:
    """Parse a version, leniently with `normalize` (CEL-16)."""
    try:
        return Semver.parse_leniently(text) if normalize else Semver.parse(text)
    except ValueError as exc:
        raise CelError(str(exc)) from None


@LIBRARY.function("isSemver", "string -> bool", "string, bool -> bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    """Whether `semver` can parse it."""
    try:
        semver(text, normalize)
    except CelError:
        return False
    return True


LIBRARY.member("isGreaterThan", *(form.format("bool") for form in _BINARY))(lambda a, b: a > b)
LIBRARY.member("isLessThan", *(form.format("bool") for form in _BINARY))(lambda a, b: a < b)
LIBRARY.member("compareTo", *(form.format("int") for form in _BINARY))(lambda a, b: int(a > b) - int(a < b))
LIBRARY.member("major", "Semver -> int")(lambda version: version.major)
LIBRARY.member("minor", "Semver -> int")(lambda version: version.minor)
LIBRARY.member("patch", "Semver -> int")(lambda version: version.patch)

LIBRARY.member("add", "Quantity, Quantity -> Quantity")(lambda a, b: a + b)
LIBRARY.member("sub", "Quantity, Quantity -> Quantity")(lambda a, b: a - b)
LIBRARY.member("add", "Quantity, int -> Quantity")(lambda a, whole: a + Quantity.of(whole))
LIBRARY.member("sub", "Quantity, int -> Quantity")(lambda a, whole: a - Quantity.of(whole))
LIBRARY.member("asApproximateFloat", "Quantity -> double")(lambda a: a.nanos / NANO)
LIBRARY.function("sign", "Quantity -> int")(lambda a: (a.nanos > 0) - (a.nanos < 0))


@LIBRARY.member("isInteger", "Quantity -> bool")
def is_integer(amount: Quantity) -> bool:
    """Whether it is an integer that fits in 64 bits (CEL-13, as recommended there)."""
    whole, part = divmod(amount.nanos, NANO)
    return part == 0 and INT_MIN <= whole <= INT_MAX


@LIBRARY.member("asInteger", "Quantity -> int")
def as_integer(amount: Quantity) -> int:
    """The integer value. Raises CelError if it is not one."""
    if not is_integer(amount):
        raise CelError(f"{amount} is not an integer of 64 bits")
    return amount.nanos // NANO


Address = IPv4Address | IPv6Address
Prefix = IPv4Interface | IPv6Interface

_PREFIX_LENGTH = re.compile(r"/(?:0|[1-9][0-9]{0,2})", re.ASCII)
_BROADCAST = IPv4Address("255.255.255.255")
_LONGEST = 64
"""Characters. Longer than any address, so that a truncated text is still invalid."""


@LIBRARY.function("ip", "string -> IP")
def ip(text: str) -> Address:
    """Parse an address; zones and IPv4-mapped IPv6 addresses are refused."""
    try:
        address = ip_address(text[:_LONGEST])
    except ValueError:
        raise CelError(f"{text[:_LONGEST]!r} is not an IP address") from None
    if "%" in text or (isinstance(address, IPv6Address) and address.ipv4_mapped is not None):
        raise CelError(f"{text!r}: a zone or a mapped IPv4 address is not accepted")
    return address


@LIBRARY.function("cidr", "string -> CIDR")
def cidr(text: str) -> Prefix:
    """Parse an address with a prefix length."""
    host, slash, length = text[:_LONGEST].partition("/")
    address = ip(host)
    if _PREFIX_LENGTH.fullmatch(slash + length) is None or int(length) > address.max_prefixlen:
        raise CelError(f"{text[:_LONGEST]!r} is not a CIDR")
    return ip_interface(f"{address}/{length}")


def _readable(read: Callable[[str], object]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            read(text)
        except CelError:
            return False
        return True

    return test


LIBRARY.function("isIP", "string -> bool")(_readable(ip))
LIBRARY.function("isCIDR", "string -> bool")(_readable(cidr))
LIBRARY.function("ip.isCanonical", "string -> bool")(lambda text: str(ip(text)) == text)
LIBRARY.function("string", "IP -> string")(str)
LIBRARY.function("string", "CIDR -> string")(str)

LIBRARY.member("family", "IP -> int")(lambda address: address.version)
LIBRARY.member("isUnspecified", "IP -> bool")(lambda address: address.is_unspecified)
LIBRARY.member("isLoopback", "IP -> bool")(lambda address: address.is_loopback)
LIBRARY.member("isLinkLocalUnicast", "IP -> bool")(lambda address: address.is_link_local)


@LIBRARY.member("isLinkLocalMulticast", "IP -> bool")
def is_link_local_multicast(address: Address) -> bool:
    """224.0.0.0/24, or an IPv6 multicast address of link scope."""
    octets = address.packed
    if address.version == 4:
        return octets[:3] == b"\xe0\x00\x00"
    return octets[0] == 0xFF and octets[1] & 0x0F == 0x02


@LIBRARY.member("isGlobalUnicast", "IP -> bool")
def is_global_unicast(address: Address) -> bool:
    """Not a special address; private addresses count as global."""
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


@LIBRARY.member("containsIP", "CIDR, IP -> bool")
def contains_ip(prefix: Prefix, address: Address) -> bool:
    """Whether the address is in the prefix."""
    return address in prefix.network


@LIBRARY.member("containsCIDR", "CIDR, CIDR -> bool")
def contains_cidr(prefix: Prefix, other: Prefix) -> bool:
    """Whether this prefix contains the whole other prefix."""
    return other.network.prefixlen >= prefix.network.prefixlen and other.ip in prefix.network


LIBRARY.member("containsIP", "CIDR, string -> bool")(lambda prefix, text: contains_ip(prefix, ip(text)))
LIBRARY.member("containsCIDR", "CIDR, string -> bool")(lambda prefix, text: contains_cidr(prefix, cidr(text)))
LIBRARY.member("ip", "CIDR -> IP")(lambda prefix: prefix.ip)
LIBRARY.member("prefixLength", "CIDR -> int")(lambda prefix: prefix.network.prefixlen)
LIBRARY.member("masked", "CIDR -> CIDR")(lambda prefix: ip_interface(str(prefix.network)))


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


Problems = tuple[str, ...]

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_MAX_SUBDOMAIN, _MAX_LABEL = 253, 63


def _shaped(pattern: re.Pattern[str], longest: int, shape: str) -> Callable[[str], Problems]:
    def problems(text: str) -> Problems:
        found: list[str] = []
        if len(text) > longest:
            found.append(f"must be no more than {longest} characters")
            text = text[:longest]
        if pattern.fullmatch(text) is None:
            found.append(f"must consist of {shape}")
        return tuple(found)

    return problems


def _prefix(problems: Callable[[str], Problems]) -> Callable[[str], Problems]:
    """The check for a prefix, which may end in a dash."""
    return lambda text: problems(text.removesuffix("-") + ("a" if text.endswith("-") else ""))


_label = _shaped(_LABEL, _MAX_LABEL, "lower case letters, digits and '-', no '-' at either end")
_label_1035 = _shaped(_LABEL_1035, _MAX_LABEL, "lower case letters, digits and '-', no '-' last")
_subdomain = _shaped(_SUBDOMAIN, _MAX_SUBDOMAIN, "lower case labels joined by '.'")
_name = _shaped(_NAME, _MAX_LABEL, "letters, digits, '-', '_' and '.', alphanumeric at both ends")


def _qualified_name(text: str) -> Problems:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ("must have at most one '/'",)
    return (_subdomain(prefix) if slash else ()) + _name(name)


def _described(read: Callable[[str], object], kind: str) -> Callable[[str], Problems]:
    def problems(text: str) -> Problems:
        try:
            read(text)
        except (CelError, ValueError):
            return (f"must be {kind}",)
        return ()

    return problems


def _uuid(text: str) -> None:
    if _UUID.fullmatch(text) is None:
        raise ValueError(text)


def _date(text: str) -> None:
    if len(text) != len("2024-01-31"):
        raise ValueError(text)
    date.fromisoformat(text)


_FORMATS = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _label_1035,
    "dns1123LabelPrefix": _prefix(_label),
    "dns1123SubdomainPrefix": _prefix(_subdomain),
    "dns1035LabelPrefix": _prefix(_label_1035),
    "qualifiedName": _qualified_name,
    "labelValue": lambda text: _name(text) if text else (),
    "uri": _described(url, "a URL"),
    "uuid": _described(_uuid, "a UUID"),
    "byte": _described(lambda text: b64decode(text, validate=True), "base64"),
    "date": _described(_date, "a date such as 2024-01-31"),
    "datetime": _described(parse_timestamp, "a time such as 2024-01-31T12:00:00Z"),
}
_NAMED = {name: Format(name, problems) for name, problems in _FORMATS.items()}


def _declare(name: str) -> None:
    LIBRARY.function(f"format.{name}", " -> Format")(lambda: _NAMED[name])


for _each in _NAMED:
    _declare(_each)


@LIBRARY.function("format.named", "string -> optional(Format)")
def named(name: str) -> Option:
    """The format of that name, if there is one."""
    found = _NAMED.get(name)
    return NOTHING if found is None else Option(True, found)


@LIBRARY.member("validate", "Format, string -> optional(list(string))", cost=lambda _, text: len(text) // 10)
def validate(form: Format, text: str) -> Option:
    """The errors of the text; none if it is valid."""
    problems = form.problems(text)
    return Option(True, problems) if problems else NOTHING
