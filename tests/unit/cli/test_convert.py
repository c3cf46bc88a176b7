"""Manifests of any version become objects of this one, also for the embedded server."""

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.api.manifests.bundle import bundle, read_bundle
from reconciler.api.manifests.documents import Document, Origin, of_text
from reconciler.api.objects.semantics import NEWEST_MINOR, Semantics
from reconciler.api.versions.kinds import OLDEST_MINOR
from reconciler.cli import main
from reconciler.cli.convert import read_for_server
from reconciler.cli.exits import Exit, NoAnswer
from reconciler.control.offline import decide
from reconciler.embedded import ApiServer
from tests.tools.builders import (
    counter_slice,
    device,
    device_class,
    devices,
    resource_slice,
    taint,
    taint_rule,
)
from tests.tools.checkout import SHARED, needs
from tests.tools.conversion_worlds import conversion, pool_of
from tests.tools.examples import seeds
from tests.tools.first_revision import TEXT, composite, first_revision, four_partitions, two_gpus
from tests.tools.gangs import pod_group
from tests.tools.release_schemas import assert_published
from tests.tools.short_manifests import CLASS, claim, gpus, pod, together

SAMPLES = SHARED / "samples"
RELEASES = range(OLDEST_MINOR, NEWEST_MINOR + 1)
MIG = 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"'


def run(tmp_path: Path, *texts: str, options: tuple[str, ...] = ()) -> Result:
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(main, ["convert", "-f", str(tmp_path), *options])


def written(result: Result) -> list[dict[str, Any]]:
    return [made for made in yaml.safe_load_all(result.stdout) if made]


def dumped(*objects: dict[str, Any]) -> str:
    return yaml.safe_dump_all(objects)


@needs(TEXT)
class TestTwoGpus:
    def test_the_first_revision_becomes_valid_objects_with_the_same_allocations(self, tmp_path: Path):
        result = run(tmp_path, dumped(two_gpus(), four_partitions(), device_class("mig.nvidia.com", MIG)))
        assert result.exit_code == 0
        for made in written(result):
            assert_published(made, "1.37")
        report = decide(bundle(of_text("f.yaml", result.stdout)), Semantics("1.36"))
        (granted,) = report.granted
        assert [one.device for one in granted.plans[0].allocation.devices.results] == [
            "gpu-0-mig-1g-5gb-0",
            "gpu-0-mig-1g-5gb-1",
            "gpu-0-mig-2g-10gb-2-3",
            "gpu-0-mig-3g-20gb-4-7",
        ]

    def test_fixes_and_renames_are_reported(self, tmp_path: Path):
        result = run(tmp_path, dumped(two_gpus(), four_partitions()))
        lines = result.stderr.splitlines()
        assert any("spec.spec: belongs in a ResourceClaimTemplate" in line for line in lines)
        assert "note: slice s is split into s-counters, s" in lines
        assert "renamed: capacity copy-engines of gpu.nvidia.com is now copy_engines" in lines
        name = "gpu-0-mig-1g.5gb-0"
        assert f"renamed: device {name} of gpu.nvidia.com/n is now {name.replace('.', '-')}" in lines

    def test_renames_can_be_written_to_a_file(self, tmp_path: Path):
        path = tmp_path / "map.txt"
        result = run(tmp_path, dumped(two_gpus()), options=("--rename-map", str(path)))
        assert "renamed:" not in result.stderr
        found = yaml.safe_load(path.read_text())
        assert {
            "kind": "capacity",
            "where": "gpu.nvidia.com",
            "before": "copy-engines",
            "after": "copy_engines",
        } in found


@pytest.mark.parametrize("seed", seeds(40))
def test_output_is_valid_in_the_schemas_of_each_release(seed: int):
    for release in RELEASES:
        for made in conversion(*pool_of(seed), release=release).objects:
            assert_published(made, f"1.{release}")


@pytest.mark.parametrize("release", RELEASES)
def test_an_older_release_gets_the_same_pools_or_none(release: int):
    """What is read of the older version is what the newest has, but for fields that change no answer."""
    written = 0
    for seed in range(40):
        old = conversion(*pool_of(seed), release=release)
        if old.problems:
            assert release < 33 or not old.objects
            continue
        again = conversion(*old.objects)
        assert answers(again.objects) == answers(conversion(*pool_of(seed)).objects)
        written += bool(old.objects)
    assert (written > 20) == (release > 32)


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_written_for_a_release_passes_its_schema_and_the_doctor(release: int, tmp_path: Path):
    rich = claim("rich").replace("count: 1", "count: 1, tolerations: [{operator: Exists}]")
    result = run(
        tmp_path,
        together(CLASS, gpus("n1"), claim("a"), rich),
        dumped(pod_group(), taint_rule("r", {"driver": "d"}, taint("k"))),
        options=("--to", f"1.{release}"),
    )
    lost = {
        "DeviceTaintRule r": release < 33,
        "PodGroup default/g": release < 36,
        "ResourceClaim default/rich": release < 33,
    }
    said = [line.split(" cannot")[0] for line in result.stderr.splitlines() if line.startswith("Error")]
    assert set(said) == {f"Error: {name}" for name, is_lost in lost.items() if is_lost}
    for made in written(result):
        assert_published(made, f"1.{release}")
    path = tmp_path / "new.yaml"
    path.write_text(result.stdout)
    found = CliRunner().invoke(main, ["doctor", "-f", str(path), "-o", "json"])
    assert {one["check"] for one in json.loads(found.stdout)["findings"]} <= {"old-version"}


