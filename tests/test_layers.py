"""Who may import whom. A broken rule names file, line and culprit."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*ROOT.glob("kernels/**/*.py"), *ROOT.glob("reconciler/**/*.py")])
OBJECTS = {"reconciler.objects", "reconciler.errors"}

MAY_IMPORT = {
    "kernels": {"numpy"},
    "reconciler.errors": set(),
    "reconciler.objects": {"pydantic", "pydantic_core", "semver", "reconciler.errors"},
    "reconciler.legacy": {"msgspec", "pydantic", "pydantic_core", *OBJECTS},
    "reconciler.cel": {"numpy", "lark", "re2", "kernels", "datetime", "threading", *OBJECTS},
    "reconciler.inventory": {"numpy", "threading", "kernels", "reconciler.cel", *OBJECTS},
    "reconciler.allocator": {"numpy", "kernels", "reconciler.inventory", "reconciler.cel", *OBJECTS},
    "reconciler.explain": {
        "numpy", "kernels", "reconciler.allocator", "reconciler.cel", "reconciler.inventory",
        "reconciler.joint", "reconciler.koordinator", *OBJECTS,
    },
    "reconciler.journal": {
        "numpy", "structlog", "reconciler.explain", "reconciler.inventory", "reconciler.koordinator",
        "reconciler.legacy", "reconciler.placement", "reconciler.reconcile", "reconciler.shards", *OBJECTS,
    },
    "reconciler.joint": {
        "numpy", "pydantic", "kernels", "reconciler.allocator", "reconciler.inventory",
        "reconciler.koordinator.jsontext", *OBJECTS,
    },
    "reconciler.fullness": {"numpy", "kernels", "reconciler.inventory", *OBJECTS},
    "reconciler.whatif": {
        "reconciler.allocator", "reconciler.inventory", "reconciler.joint", "reconciler.legacy",
        "reconciler.manifests", "reconciler.nodes", "reconciler.placement", *OBJECTS,
    },
    "reconciler.nodes": {"numpy", "kernels", "reconciler.inventory", *OBJECTS},
    "reconciler.placement": {"numpy", "kernels", "reconciler.inventory", "reconciler.nodes", *OBJECTS},
    "reconciler.koordinator": {"numpy", "pydantic", "kernels", *OBJECTS},
    "reconciler.aio": {"asyncio", "threading"},
    "reconciler.settings": {"pydantic", "pydantic_settings", "yaml", "reconciler.errors"},
    "reconciler.cluster": {
        "asyncio", "datetime", "socket", "aiohappyeyeballs", "aiohttp", "httptools", "kubernetes_asyncio",
        "msgspec", "multidict", "pydantic_core", "structlog", "yaml", "reconciler.aio", "reconciler.legacy",
        "reconciler.settings", *OBJECTS,
    },
    "reconciler.shards": {"reconciler.cel", *OBJECTS},
    "reconciler.election": {
        "asyncio", "datetime", "structlog", "reconciler.cluster", "reconciler.shards", *OBJECTS,
    },
    "reconciler.embedded": {"asyncio", "datetime", "random", "aiohttp", "yaml", *OBJECTS},
    "reconciler.observe": {
        "asyncio", "datetime", "aiohttp", "cryptography", "numpy", "opentelemetry", "prometheus_client",
        "structlog",
        "kernels", "reconciler.aio.sideline", "reconciler.cluster", "reconciler.fullness",
        "reconciler.inventory", "reconciler.settings",
        "reconciler.reconcile.decisions", "reconciler.reconcile.declaration", "reconciler.reconcile.metric",
        *OBJECTS,
    },
    "reconciler.page": {
        "asyncio", "datetime", "aiohttp", "jinja2", "markupsafe", "numpy", "kernels", "reconciler.explain",
        "reconciler.inventory", "reconciler.koordinator", "reconciler.observe", *OBJECTS,
    },
    "reconciler.manifests": {
        "yaml", "pydantic", "reconciler.koordinator.reading", "reconciler.legacy", *OBJECTS,
    },
    "reconciler.convert": {"reconciler.legacy", *OBJECTS},
    "reconciler.doctor": {
        "datetime", "numpy", "pydantic", "kernels", "reconciler.cel", "reconciler.embedded",
        "reconciler.inventory",
        "reconciler.legacy", "reconciler.manifests", *OBJECTS,
    },
    "reconciler.offline": {
        "datetime", "reconciler.inventory", "reconciler.joint", "reconciler.koordinator",
        "reconciler.manifests", "reconciler.nodes", "reconciler.placement", "reconciler.reconcile", *OBJECTS,
    },
    "reconciler.operations": {
        "asyncio", "datetime", "logging", "msgspec", "os", "structlog", "threading", "reconciler.aio",
        "reconciler.allocator",
        "reconciler.cluster", "reconciler.explain", "reconciler.inventory", "reconciler.koordinator",
        "reconciler.manifests", "reconciler.nodes", "reconciler.observe", "reconciler.page",
        "reconciler.reconcile", "reconciler.settings", "reconciler.whatif", *OBJECTS,
    },
    "reconciler.reconcile": {
        "asyncio", "structlog", "reconciler.aio", "reconciler.allocator", "reconciler.cluster",
        "reconciler.explain.explanation", "reconciler.inventory", "reconciler.joint",
        "reconciler.koordinator",
        "reconciler.manifests", "reconciler.nodes", "reconciler.placement", "reconciler.settings",
        "reconciler.shards", *OBJECTS,
    },
}  # fmt: skip
"""Package -> what it may import besides itself and harmless parts of the standard library.

