#!/bin/sh
# lightkube refuses quantities that Kubernetes accepts (1E3, 100n, 5u), and rounds up what is below a thousandth.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install lightkube==1.0.1 kubernetes==37.0.2
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
from decimal import Decimal

from kubernetes.utils import parse_quantity as official
from lightkube.utils.quantity import parse_quantity

for package in ("lightkube", "kubernetes"):
    print(package, importlib.metadata.version(package))
print("expected: both clients read what apimachinery's resource.Quantity allows, alike")


def read(text):
    try:
        return str(parse_quantity(text))
    except ValueError as error:
        return f"ValueError: {error}"


for text in ("1e3", "1E3", "100n", "5u", "0.0001"):
    print(f"seen:     {text:7} official {official(text)}, lightkube {read(text)}")
assert official("1E3") == 1000 and parse_quantity("1e3") == 1000
assert all("Invalid unit suffix" in read(text) for text in ("1E3", "100n", "5u"))
assert parse_quantity("0.0001") == Decimal("0.001") and official("0.0001") == Decimal("0.0001")
PYTHON
