"""Functions that Kubernetes adds: quantities, versions, IP addresses and CIDR prefixes."""

import re
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface

from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError
from reconciler.cel.types import Library, readable
from reconciler.cel.values import INT_MAX, INT_MIN, Computed, Value

LIBRARY = Library()

_BINARY = ("Quantity, Quantity -> {}", "Semver, Semver -> {}")


@LIBRARY.function("quantity", "string -> Quantity")
def quantity(text: str) -> Quantity:
    """Parse a quantity."""
    try:
        return Quantity.parse(text)
    except ValueError as exc:
        raise CelError(str(exc)) from None


LIBRARY.function("isQuantity", "string -> bool")(readable(quantity))


@LIBRARY.function("semver", "string -> Semver", "string, bool -> Semver")
def semver(text: str, normalize: bool = False) -> Semver:
    """Parse a version, leniently with `normalize` (CEL-16)."""
    try:
        return Semver.parse_leniently(text) if normalize else Semver.parse(text)
    except ValueError as exc:
        raise CelError(str(exc)) from None


LIBRARY.function("isSemver", "string -> bool", "string, bool -> bool")(readable(semver))


def _compared(a: Value, b: Value) -> int:
    left, right = (each.nanos if isinstance(each, Quantity) else each for each in (a, b))
    return int(left > right) - int(left < right)


LIBRARY.member("isGreaterThan", *(form.format("bool") for form in _BINARY))(lambda a, b: _compared(a, b) > 0)
LIBRARY.member("isLessThan", *(form.format("bool") for form in _BINARY))(lambda a, b: _compared(a, b) < 0)
LIBRARY.member("compareTo", *(form.format("int") for form in _BINARY))(_compared)
LIBRARY.member("major", "Semver -> int")(lambda version: version.major)
LIBRARY.member("minor", "Semver -> int")(lambda version: version.minor)
LIBRARY.member("patch", "Semver -> int")(lambda version: version.patch)

LIBRARY.member("add", "Quantity, Quantity -> Quantity")(lambda a, b: Computed(a.nanos + b.nanos, a.format))
LIBRARY.member("sub", "Quantity, Quantity -> Quantity")(lambda a, b: Computed(a.nanos - b.nanos, a.format))
LIBRARY.member("add", "Quantity, int -> Quantity")(lambda a, n: Computed(a.nanos + n * NANO, a.format))
LIBRARY.member("sub", "Quantity, int -> Quantity")(lambda a, n: Computed(a.nanos - n * NANO, a.format))
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
        raise CelError(f"{text[:_LONGEST]!r}: a zone or a mapped IPv4 address is not accepted")
    return address


@LIBRARY.function("cidr", "string -> CIDR")
def cidr(text: str) -> Prefix:
    """Parse an address with a prefix length."""
    host, slash, length = text[:_LONGEST].partition("/")
    address = ip(host)
    if _PREFIX_LENGTH.fullmatch(slash + length) is None or int(length) > address.max_prefixlen:
        raise CelError(f"{text[:_LONGEST]!r} is not a CIDR")
    return ip_interface(f"{address}/{length}")


LIBRARY.function("isIP", "string -> bool")(readable(ip))
LIBRARY.function("isCIDR", "string -> bool")(readable(cidr))
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


def contains_ip(prefix: Prefix, address: Address) -> bool:
    """Whether the address is in the prefix."""
    return address in prefix.network


def contains_cidr(prefix: Prefix, other: Prefix) -> bool:
    """Whether this prefix contains the whole other prefix."""
    return other.network.prefixlen >= prefix.network.prefixlen and other.ip in prefix.network


LIBRARY.member("containsIP", "CIDR, string -> bool")(lambda prefix, text: contains_ip(prefix, ip(text)))
LIBRARY.member("containsIP", "CIDR, IP -> bool")(contains_ip)
LIBRARY.member("containsCIDR", "CIDR, string -> bool")(lambda prefix, text: contains_cidr(prefix, cidr(text)))
LIBRARY.member("containsCIDR", "CIDR, CIDR -> bool")(contains_cidr)
LIBRARY.member("ip", "CIDR -> IP")(lambda prefix: prefix.ip)
LIBRARY.member("prefixLength", "CIDR -> int")(lambda prefix: prefix.network.prefixlen)
LIBRARY.member("masked", "CIDR -> CIDR")(lambda prefix: ip_interface(str(prefix.network)))
