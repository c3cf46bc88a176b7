#!/bin/sh
# cel-expr-python takes a datetime for a variable of type TIMESTAMP, and refuses it for one of type DYN.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install cel-expr-python==0.1.3 protobuf==6.33.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
from datetime import UTC, datetime

from cel_expr_python import cel

print("cel-expr-python", importlib.metadata.version("cel-expr-python"))
print("expected: DYN takes every value that a typed variable takes, so that an object can be passed whole")
moment = datetime(2026, 1, 1, tzinfo=UTC)


def told(kind, value):
    answer = cel.NewEnv(variables={"x": kind}).compile("x").eval(data={"x": value})
    return str(answer.plain_value()) if answer.type() == cel.Type.ERROR else answer.plain_value()


print(f"seen:     TIMESTAMP: {told(cel.Type.TIMESTAMP, moment)}")
print(f"seen:     DYN:       {told(cel.Type.DYN, moment)}")
print(f"seen:     DYN:       {told(cel.Type.DYN, {'created': moment})}")
assert told(cel.Type.TIMESTAMP, moment) == moment
assert "Non-CEL value type" in told(cel.Type.DYN, moment)
assert "datetime.datetime" in told(cel.Type.DYN, {"created": moment})
assert "tuple" in told(cel.Type.DYN, (1, 2)) and told(cel.Type.DYN, [1, 2]) == [1, 2]
PYTHON
