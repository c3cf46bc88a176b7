"""The library: simulates the allocation of devices (DRA) on Kubernetes in Python. See docs/library.md.

    import dra_reconciler as dra

    fleet = dra.Fleet.load("manifests/")
    print(fleet.allocate().pending)

The names that `dir(dra_reconciler)` shows are public and follow semver; they are imported when one is used.

The rest of this module starts the command line, unless another distribution has replaced one of our packages:
`kernels` and `reconciler` are also names of other distributions. If one of them is installed into the same
environment, its files replace ours. This module has a name of its own, so it can say so.
"""

import atexit
import gc
import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reconciler.library.public import *  # noqa: F403

PACKAGES = ("kernels", "reconciler")
OURS = "dra-reconciler"
MARK = f'__distribution__ = "{OURS}"'

HERE = Path(__file__).parent


def foreign(package: str) -> str | None:
    """Explain why a package is not ours; None if it is. Does not import it."""
    spec = PathFinder.find_spec(package)
    if spec is None or spec.origin is None:
        return f"the package {package} of {OURS} is missing in {HERE}"
    path = Path(spec.origin)
    if MARK in path.read_text(encoding="utf-8", errors="replace").splitlines():
        return None
    from importlib.metadata import packages_distributions  # noqa: PLC0415 - slow, and only for this error

    others = sorted({*packages_distributions().get(package, ())} - {OURS})
    owner = f"the distribution {', '.join(others)}" if others else "another program"
    return f"{path} is not the package {package} of {OURS}, but of {owner}"


def problems() -> str:
    """What is wrong with our packages, a line for each and one that says what to do; empty if nothing is."""
    found = [problem for package in PACKAGES if (problem := foreign(package)) is not None]
    return "".join(f"Error: {problem}.\n" for problem in found) + (
        f"Install {OURS} into an environment of its own, for example with uv tool install and its wheel"
        if found
        else ""
    )


def check() -> None:
    """Exit with an explanation if a package is not ours."""
    if found := problems():
        sys.exit(found)


def __getattr__(name: str) -> Any:
    """A name of the library. All of it is imported with the first one."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(name)
    if found := problems():
        raise ImportError(found)
    try:
        return getattr(import_module("reconciler.library.public"), name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))


def one_thread_for_matrices() -> None:
    """Keep NumPy from starting a thread for each core, unless the environment asks for some.

    OpenBLAS starts them when it is imported, and they spin for tens of milliseconds. Only products of
    floating-point matrices use them, and ours are small or integers.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def no_collection_at_the_end() -> None:
    """Let the process end without a last look for garbage, which takes as long as a short command.

    It would look at each model of each library, and find none that matters.
    """
    atexit.register(gc.freeze)


def prepare() -> None:
    """What is done before anything else of ours, or NumPy, is imported."""
    check()
    one_thread_for_matrices()
    no_collection_at_the_end()


def main() -> None:
    """Run `dra-reconciler`."""
    prepare()
    from reconciler.cli import main as run  # noqa: PLC0415 - not before the check

    run(prog_name=OURS)


def kubectl_plugin() -> None:
    """Run as `kubectl dra_reconciler`."""
    prepare()
    from reconciler.cli import kubectl_plugin as run  # noqa: PLC0415 - not before the check

    run()


def kubectl_complete() -> None:
    """Complete `kubectl dra_reconciler ...` for kubectl."""
    check()
    from reconciler.cli import kubectl_complete as run  # noqa: PLC0415 - not before the check

    run()
