"""The answer as values: the moves in order, what they gain, and what cannot be beaten."""

from msgspec import Struct

from reconciler.analysis.defragment.ended import Ended
from reconciler.analysis.defragment.picture import Cells
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference


class Move(Struct, frozen=True):
    """One pod to evict, and where its replacement fits."""

    pod: ObjectKey
    controller: OwnerReference
    claims: tuple[ObjectKey, ...]
    node: str
    devices: tuple[DeviceID, ...]
    """What it holds now"""
    to_node: str
    to_devices: tuple[DeviceID, ...]


class Step(Struct, frozen=True):
    """Moves that gain something together."""

    place: str
    """The counter set, group or node that gains"""
    gain: int
    moves: tuple[Move, ...]


class Picture(Struct, frozen=True):
    """One place before and after all moves."""

    place: str
    before: Cells
    after: Cells


class ProfileChange(Struct, frozen=True):
    """How many devices of one profile fit at once."""

    driver: str
    profile: str
    before: int
    after: int


class Answer(Struct, frozen=True):
    """The whole answer."""

    title: str
    """What is counted, in the singular"""
    before: int
    wanted: int
    """How much to gain"""
    gain: int
    most: int
    """No plan gains more"""
    fewest: int | None
    """No plan with this gain, or with the gain that was wanted, has fewer moves"""
    ended: tuple[Ended, ...]
    """Limits that left something untried; none if the bounds prove that no plan is better"""
    steps: tuple[Step, ...]
    pictures: tuple[Picture, ...]
    profiles: tuple[ProfileChange, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        """All moves, in order."""
        return tuple(move for step in self.steps for move in step.moves)

    @property
    def gave_up(self) -> bool:
        """Whether a better plan may have been left untried."""
        return bool(self.ended)

    @property
    def reached(self) -> bool:
        """Whether as much is gained as was wanted."""
        return self.gain >= self.wanted

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no plan has fewer moves."""
        return self.reached and len(self.moves) == (self.fewest or 0)
