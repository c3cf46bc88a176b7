"""Set in the values of the chart what is known only at a release: where image and runbooks are published.

usage: python3 -m deploy.release.chart REPOSITORY DIGEST RUNBOOKS
"""

import re
import sys
from pathlib import Path

VALUES = Path(__file__).parents[1] / "helm" / "dra-reconciler" / "values.yaml"


def released(text: str, **values: str) -> str:
    """The text with these keys set. Each must be there once, whatever map it is in. Raises LookupError."""
    for key, value in values.items():
        text, found = re.subn(rf"^( +{key}): \S+$", rf"\1: {value}", text, flags=re.MULTILINE)
        if found != 1:
            raise LookupError(f"{key} is in {VALUES.name} {found} times, not once")
    return text


if __name__ == "__main__":
    repository, digest, runbooks = sys.argv[1:]
    VALUES.write_text(released(VALUES.read_text(), repository=repository, digest=digest, runbooks=runbooks))