def test_an_old_taint_rule_is_written_for_the_releases_that_have_its_selectors(tmp_path: Path):
    old = {**taint_rule("r", {"deviceClassName": "c"}, taint("k")), "apiVersion": "resource.k8s.io/v1alpha3"}
    for release in RELEASES:
        result = run(tmp_path, dumped(old), options=("--to", f"1.{release}"))
        if release in (33, 34):
            assert written(result)[0] == old
        else:
            assert result.exit_code == Exit.NO
            assert written(result) == []


def test_doctor_does_not_promise_that_every_old_object_can_be_written(tmp_path: Path):
    """`convert` writes each object with the finding, or names a field of it, as the hint says."""
    rule = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "r"}}
    expression = {"cel": {"expression": "true"}}
    for selector in ({"driver": "d"}, {"deviceClassName": "c"}, {"selectors": [expression]}):
        path = tmp_path / "0.yaml"
        path.write_text(dumped({**rule, "spec": {"deviceSelector": selector, "taint": taint("k")}}))
        found = CliRunner().invoke(main, ["doctor", "-f", str(path), "-o", "json"])
        (old,) = [one for one in json.loads(found.stdout)["findings"] if one["check"] == "old-version"]
        assert old["remedy"].endswith("writes it, or names the field that v1 does not have.")
        result = run(tmp_path, path.read_text())
        assert len(written(result)) + len(re.findall(r"spec\.deviceSelector\.\w+: ", result.stderr)) == 1


def test_a_counter_set_that_the_pool_lacks_is_named_where_a_release_joins_sets_and_devices(tmp_path: Path):
    sets = counter_slice("sets", {"set": {"memory": 1}}, slices=2, nodeName="n")
    content = resource_slice("devices", [device("a", draws={"sett": {"memory": 1}})], slices=2, nodeName="n")
    for release in (33, 34):
        result = run(tmp_path, dumped(sets, content), options=("--to", f"1.{release}"))
        assert result.exit_code == Exit.NO
        assert "devices draw from counter set sett, which no slice of the pool has" in result.stderr


def answers(objects: Iterable[dict[str, Any]]) -> list[Any]:
    """Devices and counters of slices, whatever their slices are."""
    found = [
        (kind, json.dumps(one, sort_keys=True))
        for raw in objects
        for kind in ("devices", "sharedCounters")
        for one in raw["spec"].get(kind, ())
    ]
    return sorted(found)


@needs(SAMPLES)
def test_published_manifests_of_older_versions_are_valid_after_conversion(tmp_path: Path):
    count = 0
    for path in sorted(SAMPLES.glob("*/history/**/*.yaml"))[::3]:
        found = read_bundle([str(path)], io.BytesIO())
        kinds = ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
        if any(found.entries.get(kind) for kind in kinds):
            result = CliRunner().invoke(main, ["convert", "-f", str(path)], catch_exceptions=False)
            for made in written(result):
                if made["apiVersion"] == "resource.k8s.io/v1":
                    assert_published(made, "1.37")
                    count += 1
    assert count > 30


def test_converted_objects_convert_to_themselves(tmp_path: Path):
    once = run(tmp_path, together(CLASS, gpus("n1"), claim("a"), pod("p", "gpu=a")))
    assert once.exit_code == 0
    again = run(tmp_path, once.stdout)
    assert again.stdout == once.stdout
    assert again.stderr == ""


def test_json_is_one_list(tmp_path: Path):
    result = run(tmp_path, together(CLASS, gpus("n1")), options=("-o", "json"))
    found = json.loads(result.stdout)
    assert [made["kind"] for made in found["items"]] == ["DeviceClass", "ResourceSlice"]


def test_a_pool_that_cannot_be_converted_is_reported_and_the_rest_is_written(tmp_path: Path):
    crowded = resource_slice("s", [device("a", {f"a{n}": n for n in range(33)})], nodeName="n")
    result = run(tmp_path, dumped(crowded, resource_slice("t", devices("b"), pool="q", nodeName="n")))
    assert result.exit_code == 1
    assert [made["metadata"]["name"] for made in written(result)] == ["t"]
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: pool d/p cannot be converted: ResourceSlice s: spec.devices[0]: ")


