#!/bin/sh
# The CEL of common-expression-language (Rust) counts a text in bytes; CEL counts code points.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install common-expression-language==0.10.0 cel-python==0.5.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

import cel
import celpy

for package in ("common-expression-language", "cel-python"):
    print(package, importlib.metadata.version(package))
print("expected: 6 for both, the letters of Müller")
made = celpy.Environment()
text = "size('Müller')"
rust, python = cel.evaluate(text, {}), int(made.program(made.compile(text)).evaluate({}))
print(f"seen:     common-expression-language {rust}, cel-python {python}")
assert (rust, python) == (7, 6)
PYTHON
