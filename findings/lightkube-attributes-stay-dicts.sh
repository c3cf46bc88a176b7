#!/bin/sh
# lightkube's typed ResourceSlice is typed down to its devices; attributes and capacities below stay dicts, and DeviceAttribute cannot be made from one.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install lightkube==1.0.1 lightkube-models==1.37.0.8
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

from lightkube.models.resource_v1 import Device, DeviceAttribute
from lightkube.resources.resource_v1 import ResourceSlice

for package in ("lightkube", "lightkube-models"):
    print(package, importlib.metadata.version(package))
device = {
    "name": "gpu-0",
    "attributes": {"model": {"string": "A100"}},
    "capacity": {"memory": {"value": "40Gi"}},
}
slice_ = ResourceSlice.from_dict(
    {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [device],
        },
    }
)
read = slice_.spec.devices[0]
print("expected: attributes['model'].string, as spec.devices[0].name; DeviceAttribute.from_dict reads one")
try:
    DeviceAttribute.from_dict({"string": "A100"})
    made = "made"
except TypeError as error:
    made = f"TypeError: {error}"
print(f"seen:     {type(read).__name__}, {read.attributes['model']!r}, {read.capacity['memory']!r}; from_dict: {made}")
assert isinstance(read, Device)
assert type(read.attributes["model"]) is dict and type(read.capacity["memory"]) is dict
assert made.startswith("TypeError") and "'bool' of 'DeviceAttribute'" in made
PYTHON
