"""Timestamps as the API writes them: UTC, whole seconds."""

import re
from datetime import UTC, datetime

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


def timestamp(moment: datetime) -> str:
    """`moment` in RFC 3339."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """Parse a time in RFC 3339, no other form of ISO 8601: to the microsecond, in UTC. Raises ValueError."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("not a time in RFC 3339")
    fraction = (match[2] or "")[:6].ljust(6, "0")
    zone = "+00:00" if match[3] == "Z" else match[3]
    try:
        return datetime.fromisoformat(f"{match[1]}.{fraction}{zone}").astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("before the year 1 or after the year 9999") from exc


def age(since: str, now: datetime) -> str:
    """The age in the short form of kubectl tables."""
    if not since:
        return "<unknown>"
    seconds = max(int((now - parse_timestamp(since)).total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
