#!/bin/sh
# kr8s guesses the plural of a kind by adding an s: a DeviceClass is looked for under .../deviceclasss.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install kr8s==0.20.15
"$folder/env/bin/python" - <<'PYTHON'
import importlib.metadata

from kr8s.objects import new_class

print("kr8s", importlib.metadata.version("kr8s"))
print("expected: deviceclasses, the name under which resource.k8s.io serves the kind")
guessed = new_class("DeviceClass", version="resource.k8s.io/v1", namespaced=False).endpoint
claims = new_class("ResourceClaim", version="resource.k8s.io/v1").endpoint
print(f"seen:     {guessed} (ResourceClaim: {claims}); plural='deviceclasses' has to be given")
assert (guessed, claims) == ("deviceclasss", "resourceclaims")
given = new_class("DeviceClass", version="resource.k8s.io/v1", namespaced=False, plural="deviceclasses")
assert given.endpoint == "deviceclasses"
PYTHON
