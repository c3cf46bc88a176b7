"""What the ConfigMap says: which room is held, and for how long yet."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from reconciler.state.nominations.nomination import Nomination
from reconciler.state.nominations.record import Record, read_record

HELD_ROOM = "heldRoom"
"""The key in its data: the nominations as JSON"""


def read_held_room(data: Mapping[str, str], source: str) -> Record:
    """The nominations in the data of the ConfigMap `source`. Raises Malformed as `read_record` does."""
    return read_record(data[HELD_ROOM], f"{source} {HELD_ROOM}") if HELD_ROOM in data else Record()


def still_held(nominations: Iterable[Nomination], now: datetime) -> Iterator[tuple[Nomination, float]]:
    """Those whose deadline has not passed by the time of day, each with the seconds that are left."""
    for one in nominations:
        try:
            deadline = datetime.fromisoformat(one.deadline)
        except ValueError:
            continue  # nobody could say when it ends
        aware = deadline if deadline.tzinfo is not None else deadline.replace(tzinfo=UTC)
        if (seconds := (aware - now).total_seconds()) > 0:
            yield one, seconds
