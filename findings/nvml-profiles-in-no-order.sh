#!/bin/sh
# NVML's numbers of GPU instance profiles are not in the order of their slices: 7 and 8 come before 6, and one of the names is no profile.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install nvidia-ml-py==13.615.71
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

import pynvml

print("nvidia-ml-py", importlib.metadata.version("nvidia-ml-py"))
prefix = "NVML_GPU_INSTANCE_PROFILE_"
ids = sorted((value, name.removeprefix(prefix)) for name, value in vars(pynvml).items() if name.startswith(prefix))
print("expected: a larger number for more slices; every name with the prefix a profile")
plain = [name for _, name in ids if name.endswith("_SLICE")]
print(f"seen:     {plain}, last {ids[-1]}")
assert plain == ["1_SLICE", "2_SLICE", "3_SLICE", "4_SLICE", "7_SLICE", "8_SLICE", "6_SLICE"]
assert ids[-1][1] == "COUNT" and ids[-1][0] == len(ids) - 1
PYTHON
