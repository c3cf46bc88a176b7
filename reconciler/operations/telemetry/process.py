"""Lines about the process for the header of the status page."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

from reconciler.operations.page.sources import Fact
from reconciler.settings import Settings


def process_facts(settings: Settings, leads: Callable[[], bool]) -> Sequence[Callable[[], Fact]]:
    """Mode and version of the process. `leads` tells whether it is the leader."""

    def mode() -> str:
        if settings.mode == "shadow":
            return "shadow (compares only, writes nothing)"
        return "allocating" if leads() else "standby (another replica allocates)"

    release = f"{version('dra-reconciler')} (allocation rules of Kubernetes {settings.semantics})"
    return [lambda: Fact("Mode", mode()), lambda: Fact("Version", release)]
