"""Print the section of CHANGELOG.md about a version, for the page of its release.

usage: python3 -m deploy.release.notes vX.Y.Z
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def notes(text: str, version: str) -> str:
    """The section without its heading. Raises LookupError if there is none."""
    found = re.search(rf"^## {re.escape(version)} - \S+\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{CHANGELOG.name} has no section '## {version} - YYYY-MM-DD'")
    return found[1].strip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(notes(CHANGELOG.read_text(), sys.argv[1].removeprefix("v")))
