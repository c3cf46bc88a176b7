"""Start the command line, unless another distribution has replaced one of our packages.

`kernels` and `reconciler` are also names of other distributions. If one of them is installed into the same
environment, its files replace ours. This module has a name of its own, so it can say so.
"""

import atexit
import gc
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

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


def check() -> None:
    """Exit with an explanation if a package is not ours."""
    problems = [problem for package in PACKAGES if (problem := foreign(package)) is not None]
    if problems:
        sys.exit(
            "".join(f"Error: {problem}.\n" for problem in problems)
            + f"Install {OURS} into an environment of its own, for example with uv tool install and its wheel"
        )


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
