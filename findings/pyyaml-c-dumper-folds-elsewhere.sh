#!/bin/sh
# PyYAML's CSafeDumper writes other text than its SafeDumper: long quoted strings are folded at other places.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install pyyaml==6.0.3
"$folder/env/bin/python" - <<'PYTHON'
import yaml

print("PyYAML", yaml.__version__)
value = {"message": "from a driver\twhose text is so long that it has to be folded somewhere, which each of them does"}
plain, quick = (yaml.dump(value, Dumper=dumper) for dumper in (yaml.SafeDumper, yaml.CSafeDumper))
print("expected: the same text from both, one being the faster form of the other")
print("seen:    ", repr(plain), "and", repr(quick), sep="\n  ")
assert yaml.safe_load(plain) == yaml.safe_load(quick) == value
assert plain != quick
PYTHON
