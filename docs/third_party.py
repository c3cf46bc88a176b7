"""`python -m docs.third_party`: what is in the image, with versions and licences, as a page."""

import re
import sys
from importlib.metadata import files, metadata
from pathlib import Path

_LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\n]+)(?: ; (.*?))? \\$", re.MULTILINE)
_TITLE = """# What the image holds

Python packages beside ours, from `deploy/requirements.lock`; made by `python -m docs.third_party`. The image
lists them in `/venv/sbom.cdx.json`, too. Licences are what the packages declare.

| package | version | licence |
|---|---|---|
"""


def licence(name: str) -> str:
    """The declared one: an SPDX expression, else classifiers, else the first words of the text."""
    found = metadata(name)
    for field in ("License-Expression", "Classifier", "License"):
        declared = [one for one in found.get_all(field) or () if field != "Classifier" or "License ::" in one]
        if declared:
            return ", ".join(one.rpartition(" :: ")[2].splitlines()[0][:80] for one in declared)
    for file in files(name) or ():  # cel-python declares none
        if file.parent.name == "licenses":
            return file.read_text().strip().splitlines()[0].strip()
    return "not declared"


def page() -> str:
    """The page."""
    lock = (Path(__file__).parents[1] / "deploy" / "requirements.lock").read_text()
    rows = []
    for name, version, marker in _LOCKED.findall(lock):
        only = f", if `{marker}`" if marker else ""
        rows.append(f"| {name} | {version}{only} | {licence(name)} |\n")
    return _TITLE + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(page())
