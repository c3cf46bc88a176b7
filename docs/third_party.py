"""`python -m docs.third_party`: what is in the image, with versions and licences, as a page."""

import re
from importlib.metadata import files, metadata
from pathlib import Path

_LOCKED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^ ;\n]+)(?: ; (.*?))? \\$", re.MULTILINE)
_TITLE = """# What the image holds

Python packages beside ours, from `deploy/requirements.lock`. The image lists them in `/venv/sbom.cdx.json`, too. Licences are what the packages
declare.

| package | version | licence |
|---|---|---|
"""


def licence(name: str) -> str:
    """The declared one: an SPDX expression, else classifiers, else the first words of the text."""
    found = metadata(name)
    if expression := found.get("License-Expression"):
        return expression
    text = found.get("License") or _first_line(name)
    classifiers = [
        one.rpartition(" :: ")[2] for one in found.get_all("Classifier") or () if "License ::" in one
    ]
    return ", ".join(classifiers) or text.splitlines()[0][:40]


def _first_line(name: str) -> str:
    """Of the file with the licence: cel-python declares none."""
    paths = [one for one in files(name) or () if one.parent.name == "licenses"]
    return paths[0].read_text().strip().splitlines()[0].strip() if paths else "not declared"


def page() -> str:
    """The page."""
    lock = (Path(__file__).parents[1] / "deploy" / "requirements.lock").read_text()
    rows = []
    for name, version, marker in _LOCKED.findall(lock):
        only = f", if `{marker}`" if marker else ""
        rows.append(f"| {name} | {version}{only} | {licence(name)} |\n")
    return _TITLE + "".join(rows)


if __name__ == "__main__":
    print(page(), end="")