def test_a_claim_that_a_server_would_reject_is_reported(tmp_path: Path):
    bad = claim("a").replace("count: 1", "count: -1")
    result = run(tmp_path, together(CLASS, claim("b"), bad))
    assert result.exit_code == 1
    assert [made["metadata"]["name"] for made in written(result)] == ["gpu", "b"]


@needs(TEXT)
def test_ordered_by_size_a_claim_that_matches_all_gets_the_smallest(tmp_path: Path):
    """The text lists each whole GPU before its partitions, so first fit allocates the whole GPU."""
    texts = (CLASS.replace("gpu.example.com", "gpu.nvidia.com"), claim("a"))
    given = []
    for options in ((), ("--order-by-size",)):
        result = run(tmp_path, dumped(two_gpus()), *texts, options=options)
        report = decide(bundle(of_text("f.yaml", result.stdout)), Semantics("1.36"))
        (granted,) = report.granted
        given += [one.device for one in granted.plans[0].allocation.devices.results]
    assert given == ["gpu-0", "gpu-0-mig-1g-5gb-0"]
    assert "note: pool gpu.nvidia.com/n: smaller devices come first now" in result.stderr.splitlines()


OTHER = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: x}
spec: {replicas: 2, template: {spec: {containers: [{name: c, image: i, args: ["yes"]}]}}}
"""


def test_other_kinds_are_left_out_and_counted(tmp_path: Path):
    result = run(tmp_path, together(CLASS, OTHER, gpus("n1")))
    assert [made["kind"] for made in written(result)] == ["DeviceClass", "ResourceSlice"]
    assert result.stderr.splitlines() == ["ignored: 1 Deployment"]


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_other_kinds_are_kept_on_request_unchanged_and_in_their_place(tmp_path: Path, output: str):
    texts = together(CLASS, OTHER, gpus("n1"), OTHER.replace("apps/v1", "example.com/v1"), claim("a"))
    result = run(tmp_path, texts, options=("--keep-other-kinds", "-o", output))
    found = json.loads(result.stdout)["items"] if output == "json" else written(result)
    kinds = ["DeviceClass", "Deployment", "ResourceSlice", "Deployment", "ResourceClaim"]
    assert [made["kind"] for made in found] == kinds
    assert found[1] == yaml.safe_load(OTHER)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_split_slice_keeps_its_place_among_other_kinds(tmp_path: Path):
    counters = [{"name": "g", "counters": {"memory": {"value": "2"}}}]
    mixed = resource_slice(
        "s", [device("a", draws={"g": {"memory": 1}})], nodeName="n", sharedCounters=counters
    )
    texts = "---\n".join((OTHER, dumped(mixed), OTHER.replace("d,", "e,")))
    found = written(run(tmp_path, texts, options=("--keep-other-kinds",)))
    assert [made["metadata"]["name"] for made in found] == ["d", "s-counters", "s", "e"]


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


def written_for_server(tmp_path: Path, *texts: str) -> list[str]:
    path = tmp_path / "a.yaml"
    path.write_text(together(*texts))
    return [str(path)]


def devices_for(objects: list[dict[str, object]]) -> list[str]:
    documents = [Document(Origin("a.yaml", number), raw) for number, raw in enumerate(objects)]
    report = decide(bundle(documents), Semantics())
    return [str(one.id) for granted in report.granted for one in granted.plans[0].allocation.devices.results]


@pytest.mark.parametrize("old_class", [CLASS, OLD_CLASS], ids=["class of v1", "class of v1alpha3"])
def test_objects_of_v1alpha3_are_loaded_and_get_the_devices_of_allocate(tmp_path: Path, old_class: str):
    paths = written_for_server(tmp_path, old_class, OLD_SLICE, OLD_CLAIM)
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
    raws = read_for_server(written_for_server(tmp_path, COMPOSITE))
    ApiServer().load(raws)
    assert [raw["metadata"]["name"] for raw in raws] == ["s-counters", "s"]
    assert "renamed: device gpu.0 of gpu.nvidia.com/n is now gpu-0" in capsys.readouterr().err


def test_the_order_stays_and_what_is_served_is_not_changed(tmp_path: Path):
    served = yaml.safe_load(gpus("m"))
    raws = read_for_server(written_for_server(tmp_path, claim("a"), OLD_SLICE, gpus("m"), OLD_CLASS))
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
    with pytest.raises(NoAnswer):
        read_for_server(written_for_server(tmp_path, text))
    assert line in capsys.readouterr().err
