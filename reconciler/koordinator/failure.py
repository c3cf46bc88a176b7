"""Why a pod got no devices. An answer, not an error."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Whether it is worth trying again."""

    LATER = "Unschedulable"
    """Pods that end might make room."""
    NEVER = "UnschedulableAndUnresolvable"
    """No pod that ends can help."""
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Failure:
    """A refusal of one pod, everywhere or on one node."""

    reason: str
    """A short class, `insufficient-devices:gpu`."""
    status: Status
    message: str


def insufficient(kind: str) -> Failure:
    """Fewer usable devices than wanted."""
    return Failure(f"insufficient-devices:{kind}", Status.LATER, f"Insufficient {kind} devices")
