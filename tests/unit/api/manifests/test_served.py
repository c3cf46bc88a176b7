"""What manifests become before a server gets them."""

from reconciler.api.manifests.bundle import as_served
from reconciler.embedded import ApiServer
from tests.tools.builders import Object, claim, device, devices, resource_slice


def mixed(name: str, *content: Object, slices: int = 1) -> Object:
    made = resource_slice(name, content, slices=slices, nodeName="n")
    made["spec"]["sharedCounters"] = [{"name": "g", "counters": {"m": {"value": "4"}}}]
    return made


def test_counters_and_devices_of_one_slice_are_served_in_two():
    told: list[str] = []
    counters, found = as_served([mixed("s", device("a", draws={"g": {"m": 1}}))], told.append)
    assert [one["metadata"]["name"] for one in (counters, found)] == ["s-counters", "s"]
    assert "devices" not in counters["spec"]
    assert "sharedCounters" not in found["spec"]
    assert {one["spec"]["pool"]["resourceSliceCount"] for one in (counters, found)} == {2}
    assert told == ["ResourceSlice s: counters and devices must be in separate slices; split into two"]
    ApiServer().load([counters, found])


def test_other_slices_of_the_pool_learn_that_there_are_more():
    plain = resource_slice("t", devices("B"), slices=2, nodeName="n")
    other = resource_slice("u", devices("C"), pool="q", nodeName="n")
    served = as_served([plain, mixed("s", device("A"), slices=2), other], lambda _: None)
    counts = {one["metadata"]["name"]: one["spec"]["pool"]["resourceSliceCount"] for one in served}
    assert counts == {"t": 3, "s-counters": 3, "s": 3, "u": 1}


def test_attributes_without_a_type_get_one_with_a_warning():
    told: list[str] = []
    raw = resource_slice("s", [{"name": "A", "attributes": {"mode": "x"}}], nodeName="n")
    (found,) = as_served([raw], told.append)
    assert found["spec"]["devices"][0]["attributes"] == {"mode": {"string": "x"}}
    assert len(told) == 1


def test_everything_else_stays_as_it_is():
    raws = [claim("c"), resource_slice("s", devices("A"), nodeName="n"), {"kind": "Secret"}]
    told: list[str] = []
    assert as_served(raws, told.append) == raws
    assert told == []