The composition root, the command line and the demo may import everything and are not listed.
"""

FREE = {
    "reconciler", "reconciler.__main__", "reconciler.app", "reconciler.cli", "reconciler.demo",
}  # fmt: skip

NEVER = {
    "reconciler.cluster.transport": {"kubernetes_asyncio", "aiohttp"},
    "reconciler.offline": {"reconciler.reconcile.intake", "reconciler.reconcile.loop"},
    "reconciler.reconcile": {"numpy", "kubernetes_asyncio", "reconciler.cluster.http"},
    "reconciler.allocator": {"reconciler.inventory.store"},
    "reconciler.observe": {"reconciler.inventory.store", "reconciler.cluster.http", "kubernetes_asyncio"},
    "reconciler.page": {"reconciler.inventory.store"},
}
"""What would pass the table above, and must not: the client library stays behind its seam, decisions are
made from frozen pictures."""

EFFECTS = {
    "asyncio", "datetime", "logging", "multiprocessing", "os", "random", "signal", "socket", "subprocess",
    "threading", "time",
}  # fmt: skip
"""Parts of the standard library by which a clock, chance or the world come in. The others are harmless."""

HIDDEN_CACHES = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet"}


def covers(rule: str, module: str) -> bool:
    return f"{module}.".startswith(f"{rule}.")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.Import):
            yield from ((found.lineno, alias.name) for alias in found.names)
        elif isinstance(found, ast.ImportFrom):
            source = found.module or ""
            # `from reconciler import app` imports a package of its own, not the one it is part of.
            names = (
                [f"{source}.{alias.name}" for alias in found.names] if source == "reconciler" else [source]
            )
            yield from ((found.lineno, name) for name in names)


def is_harmless(name: str) -> bool:
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names and top not in EFFECTS


def violations(module: str, found: Iterator[tuple[int, str]]) -> Iterator[str]:
    rule = max((rule for rule in MAY_IMPORT if covers(rule, module)), key=len, default=None)
    for line, name in found:
        allowed = rule is None or is_harmless(name) or covers(rule, name)
        allowed = allowed or any(covers(ok, name) for ok in MAY_IMPORT.get(rule or "", ()))
        forbidden = any(
            covers(who, module) and covers(what, name) for who, never in NEVER.items() for what in never
        )
        if not allowed or forbidden:
            yield f"{line}: {module} may not import {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_import_respects_the_layers(path: Path):
    assert list(violations(module_of(path), imports(path))) == []


def test_every_package_has_a_rule_or_is_free_of_them():
    packages = {".".join(module_of(path).split(".")[:2]) for path in SOURCES}
    covered = {name for name in packages if name in FREE or any(covers(rule, name) for rule in MAY_IMPORT)}
    assert packages - covered == set()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("kernels.fit", "time"),
        ("kernels.fit", "reconciler.objects.meta"),
        ("reconciler.objects.plan", "numpy"),
        ("reconciler.allocator.search", "asyncio"),
        ("reconciler.allocator.search", "structlog"),
        ("reconciler.allocator.nodes", "reconciler.cluster.client"),
        ("reconciler.allocator.nodes", "reconciler.inventory.store"),
        ("reconciler.cluster.watch", "reconciler.inventory.store"),
        ("reconciler.cluster.watch", "numpy"),
        ("reconciler.reconcile.loop", "reconciler.cluster.http"),
        ("reconciler.aio.queue", "reconciler.objects.meta"),
    ],
)
def test_the_rules_forbid_what_they_are_there_for(module: str, name: str):
    assert list(violations(module, iter([(1, name)]))) == [f"1: {module} may not import {name}"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_keeps_derived_values_for_owners_that_cannot_see_them(path: Path):
    """`inventory.caches` is for that: forks and threads then get caches of their own."""
    tree = ast.parse(path.read_text())
    assert [
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in HIDDEN_CACHES
    ] == []
