"""Prints how large the house is: files, lines, code lines and import lines, for each room and in all.

`python -m tests.tools.house [FOLDER]` counts the checkout in FOLDER, by default this one. A code line is not
blank, not a comment and not part of a string that stands alone: docstrings and notes on fields do not count.
A small helper is a file of fewer than 150 lines that exactly one other module of the product imports.
"""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PRODUCT = ("reconciler/", "kernels/")
SMALL = 150


@dataclass(frozen=True)
class Module:
    """The counts of one file."""

    path: str
    lines: int
    code: int
    imports: int
    uses: frozenset[str]
    """Dotted names that it imports, modules and what is imported from them"""

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def counted(path: str, text: str) -> Module:
    """The counts of one file with the given text."""
    prose: set[int] = set()
    imports = 0
    uses: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            prose |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports += (node.end_lineno or node.lineno) - node.lineno + 1
            base = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            uses |= {base} | {f"{base}.{name.name}".lstrip(".") for name in node.names}
    lines = text.splitlines()
    code = sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in prose
        for number, line in enumerate(lines, start=1)
    )
    return Module(path, len(lines), code, imports, frozenset(uses))


def modules(root: Path) -> Iterator[Module]:
    """All Python files of a checkout that git knows, in order of their paths."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "*.py"], capture_output=True, text=True, check=True
    )
    for path in sorted(listed.stdout.split()):
        if (root / path).is_file():
            yield counted(path, (root / path).read_text("utf-8"))


def small_helpers(product: list[Module]) -> list[str]:
    """Paths of the files of the product that are short and that one other file alone imports."""
    by_name = {module.name: module for module in product}
    importers: dict[str, set[str]] = defaultdict(set)
    for module in product:
        for name in module.uses & by_name.keys() - {module.name}:
            importers[name].add(module.name)
    return [
        module.path
        for module in product
        if module.lines < SMALL
        and len(importers[module.name]) == 1
        and not module.path.endswith("__init__.py")
    ]


def room_of(path: str) -> str:
    """The folder that a table row stands for: a room of `reconciler/`, else the folder at the top."""
    first, _, rest = path.partition("/")
    return f"{first}/{rest.partition('/')[0]}" if first == "reconciler" and "/" in rest else first


def report(root: Path) -> str:
    """The table, as text."""
    every = list(modules(root))
    product = [module for module in every if module.path.startswith(PRODUCT)]
    small = small_helpers(product)
    lonely = Counter(room_of(path) for path in small)
    rooms: dict[str, list[Module]] = defaultdict(list)
    for module in every:
        rooms[room_of(module.path)].append(module)
    rows = [
        (name, rooms[name])
        for name in sorted(rooms, key=lambda name: (not name.startswith("reconciler"), name))
    ]
    rows.append(("product", product))
    lines = [
        f"{'':26}{'files':>7}{'lines':>8}{'code':>8}{'imports':>9}{'median':>8}{'longest':>9}{'helpers':>9}"
    ]
    for name, members in rows:
        helpers = len(small) if name == "product" else lonely[name]
        sizes = [module.lines for module in members]
        lines.append(
            f"{name:26}{len(members):7}{sum(sizes):8}{sum(m.code for m in members):8}"
            f"{sum(m.imports for m in members):9}{median(sizes):8.0f}{max(sizes):9}{helpers:9}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(Path(sys.argv[1] if sys.argv[1:] else ".")))
