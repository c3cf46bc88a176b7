#!/bin/sh
# cel-expr-python reads numbers with spaces around them and doubles beyond their range; CEL of Kubernetes refuses both.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install cel-expr-python==0.1.3 protobuf==6.33.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

from cel_expr_python import cel

print("cel-expr-python", importlib.metadata.version("cel-expr-python"))
print("expected: errors, as in cel-go, which Kubernetes uses: it parses with Go's strconv")
environment = cel.NewEnv()
seen = {}
for expression in ("int(' 1')", "int('1 ')", "uint(' 7')", "double(' 1.5')", "double('1e400')", "int('1_000')"):
    answer = environment.compile(expression).eval()
    seen[expression] = "an error" if answer.type() == cel.Type.ERROR else answer.plain_value()
    print(f"seen:     {expression} is {seen[expression]}")
assert seen == {
    "int(' 1')": 1, "int('1 ')": 1, "uint(' 7')": 7,
    "double(' 1.5')": 1.5, "double('1e400')": float("inf"), "int('1_000')": "an error",
}
PYTHON
