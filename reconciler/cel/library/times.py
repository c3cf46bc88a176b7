"""Durations and timestamps, to the nanosecond, and the texts of doubles."""

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

from reconciler.cel.errors import CelError
from reconciler.cel.types import Library
from reconciler.cel.values import INT_MAX, INT_MIN, Duration, Timestamp


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
        return plain_text(value)
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if scale < 0 else '+'}{abs(scale):02d}"


def plain_text(value: float) -> str:
    """The shortest text that parses to a finite `value`, without an exponent."""
    return format(Decimal(repr(value)).normalize(), "f")


LIBRARY = Library()

SECOND = 10**9
"""Nanoseconds."""
_UNITS = {"h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
_UNITS["μs"] = 10**3  # with the Greek letter
_PART = r"([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(h|ms|us|µs|μs|ns|m|s)"
_DURATION = re.compile(rf"([+-]?)((?:{_PART})+|0)", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)T([01]?\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d+))?"
    r"(?:Z|([+-])([01]\d|2[0-4]):([0-5]\d))",
    re.ASCII,
)
_ZONE_NUMBER = re.compile(r"[+-]?[0-9]{1,4}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62135596800, 253402300799
_MAX_TEXT = 200


def _duration(nanos: int) -> Duration:
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelError("time out of range")
    return Duration(nanos)


def _timestamp(nanos: int, offset: int = 0) -> Timestamp:
    if not _FIRST <= nanos // SECOND <= _LAST:
        raise CelError("time out of range")
    return Timestamp(nanos, offset)


def parse_duration(text: str) -> Duration:
    """Parse a duration such as `1h30m`. Raises CelError."""
    match = _DURATION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise CelError(f"{text[:_MAX_TEXT]!r} is not a duration such as 1h30m")
    nanos = 0
    for number, unit in re.findall(_PART, match[2]):
        whole, _, part = number.partition(".")
        # As Go: the fraction goes through a double.
        nanos += int(whole or "0") * _UNITS[unit] + int(int(part or "0") * (_UNITS[unit] / 10 ** len(part)))
    return _duration(-nanos if match[1] == "-" else nanos)


def parse_timestamp(text: str) -> Timestamp:
    """Parse an RFC 3339 time, as Go does: an hour may have one digit, a comma may begin the fraction.

    Raises CelError.
    """
    match = _TIMESTAMP.fullmatch(text[:_MAX_TEXT])
    try:
        day = date.fromisoformat(match[1] if match else "")
    except ValueError:
        match = None
    if match is None:
        raise CelError(f"{text[:_MAX_TEXT]!r} is not a timestamp such as 2024-01-31T12:00:00Z")
    _, hour, minute, second, fraction, sign, hours, minutes = match.groups()
    offset = (int(hours or 0) * 3600 + int(minutes or 0) * 60) * (-1 if sign == "-" else 1)
    seconds = (day - _EPOCH.date()).days * 86400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return _timestamp((seconds - offset) * SECOND + int((fraction or "")[:9].ljust(9, "0")), offset)


def duration_text(value: Duration) -> str:
    """Seconds, as CEL prints them."""
    whole, part = divmod(abs(value.nanos), SECOND)
    text = plain_text(whole + part / SECOND)
    return f"-{text}s" if value.nanos < 0 else f"{text}s"


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339, in the time zone that it was written in."""
    there = _in_zone(value, timezone(timedelta(seconds=value.offset)))
    nanos = value.nanos % SECOND
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    sign, minutes = "-" if value.offset < 0 else "+", abs(value.offset) // 60
    zone = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}" if value.offset else "Z"
    return f"{there.year:04d}{there:-%m-%dT%H:%M:%S}{fraction}{zone}"


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    """A time zone by name or offset. Raises CelError."""
    hours, colon, minutes = name.partition(":")
    if not colon:
        try:
            return ZoneInfo(name or "UTC")
        except (KeyError, OSError, ValueError):
            raise CelError(f"unknown time zone {name[:_MAX_TEXT]}") from None
    if not (_ZONE_NUMBER.fullmatch(hours) and _ZONE_NUMBER.fullmatch(minutes)):
        raise CelError(f"{name[:_MAX_TEXT]!r} is not an offset such as +02:00")
    sign = -1 if name[0] == "-" else 1
    offset = timedelta(minutes=int(hours) * 60 + sign * int(minutes))
    if abs(offset) >= timedelta(days=1):
        raise CelError(f"the offset {name!r} is not below a day")
    return timezone(offset)


def _in_zone(value: Timestamp, zone: tzinfo) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=value.nanos // SECOND)).astimezone(zone)
    except OverflowError:
        raise CelError("time out of range") from None


def _looking_up(_: Timestamp, zone: str = "") -> int:
    return 50 if zone else 0  # an unknown zone is looked up in files


def _getter(name: str, read: Callable[[datetime], int]) -> None:
    @LIBRARY.member(name, "timestamp -> int", "timestamp, string -> int", cost=_looking_up)
    def get(value: Timestamp, zone: str = "UTC") -> int:
        return read(_in_zone(value, _zone(zone)))


_getter("getFullYear", lambda value: value.year)
_getter("getMonth", lambda value: value.month - 1)
_getter("getDate", lambda value: value.day)
_getter("getDayOfMonth", lambda value: value.day - 1)
_getter("getDayOfWeek", lambda value: value.isoweekday() % 7)
_getter("getDayOfYear", lambda value: value.timetuple().tm_yday - 1)
_getter("getHours", lambda value: value.hour)
_getter("getMinutes", lambda value: value.minute)
_getter("getSeconds", lambda value: value.second)


@LIBRARY.member("getMilliseconds", "timestamp -> int", "timestamp, string -> int", cost=_looking_up)
def _milliseconds(value: Timestamp, zone: str = "UTC") -> int:
    _zone(zone)
    return value.nanos % SECOND // 10**6


def _total(name: str, unit: int) -> None:
    LIBRARY.member(name, "duration -> int")(
        lambda value: value.nanos // unit if value.nanos >= 0 else -(-value.nanos // unit)
    )


_total("getHours", 3600 * SECOND)
_total("getMinutes", 60 * SECOND)
_total("getSeconds", SECOND)
_total("getMilliseconds", 10**6)


def added(left: Duration | Timestamp, right: Duration | Timestamp) -> Duration | Timestamp:
    """A sum of which at most one side is a timestamp. Raises CelError."""
    if isinstance(right, Timestamp):
        left, right = right, left
    nanos = left.nanos + right.nanos
    return _timestamp(nanos, left.offset) if isinstance(left, Timestamp) else _duration(nanos)


def subtracted(left: Duration | Timestamp, right: Duration | Timestamp) -> Duration | Timestamp:
    """A difference; a duration unless only the left side is a timestamp. Raises CelError."""
    nanos = left.nanos - right.nanos
    if isinstance(left, Timestamp) and not isinstance(right, Timestamp):
        return _timestamp(nanos, left.offset)
    return _duration(nanos)


def timestamp_of(seconds: int) -> Timestamp:
    """So many seconds after 1970. Raises CelError."""
    return _timestamp(seconds * SECOND)
