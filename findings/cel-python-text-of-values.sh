#!/bin/sh
# cel-python's string() gives Python's text: 'True', and times without their fraction of a second.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install cel-python==0.5.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

import celpy

print("cel-python", importlib.metadata.version("cel-python"))
print("expected: true, 2026-01-01T00:00:00.5Z, 1.5s, as the language's definition has them")
made = celpy.Environment()
asked = ("string(true)", "string(timestamp('2026-01-01T00:00:00.5Z'))", "string(duration('1.5s'))")
seen = [str(made.program(made.compile(text)).evaluate({})) for text in asked]
print("seen:     " + ", ".join(seen))
assert seen == ["True", "2026-01-01T00:00:00Z", "1s"]
PYTHON
