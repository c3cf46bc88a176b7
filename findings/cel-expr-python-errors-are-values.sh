#!/bin/sh
# cel-expr-python, the binding of CEL in C++, raises nothing when an expression fails: the error is a text, which is true.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install cel-expr-python==0.1.3 protobuf==6.33.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

from cel_expr_python import cel

print("cel-expr-python", importlib.metadata.version("cel-expr-python"))
print("expected: a selector that reads a missing attribute raises, or at least is not true")
environment = cel.NewEnv(variables={"attributes": cel.Type.DYN})
for expression in ("attributes.model == 'a100'", "attributes.model != 'a100'"):
    answer = environment.compile(expression).eval(data={"attributes": {}})
    plain = answer.plain_value()
    print(f"seen:     {expression}: {plain!r}, a {type(plain).__name__}; its type is ERROR")
    assert isinstance(plain, str) and bool(plain) and answer.type() == cel.Type.ERROR
present = environment.compile("attributes.model == 'a100'").eval(data={"attributes": {"model": "h100"}})
assert present.plain_value() is False and present.type() == cel.Type.BOOL
print("remedy:   compare value.type() with cel.Type.ERROR before the value is used")
PYTHON
