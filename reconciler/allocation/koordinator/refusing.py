"""The message and the reason if no machine can serve a pod."""

from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.fleet import Unserved

NO_ROOM = "InsufficientDevices"
MOST = 4
"""Maximum number of different failures in the message."""


def reason_of(failure: Failure) -> str:
    """`joint-scope-violation` in CamelCase; the part after a colon is in the message."""
    return "".join(word.capitalize() for word in failure.reason.partition(":")[0].split("-"))


def no_room(answer: Unserved) -> str:
    """Why no machine can serve a pod: the number of machines for each reason."""
    if not answer.machines:
        return "no node has a Device object"
    asked = sum(answer.refused.values())
    spelled = answer.refused.most_common(MOST)
    parts = [f"{number} {failure.message}" for failure, number in spelled]
    rest = asked - sum(number for _, number in spelled)
    parts += [f"{rest} for other reasons"] if rest else []
    few = too_few(answer)
    parts += [f"{few} too few devices with enough left"] if few else []
    parts += [f"{answer.unsuited} could, but the pod cannot run there"] if answer.unsuited else []
    return f"0/{answer.machines} nodes can give the devices: {', '.join(parts)}"


def too_few(answer: Unserved) -> int:
    """Machines with too few free devices, which the filter excluded."""
    return answer.machines - sum(answer.refused.values()) - answer.unsuited


def main_reason(answer: Unserved) -> str:
    """The most frequent failure that a terminating pod can resolve; otherwise the most frequent failure."""
    might_help = {failure: n for failure, n in answer.refused.items() if failure.status is Status.LATER}
    failures = might_help or ({} if too_few(answer) else answer.refused)
    return reason_of(max(failures, key=failures.__getitem__)) if failures else NO_ROOM
