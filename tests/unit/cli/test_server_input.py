"""Manifests for the embedded server: older versions and shapes work as in the commands without a server."""

import io
from pathlib import Path

import pytest
import yaml

from reconciler.api.manifests.bundle import bundle, read_bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.convert import read_for_server
from reconciler.control.offline import decide
from reconciler.embedded import ApiServer
from tests.tools.first_revision import composite, first_revision
from tests.tools.short_manifests import CLASS, claim, gpus, together

OLD_SLICE = """\
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: n
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: a, basic: {capacity: {memory: 4Gi}}}]
"""
OLD_CLAIM = """\
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceClaim
metadata: {name: c}
spec: {devices: {requests: [{name: r, deviceClassName: gpu}]}}
"""
OLD_CLASS = CLASS.replace("/v1", "/v1alpha3")
COMPOSITE = yaml.safe_dump(
    first_revision(devices=[composite("gpu.0", memory=4), composite("half", ["gpu.0"], memory=2)])
)


def written(tmp_path: Path, *texts: str) -> list[str]:
    path = tmp_path / "a.yaml"
    path.write_text(together(*texts))
    return [str(path)]


def devices_for(objects: list[dict[str, object]]) -> list[str]:
    documents = [Document(Origin("a.yaml", number), raw) for number, raw in enumerate(objects)]
    report = decide(bundle(documents), Semantics())
    return [str(one.id) for granted in report.granted for one in granted.plans[0].allocation.devices.results]


@pytest.mark.parametrize("old_class", [CLASS, OLD_CLASS], ids=["class of v1", "class of v1alpha3"])
def test_objects_of_v1alpha3_are_loaded_and_get_the_devices_of_allocate(tmp_path: Path, old_class: str):
    paths = written(tmp_path, old_class, OLD_SLICE, OLD_CLAIM)
    raws = read_for_server(paths)
    ApiServer().load(raws)
    assert {raw["apiVersion"] for raw in raws} == {"resource.k8s.io/v1"}
    report = decide(read_bundle(paths, io.BytesIO()), Semantics())
    (granted,) = report.granted
    assert [str(one.id) for one in granted.plans[0].allocation.devices.results] == devices_for(raws)
    assert devices_for(raws) == ["gpu.example.com/p/a"]


def test_slices_of_the_first_revision_are_loaded_with_valid_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    raws = read_for_server(written(tmp_path, COMPOSITE))
    ApiServer().load(raws)
    assert [raw["metadata"]["name"] for raw in raws] == ["s-counters", "s"]
    assert "renamed: device gpu.0 of gpu.nvidia.com/n is now gpu-0" in capsys.readouterr().err


def test_the_order_stays_and_what_is_served_is_not_changed(tmp_path: Path):
    served = yaml.safe_load(gpus("m"))
    raws = read_for_server(written(tmp_path, claim("a"), OLD_SLICE, gpus("m"), OLD_CLASS))
    assert [(raw["kind"], raw["metadata"]["name"]) for raw in raws] == [
        ("ResourceClaim", "a"),
        ("ResourceSlice", "s"),
        ("ResourceSlice", "m-gpus"),
        ("DeviceClass", "gpu"),
    ]
    assert raws[2] == served


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            OLD_CLAIM.replace("r,", "R,"), "ResourceClaim default/c cannot be converted", id="a claim"
        ),
        pytest.param(OLD_SLICE.replace("driver:", "drivr:"), "spec.driver: is missing", id="a slice"),
    ],
)
def test_what_cannot_be_converted_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: str
):
    with pytest.raises(SystemExit) as ended:
        read_for_server(written(tmp_path, text))
    assert ended.value.code == 1
    assert line in capsys.readouterr().err
