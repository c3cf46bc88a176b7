"""Durations and timestamps, to the microsecond, and the texts of doubles.

Time zones are offsets; names of zones are not supported.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from reconciler.api.validation import fields
from reconciler.cel.errors import CelError
from reconciler.cel.types import Library


def double_text(value: float) -> str:
    """The shortest text that parses to `value`; with an exponent below 1e-4 and from 1e6."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    scale = len(text) + int(exponent) - 1
    if value == 0:
        return "-0" if sign else "0"
    if -4 <= scale < 6:
        return format(Decimal(repr(value)).normalize(), "f")
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if scale < 0 else '+'}{abs(scale):02d}"


def plain_text(value: float) -> str:
    """The shortest text that parses to `value`, without an exponent."""
    return format(Decimal(repr(value)).normalize(), "f") if math.isfinite(value) else double_text(value)


LIBRARY = Library()

_UNITS = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "ns": 1,
}
_PART = r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(h|ms|us|µs|ns|m|s)"
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+|0)", re.ASCII)
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_MAX_TEXT = 200
_MAX_NANOS = 2**63 - 1


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as `1h30m`. Raises CelError."""
    match = _DURATION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise CelError(f"{text[:_MAX_TEXT]!r} is not a duration such as 1h30m")
    nanos = 0
    for number, unit in re.findall(_PART, match[2]):
        whole, _, part = number.partition(".")
        nanos += int(whole or "0") * _UNITS[unit] + int(part or "0") * _UNITS[unit] // 10 ** len(part)
    if nanos > _MAX_NANOS:
        raise CelError(f"{text!r} is longer than the longest duration")
    span = timedelta(microseconds=nanos // 1000)
    return -span if match[1] == "-" else span


def parse_timestamp(text: str) -> datetime:
    """Parse an RFC 3339 time. Raises CelError."""
    try:
        return fields.parse_timestamp(text)
    except ValueError:
        raise CelError(f"{text[:_MAX_TEXT]!r} is not a timestamp such as 2024-01-31T12:00:00Z") from None


def duration_text(value: timedelta) -> str:
    """Seconds, as CEL prints them."""
    micros = value // timedelta(microseconds=1)
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    whole, part = divmod(micros, 10**6)
    return f"{sign}{whole}" + (f".{part:06d}".rstrip("0") if part else "") + "s"


def timestamp_text(value: datetime) -> str:
    """RFC 3339 in UTC."""
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{value.year:04d}{value:-%m-%dT%H:%M:%S}{fraction}Z"


def _zone(name: str) -> timezone:
    if name in ("UTC", "GMT", "Z"):
        return UTC
    match = _OFFSET.fullmatch(name)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise CelError(f"time zone {name[:_MAX_TEXT]!r} is not supported; use an offset such as +02:00")
    span = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-span if match[1] == "-" else span)


def _getter(name: str, read: Callable[[datetime], int]) -> None:
    @LIBRARY.member(name, "timestamp -> int", "timestamp, string -> int")
    def get(value: datetime, zone: str = "UTC") -> int:
        try:
            return read(value.astimezone(_zone(zone)))
        except OverflowError:
            raise CelError("time out of range") from None


_getter("getFullYear", lambda value: value.year)
_getter("getMonth", lambda value: value.month - 1)
_getter("getDate", lambda value: value.day)
_getter("getDayOfMonth", lambda value: value.day - 1)
_getter("getDayOfWeek", lambda value: value.isoweekday() % 7)
_getter("getDayOfYear", lambda value: value.timetuple().tm_yday - 1)
_getter("getHours", lambda value: value.hour)
_getter("getMinutes", lambda value: value.minute)
_getter("getSeconds", lambda value: value.second)
_getter("getMilliseconds", lambda value: value.microsecond // 1000)


def _total(name: str, unit: timedelta) -> None:
    LIBRARY.member(name, "duration -> int")(lambda value: int(value / unit))


_total("getHours", timedelta(hours=1))
_total("getMinutes", timedelta(minutes=1))
_total("getSeconds", timedelta(seconds=1))
_total("getMilliseconds", timedelta(milliseconds=1))
