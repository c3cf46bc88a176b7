"""The recipe of the image, and what the locks pin."""

import re
from pathlib import Path

import dockerfile

from tests.tools.checkout import ROOT

RECIPE = dockerfile.parse_file(str(ROOT / "deploy" / "Containerfile"))
_PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;]+)(.*?)(?=^[a-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def locked(path: Path) -> dict[tuple[str, str], frozenset[str]]:
    """Name and version -> hashes, of a lock. A name has several versions where that depends on Python's."""
    found = _PINNED.finditer(path.read_text())
    return {(one[1], one[2]): frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", one[3])) for one in found}


IMAGE, ALL = locked(ROOT / "deploy" / "requirements.lock"), locked(ROOT / "requirements.lock")
