"""Why a pod has no devices. A result, not an exception."""

from enum import StrEnum

from msgspec import Struct


class Status(StrEnum):
    """Whether a retry can help."""

    LATER = "Unschedulable"
    """A pod that terminates may free devices."""
    NEVER = "UnschedulableAndUnresolvable"
    """No terminating pod can help."""
    ERROR = "Error"


class Failure(Struct, frozen=True):
    """Why one pod cannot be allocated, on one node or on all."""

    reason: str
    """A short identifier, `insufficient-devices:gpu`."""
    status: Status
    message: str


def insufficient(kind: str) -> Failure:
    """Fewer usable devices than requested."""
    return Failure(f"insufficient-devices:{kind}", Status.LATER, f"Insufficient {kind} devices")
