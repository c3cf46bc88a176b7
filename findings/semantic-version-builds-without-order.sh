#!/bin/sh
# Two versions that differ in build metadata are neither equal nor ordered in semantic-version; semver calls them equal, as Kubernetes' CEL does.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install semantic-version==2.10.0 semver==3.1.2
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

import semantic_version
import semver

for package in ("semantic-version", "semver"):
    print(package, importlib.metadata.version(package))
print("expected: equal, since precedence ignores build metadata; or ordered somehow")
one, two = semantic_version.Version("550.54.15+a"), semantic_version.Version("550.54.15+b")
seen = (one < two, one == two, one > two)
other = semver.Version.parse(str(one)) == semver.Version.parse(str(two))
print(f"seen:     semantic-version (<, ==, >) {seen}; semver == {other}")
assert seen == (False, False, False) and other is True
PYTHON
