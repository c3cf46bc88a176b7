#!/bin/sh
# kubernetes-validate reads and parses its schema files anew on every call of validate().
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install kubernetes-validate==1.37.0
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

import kubernetes_validate

print("kubernetes-validate", importlib.metadata.version("kubernetes-validate"))
claim = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
counts = []
for _ in range(3):
    opened.clear()
    kubernetes_validate.validate(claim, "1.37", strict=True)
    counts.append(sum(name.endswith(".json") for name in opened))
print("expected: schemas are read by the first call and kept: some, 0, 0")
print(f"seen:     JSON files opened by three equal calls: {counts}")
assert counts[0] >= 1 and counts == [counts[0]] * 3
PYTHON
