"""Counts how hard the program is to enter: `python -m tests.tools.structure`.

Three figures: entries directly under `reconciler/` (and `kernels`), levels of the import graph over them,
and the way of one claim from its watch event to its write-back, as calls from module to module, recorded
while a reconciler serves a claim on the embedded server over HTTP.
"""

import ast
import asyncio
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import structlog

ROOT = Path(__file__).parents[2]
OUTSIDE = ("reconciler.embedded", "reconciler.errors", "reconciler.settings")
"""The server is the other end of the wire; errors and settings are values."""


def modules() -> dict[str, Path]:
    """Every module of the program by name."""
    paths = [*ROOT.glob("kernels/**/*.py"), *ROOT.glob("reconciler/**/*.py")]
    return {_name(path): path for path in sorted(paths)}


def entry(module: str) -> str:
    """The entry directly under `reconciler/` that a module belongs to; `kernels` counts as one."""
    parts = module.split(".")
    return parts[0] if parts[0] == "kernels" else ".".join(parts[:2])


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Names that a module imports; `from a import b` gives `a.b`."""
    names: list[str] = []
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.Import):
            names += (alias.name for alias in found.names)
        elif isinstance(found, ast.ImportFrom) and found.module:
            names += (f"{found.module}.{alias.name}" for alias in found.names)
    return tuple(names)


def entries() -> dict[str, set[str]]:
    """Entry -> entries that it imports."""
    known = modules()
    graph: dict[str, set[str]] = {}
    for module, path in known.items():
        if module in ("reconciler", "reconciler.__main__"):
            continue
        wanted = graph.setdefault(entry(module), set())
        for name in imports(path):
            target = name if name in known else name.rpartition(".")[0]
            if target in known and target != "reconciler":
                wanted.add(entry(target))
    return {name: wanted - {name} for name, wanted in graph.items()}


def levels(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Entry -> level: one above the highest that it imports. Raises ValueError for a circle."""

    @cache
    def level(name: str, above: tuple[str, ...] = ()) -> int:
        if name in above:
            raise ValueError(f"circle: {' -> '.join((*above, name))}")
        return 1 + max((level(wanted, (*above, name)) for wanted in graph[name]), default=0)

    return {name: level(name) for name in graph}


class Call(NamedTuple):
    """A call from one module to another."""

    caller: str
    callee: str
    function: str


class Recorder:
    """Records each call between two modules of the program, once, in the order of first occurrence."""

    def __init__(self) -> None:
        self._names = {str(path): name for name, path in modules().items()}
        self.calls: dict[tuple[str, str], Call] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """What `sys.setprofile` calls."""
        if event != "call":
            return
        callee = self._names.get(frame.f_code.co_filename)
        if callee is None or callee.startswith(OUTSIDE):
            return
        caller = self._caller(frame.f_back)
        if caller is not None and caller != callee and not caller.startswith(OUTSIDE):
            self.calls.setdefault((caller, callee), Call(caller, callee, frame.f_code.co_qualname))

    def _caller(self, frame: FrameType | None) -> str | None:
        while frame is not None:
            found = self._names.get(frame.f_code.co_filename)
            if found is not None:
                return found
            frame = frame.f_back
        return None


async def way_of_a_claim() -> list[Call]:
    """The calls between modules from the watch event of a claim to the answer to its last write."""
    # The other counts need no program that can be imported.
    from reconciler.control.decisions.allocating import Allocated  # noqa: PLC0415
    from tests.tools.running_reconciler import Cluster, reconciling  # noqa: PLC0415
    from tests.tools.small_fleet import claim, device_class, devices, node  # noqa: PLC0415

    cluster = Cluster([device_class(), node("n"), devices("n", "a", "b", "c")])
    recorder = Recorder()
    async with reconciling(cluster) as running:
        cluster.load(claim("first"))  # what is done once a process is not part of the way
        await running.heard(Allocated, 1)
        await asyncio.sleep(0.5)
        sys.setprofile(recorder)
        cluster.load(claim("second"))
        await running.heard(Allocated, 2)
        sys.setprofile(None)
    return list(recorder.calls.values())


def main() -> None:
    """Print the three figures, and the calls that go up."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    graph = entries()
    floor = levels(graph)
    print(f"entries under reconciler/, with kernels: {len(graph)}")
    print(f"levels of the import graph: {max(floor.values())}")
    for level in range(1, max(floor.values()) + 1):
        print(f"  {level:2}  {' '.join(sorted(name for name, at in floor.items() if at == level))}")
    calls = asyncio.run(way_of_a_claim())
    up = [call for call in calls if floor[entry(call.callee)] > floor[entry(call.caller)]]
    rooms = {entry(name) for call in calls for name in call[:2]}
    print(f"way of a claim: {len(calls)} calls between modules, {len(rooms)} entries, {len(up)} calls up")
    for call in up:
        print(f"  {call.caller} -> {call.callee}: {call.function}")


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


if __name__ == "__main__":
    main()
