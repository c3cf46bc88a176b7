"""The rule of imports: which room may import which, and which may touch the world. Nobody is exempt."""

import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.tools.rooms import allowed, room
from tests.tools.structure import imports, modules

LIBRARIES = {
    "kernels": {"numpy"},
    "aio": {"asyncio", "msgspec", "threading", "time"},
    "errors": set(),
    "settings": {"os", "pydantic", "yaml"},
    "api": {"datetime", "msgspec", "pydantic", "pydantic_core", "typing_extensions", "yaml"},
    "cel": {"datetime", "lark", "msgspec", "numpy", "os", "re2", "threading"},
    "state": {"msgspec", "numpy", "pydantic", "threading"},
    "allocation": {"msgspec", "numpy", "pydantic"},
    "analysis": {"datetime", "msgspec", "numpy"},
    "control": {"asyncio", "datetime", "msgspec", "structlog"},
    "cluster": {
        "aiohttp", "asyncio", "datetime", "kubernetes_asyncio", "msgspec", "os", "pydantic_core",
        "socket", "structlog", "yaml",
    },
    "ha": {"asyncio", "datetime", "msgspec", "structlog"},
    "embedded": {"aiohttp", "asyncio", "datetime", "kubernetes_asyncio", "msgspec", "random"},
    "operations": {
        "aiohttp", "asyncio", "cryptography", "datetime", "jinja2", "logging", "markupsafe", "msgspec",
        "numpy", "opentelemetry", "os", "prometheus_client", "socket", "structlog", "threading",
    },
    "app": {"asyncio", "datetime", "msgspec", "random", "socket", "structlog"},
    "plugins": {
        "asyncio", "datetime", "hashlib", "msgspec", "numpy", "pydantic", "pydantic_core",
        "random", "structlog",
    },
    "library": {"datetime", "msgspec", "pandas", "polars"},
    "cli": {
        "aiohttp", "annotated_types", "asyncio", "click", "datetime", "msgspec", "os", "pydantic", "random",
        "rich", "signal", "structlog", "threading", "time", "yaml",
    },
}  # fmt: skip
"""Room -> libraries, and parts of the standard library by which a clock, chance or the world come in."""

EFFECTS = {
    "asyncio", "datetime", "logging", "multiprocessing", "os", "random", "signal", "socket", "subprocess",
    "threading", "time",
}  # fmt: skip

NEVER = {
    "reconciler.cluster.transport": {"aiohttp", "kubernetes_asyncio"},
    "reconciler.control": {"reconciler.cluster.http"},
    "reconciler.operations": {"reconciler.cluster.http"},
    "reconciler.allocation": {"reconciler.state.store"},
}
"""What a room could import by the rules above and must not: the client library stays behind its seam, and
decisions are made from frozen snapshots."""


def violations(module: str, found: Iterable[str]) -> Iterator[str]:
    here = room(module)
    if here in ("", "__main__"):
        return
    for name in found:
        top = name.partition(".")[0]
        if top in ("kernels", "reconciler"):
            fine = room(name) in allowed(here)
        else:
            harmless = top in sys.stdlib_module_names and top not in EFFECTS
            fine = harmless or top in LIBRARIES[here]
        never = any(
            f"{module}.".startswith(f"{who}.") and f"{name}.".startswith(f"{what}.")
            for who, whats in NEVER.items()
            for what in whats
        )
        if not fine or never:
            yield f"{module} may not import {name}"


def test_every_import_follows_the_rule():
    broken = [line for module, path in modules().items() for line in violations(module, imports(path))]
    assert broken == []


def test_nothing_lies_beside_the_rooms():
    loose = {path.name for path in modules().values() if path.parent.name == "reconciler"}
    assert loose == {"__init__.py", "__main__.py", "errors.py", "settings.py"}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kernels.fit", "time"),
        ("kernels.fit", "reconciler.api.objects.meta"),
        ("reconciler.api.objects.plan", "numpy"),
        ("reconciler.allocation.dra.search", "asyncio"),
        ("reconciler.allocation.dra.search", "structlog"),
        ("reconciler.allocation.dra.allocate.allocate", "reconciler.cluster.client"),
        ("reconciler.allocation.dra.allocate.allocate", "reconciler.state.store"),
        ("reconciler.analysis.explain.explain", "reconciler.control.loop"),
        ("reconciler.control.loop", "reconciler.analysis.explain"),
        ("reconciler.control.loop", "reconciler.cluster.http"),
        ("reconciler.cluster.watch", "reconciler.state.store"),
        ("reconciler.cluster.watch", "numpy"),
        ("reconciler.aio.queue", "reconciler.api.objects.meta"),
        ("reconciler.app.lifecycle", "reconciler.embedded"),
    ],
)
def test_the_rule_forbids_what_it_is_there_for(module: str, name: str):
    assert list(violations(module, [name])) == [f"{module} may not import {name}"]
