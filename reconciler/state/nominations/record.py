"""Nominations as JSON: for the journal, and for the record that other processes read."""

import json
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NamedTuple

from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.errors import Malformed
from reconciler.state.nominations.nomination import HeldPlace, Nomination, Nominee, NomineeKind

MAX_LENGTH = 2**19
"""Characters of a record: a ConfigMap holds twice as much"""
MAX_NOMINATIONS = 1_000
"""Nominations of one record"""


class Record(NamedTuple):
    """The nominations in a text, without what cannot be read."""

    nominations: tuple[Nomination, ...] = ()
    """They never expire by themselves: `until` is infinite"""
    refused: tuple[Malformed, ...] = ()
    """One for each nomination that is left out"""


def as_json(nomination: Nomination) -> dict[str, Any]:
    """A nomination. The deadline by the clock of the process is left out."""
    return {
        "nominee": nominee_as_json(nomination.nominee),
        "places": list(map(place_as_json, nomination.places)),
        "priority": nomination.priority,
        "deadline": nomination.deadline,
        "uid": nomination.uid,
    }


def place_as_json(place: HeldPlace) -> dict[str, Any]:
    """What is held on one node."""
    devices = [list(device) for device in place.devices]
    return {"node": place.node, "devices": devices, "room": dict(place.room)}


def nominee_as_json(nominee: Nominee) -> list[str]:
    """For whom room is held."""
    return [str(nominee.kind), *nominee.key, nominee.source]


def nomination_of(raw: Mapping[str, Any]) -> Nomination:
    """A nomination that `as_json` wrote, which never expires by itself."""
    return Nomination(
        nominee=nominee_of(raw["nominee"]),
        places=tuple(map(place_of, raw["places"])),
        priority=raw["priority"],
        until=inf,
        deadline=raw["deadline"],
        uid=raw["uid"],
    )


def place_of(raw: Mapping[str, Any]) -> HeldPlace:
    """What is held on one node."""
    devices = tuple(DeviceID(*device) for device in raw["devices"])
    return HeldPlace(raw["node"], devices, tuple(raw["room"].items()))


def nominee_of(raw: Iterable[str]) -> Nominee:
    """For whom room is held."""
    kind, namespace, name, source = raw
    return Nominee(NomineeKind(kind), ObjectKey(namespace, name), source)


def text_of(nominations: Iterable[Nomination]) -> str:
    """A record of them, the first of them if it would be too long. `read_record` reads it."""
    texts: list[str] = []
    length = 0
    for one in nominations:
        text = json.dumps(as_json(one), separators=(",", ":"))
        length += len(text) + 1
        if length > MAX_LENGTH - 2 or len(texts) == MAX_NOMINATIONS:
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def read_record(text: str, source: str) -> Record:
    """The nominations of a record from outside. One that cannot be read is refused alone.

    Raises Malformed, naming `source`, if it is no record.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(source, "", f"is longer than {MAX_LENGTH} characters; empty it")
    try:
        raws = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Malformed(source, "", "must be JSON; empty it") from exc
    if not isinstance(raws, list) or len(raws) > MAX_NOMINATIONS:
        raise Malformed(source, "", f"must be a list of at most {MAX_NOMINATIONS} nominations; empty it")
    found, refused = [], []
    for number, raw in enumerate(raws):
        try:
            _check(raw)
            found.append(nomination_of(raw))
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            why = f"is not a nomination ({type(exc).__name__}: {exc}); it is left out"
            refused.append(Malformed(source, f"[{number}]", why))
    return Record(tuple(found), tuple(refused))


def _check(raw: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError where a field has another type than `as_json` writes."""
    texts = [*raw["nominee"], raw["deadline"], raw["uid"]]
    numbers = [raw["priority"]]
    for place in raw["places"]:
        texts += [place["node"], *(part for device in place["devices"] for part in device), *place["room"]]
        amounts = place["room"].values()
        numbers += amounts
        if any(isinstance(amount, int) and amount < 0 for amount in amounts):
            raise ValueError("room must not be negative")  # the node would have more of it
    if not raw["places"]:
        raise ValueError("places must not be empty")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{text!r} must be a string")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"{number!r} must be an integer")
        if not -(2**63) < number < 2**63:
            raise ValueError(f"{number} is out of range")
