"""What the loop asks of those who know the units of one kind: claims, or pods with Koordinator's devices.

The loop queues units, backs off, and keeps who is pending and why. A handler says what a unit asks for,
decides, assumes the decision, and writes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.decisions import Waits
from reconciler.control.queueing.units import Unit
from reconciler.control.queueing.waiting import Wants

Q = TypeVar("Q")
"""What is asked for a unit"""
G = TypeVar("G")
"""Devices for it"""
R = TypeVar("R")
"""Why there are none"""


@dataclass(frozen=True, slots=True)
class Idle:
    """The unit needs nothing, or it is somebody else's turn."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Something has to happen to the unit's own objects first. Their change brings the unit back."""

    waits: Waits
    counted: tuple[ObjectKey, ...]
    """What the unit counts as among those that are pending"""


@dataclass(frozen=True, slots=True)
class Act:
    """Something has to be written for which no devices have to be found."""

    write: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ask(Generic[Q]):
    """Devices have to be found."""

    question: Q


@dataclass(frozen=True, slots=True)
class Given(Generic[G]):
    """Yes: devices that are neither assumed nor written yet."""

    grant: G


@dataclass(frozen=True, slots=True)
class Refused(Generic[R]):
    """No, as things are."""

    refusal: R
    reason: str
    wants: Wants
    """Which changes are a reason to ask again before the back-off ends"""
    counted: tuple[ObjectKey, ...]
    """What the unit counts as among those that are pending"""


@dataclass(frozen=True, slots=True)
class Later:
    """No answer now: the unit has to ask again after so many seconds."""

    after: float = 0.0


class Decided(NamedTuple):
    """Under which name something was decided, and when its turn began, by the clock of the loop."""

    name: str
    began: float


class Handler(ABC, Generic[Q, G, R]):
    """Serves units of one kind. Every method may raise the errors of reading and writing."""

    async def warm_up(self) -> None:
        """Prepare for the first decision. Called by every worker, before anything else."""

    def close(self) -> None:
        """Give up what takes long: no more turns begin."""

    @abstractmethod
    async def resolve(self, unit: Unit) -> None:
        """Settle writes of earlier turns of a unit that got no answer, and report those that were applied.

        Whatever is raised, what is not settled stays assumed.
        """

    @abstractmethod
    def next(self, unit: Unit) -> Idle | Stuck | Act | Ask[Q] | None:
        """What the unit needs as things are now; None for a unit that another handler has to serve."""

    def expected(self, question: Q) -> str | None:  # noqa: ARG002
        """The reason for which a question would be refused now, where that is known without deciding."""
        return None

    @abstractmethod
    async def decide(self, question: Q) -> Given[G] | Refused[R] | Later | None:
        """Devices, or why there are none; a grant must hold at the moment of its return.

        None: the unit comes back by itself.
        """

    @abstractmethod
    def record(self, name: str, answer: Given[G] | Refused[R]) -> None:
        """Write a decision into the journal, before it changes anything."""

    @abstractmethod
    def assume(self, grant: G) -> None:
        """Count devices as held before they are written."""

    @abstractmethod
    async def write(self, grant: G, decided: Decided) -> None:
        """Write what is assumed, and report it.

        What was certainly not written is free again when this raises; Undecided or cancelled: it stays
        assumed, for `resolve`.
        """

    async def make_room(self, refusal: R, name: str) -> bool:  # noqa: ARG002
        """Take back what keeps the unit from being served as a whole. Whether there was such a thing."""
        return False

    @abstractmethod
    def waits(self, refusal: R, name: str) -> Waits:
        """A refusal, to be reported."""
