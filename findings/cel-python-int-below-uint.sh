#!/bin/sh
# cel-python compares an unsigned with a signed number in one direction only: 1u < 2 is true, 2 > 1u is an error.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install cel-python==0.5.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

import celpy

print("cel-python", importlib.metadata.version("cel-python"))
print("expected: both true, as CEL compares numbers across types (or both an error)")
made = celpy.Environment()


def value(text):
    try:
        return bool(made.program(made.compile(text)).evaluate({}))
    except celpy.CELEvalError:
        return "no matching overload"


seen = {text: value(text) for text in ("1u < 2", "2 > 1u")}
print(f"seen:     {seen}")
assert seen == {"1u < 2": True, "2 > 1u": "no matching overload"}
PYTHON
