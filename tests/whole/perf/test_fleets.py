"""Fleets keep the limits of the API and have the sizes that their workloads speak of."""

from collections import Counter

import pytest

from perf.fleets import gpus, mig, nics, torus

FLEETS = {
    "mig": lambda: mig.fleet(2),
    "gpus": lambda: gpus.fleet(3),
    "torus": lambda: torus.fleet(9),
    "nics": lambda: nics.fleet(2),
}


def slices(fleet):
    return [thing for thing in fleet if thing["kind"] == "ResourceSlice"]


@pytest.mark.parametrize("name", FLEETS)
def test_slices_keep_the_limits_of_the_api(name):
    for spec in (thing["spec"] for thing in slices(FLEETS[name]())):
        devices = spec.get("devices", [])
        drawing = any("consumesCounters" in device for device in devices)
        assert len(devices) <= (64 if drawing else 128)
        assert len(spec.get("sharedCounters", [])) <= 8
        assert not (devices and "sharedCounters" in spec)
        assert all(len(one["counters"]) <= 32 for one in spec.get("sharedCounters", []))
        for device in devices:
            assert len(device.get("attributes", {})) + len(device.get("capacity", {})) <= 32
            assert len(device.get("consumesCounters", [])) <= 2


@pytest.mark.parametrize("name", FLEETS)
def test_every_pool_has_as_many_slices_as_it_says(name):
    found = slices(FLEETS[name]())
    count = Counter(thing["spec"]["pool"]["name"] for thing in found)
    assert all(
        thing["spec"]["pool"]["resourceSliceCount"] == count[thing["spec"]["pool"]["name"]] for thing in found
    )
    assert len({thing["metadata"]["name"] for thing in found}) == len(found)


def test_a_node_of_a100_publishes_26_devices_a_gpu_in_five_slices():
    found = slices(mig.fleet(1))
    assert len(found) == 5
    assert sum(len(thing["spec"].get("devices", [])) for thing in found) == 8 * 26


def test_a_torus_publishes_every_sub_slice_at_every_place_and_knows_its_hosts():
    devices = [device for thing in slices(torus.fleet(1)) for device in thing["spec"].get("devices", [])]
    assert len(devices) == 32 * 5 + 8 + 1
    for device in devices:
        (term,) = device["nodeSelector"]["nodeSelectorTerms"]
        hosts = term["matchExpressions"][0]["values"]
        assert len(set(hosts)) == len(hosts) == device["attributes"]["hosts"]["int"]
        assert set(device["consumesCounters"][0]["counters"]) == set(hosts)


def test_a_fleet_is_the_same_every_time():
    assert list(mig.fleet(2)) == list(mig.fleet(2))
