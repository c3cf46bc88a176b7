#!/bin/sh
# cel-python divides a negative double by zero to plus infinity, and calls 0.0/0.0 equal to itself.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install cel-python==0.5.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

import celpy

print("cel-python", importlib.metadata.version("cel-python"))
print("expected: -inf, and false, as IEEE 754 and cel-go have it")
made = celpy.Environment()
infinity, equal = (
    made.program(made.compile(text)).evaluate({}) for text in ("-1.0 / 0.0", "0.0 / 0.0 == 0.0 / 0.0")
)
print(f"seen:     {float(infinity)}, {bool(equal)}")
assert float(infinity) == float("inf") and bool(equal)
PYTHON
