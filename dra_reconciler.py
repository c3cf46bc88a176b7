"""Start the command line, unless another distribution has replaced one of our packages.

`kernels` and `reconciler` are also names of other distributions. If one of them is installed into the same
environment, its files replace ours. This module has a name of its own, so it can say so.
"""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

PACKAGES = ("kernels", "reconciler")
OURS = "dra-reconciler"
MARK = f'__distribution__ = "{OURS}"'

HERE = Path(__file__).parent

OUTPUT_LOST = 120
"""The exit code of a process that could not write the rest of its output, as Python's own"""


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


@contextmanager
def quick_end() -> Iterator[None]:
    """Around all that a process does: end it as soon as its output is written, if it only read files.

    Python would take apart each module and object first, a twentieth of the time of a short command. Exit
    handlers that are registered in the block run before; if there are others, the process ends as usual.
    """
    if atexit._ncallbacks():
        yield
        return
    codes: list[int] = []
    atexit.register(_leave, codes)  # the first one runs last
    try:
        yield
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            codes.append(ended.code or 0)
        raise


def _leave(codes: list[int]) -> None:
    """End the process with the only code, unless Python has more to do or to tell."""
    if not codes or "asyncio" in sys.modules or hasattr(sys, "last_value"):
        return  # with `last_value`, somebody went on after the exit, and failed
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started this process
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        sys.excepthook(*sys.exc_info())
        codes[:] = [OUTPUT_LOST]
    sys.stderr.flush()
    os._exit(codes[0] & 0xFF)


def prepare() -> None:
    """What is done before anything else of ours, NumPy or pydantic is imported."""
    check()
    one_thread_for_matrices()
    from reconciler.aio.collector import spare_the_start  # noqa: PLC0415 - not before the check
    from reconciler.aio.late_metadata import postpone_metadata  # noqa: PLC0415 - as above

    spare_the_start()
    postpone_metadata()


def main() -> None:
    """Run `dra-reconciler`. It ends the process: whoever goes on afterwards calls `reconciler.cli.main`."""
    with quick_end():
        prepare()
        from reconciler.cli import main as run  # noqa: PLC0415 - not before the check

        run(prog_name=OURS)


def kubectl_plugin() -> None:
    """Run as `kubectl dra_reconciler`."""
    with quick_end():
        prepare()
        from reconciler.cli import kubectl_plugin as run  # noqa: PLC0415 - not before the check

        run()


def kubectl_complete() -> None:
    """Complete `kubectl dra_reconciler ...` for kubectl."""
    check()
    from reconciler.cli import kubectl_complete as run  # noqa: PLC0415 - not before the check

    run()
