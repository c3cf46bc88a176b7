#!/bin/sh
# In common-expression-language an error inside exists() ends the evaluation, although a later element makes it true.
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
print("expected: true for both: exists() is a chain of ||, and || absorbs an error beside a true")
text = "[0, 2].exists(x, 4 / x == 2)"
made = celpy.Environment()
python = bool(made.program(made.compile(text)).evaluate({}))
try:
    rust = cel.evaluate(text, {})
except ZeroDivisionError as error:
    rust = f"ZeroDivisionError: {error}"
alone = cel.evaluate("4 / 0 == 2 || true", {})
print(f"seen:     cel-python {python}; common-expression-language {rust}, though || alone gives {alone}")
assert python is True and alone is True and str(rust).startswith("ZeroDivisionError")
PYTHON
