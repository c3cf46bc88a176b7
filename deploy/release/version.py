"""Exit with an error unless a tag is the version of pyproject.toml and of all files that name it.

usage: python3 -m deploy.release.version vX.Y.Z
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_EXAMPLE = r"registry\.example\.com/[\w-]+:(\S+)"
_PLACES = {
    "deploy/helm/dra-reconciler/Chart.yaml": r"^(?:version|appVersion): (\S+)$",
    "deploy/base/deployment.yaml": r"^ +image: \S+:(\S+)$",
    "deploy/sweep/play/job.yaml": r"^ +image: \S+:(\S+)$",
    "CHANGELOG.md": r"\A.*?^## ([0-9]\S*) - [0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "pyproject.toml": r"/blob/v([^/]+)/",
    "deploy/README.md": _EXAMPLE,
    "docs/install.md": _EXAMPLE,
    "perf/README.md": _EXAMPLE,
}
"""File -> where it says the version; in the changelog, the newest dated section"""


def version() -> str:
    """The version of pyproject.toml."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert isinstance(found, str)
    return found


def problems(tag: str) -> Iterator[str]:
    """What disagrees with the tag, one line each."""
    wanted = tag.removeprefix("v")
    if tag != f"v{version()}":
        yield f"the tag is {tag}, pyproject.toml says {version()}"
    for name, pattern in _PLACES.items():
        found = re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
        if not found:
            yield f"{name} says no version"
        yield from (f"{name} says {one}, not {wanted}" for one in sorted({*found} - {wanted}))


if __name__ == "__main__":
    sys.exit("\n".join(problems(sys.argv[1])) or None)
