"""Lines about the process for the top of the page."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

from reconciler.operations.page.sources import Fact
from reconciler.settings import Settings


def process_facts(settings: Settings, leads: Callable[[], bool]) -> Sequence[Callable[[], Fact]]:
    """What the process does, and which version of it this is. `leads` tells whether it decides."""

    def state() -> str:
        if settings.mode == "shadow":
            return "shadow: compares, writes nothing"
        return "decides" if leads() else "standby: another replica decides"

    release = f"{version('dra-reconciler')}, rules of Kubernetes {settings.semantics}"
    return [lambda: Fact("State", state()), lambda: Fact("Version", release)]
