"""The commands that pages tell people to type: in blocks, indented, and in the line as code."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tools.checkout import ROOT

PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "deploy" / "README.md",
        *(ROOT / "docs").glob("*.md"),
    ]
)
_TOOLS = r"(?:dra-reconciler|kubectl|make|python -m|source) [\w\[<./-]"
_BLOCK = re.compile(r"^[ ]*```(?P<kind>\w*)\n(?P<body>.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
_TYPED = re.compile(rf"^\s*(?:\$ )?(?P<text>{_TOOLS}.*)$")
_INLINE = re.compile(rf"(?<!`)`(?P<text>{_TOOLS}[^`]*)`(?!`)")
_COMMENT = re.compile(r"\s+#\s.*$")


class Command(NamedTuple):
    """What somebody may type, and where it stands."""

    text: str
    page: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def commands(page: Path) -> Iterator[Command]:
    """All commands of a page, in no particular order."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    for block in _BLOCK.finditer(text):
        if block["kind"] not in ("yaml", "json"):
            yield from _typed(block["body"], name)
    rest = _BLOCK.sub("", text)
    yield from _typed("\n".join(line for line in rest.splitlines() if line.startswith("    ")), name)
    for found in _INLINE.finditer(rest):
        yield Command(" ".join(found["text"].split()), name)


def _typed(body: str, page: str) -> Iterator[Command]:
    for line in body.replace("\\\n", " ").splitlines():
        found = _TYPED.match(line)
        if found is not None:
            yield Command(_COMMENT.sub("", found["text"]).strip(), page)


def everything() -> list[Command]:
    """Each command once, with the first page that has it."""
    found: dict[str, Command] = {}
    for page in PAGES:
        for one in commands(page):
            found.setdefault(one.text, one)
    return list(found.values())
