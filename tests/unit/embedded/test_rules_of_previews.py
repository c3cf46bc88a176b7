"""Validation of fields of previews: SCC-1, SCC-3, AFF-6."""

from typing import Any

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import CLAIMS, SLICES, call, causes, device_slice, ok

Object = dict[str, Any]
FROM = {"valueFrom": {"capacityName": "d.example/bandwidth"}}
COUNTER = "spec.devices[0].consumesCounters[0].counters[bandwidth]"
SHARED = "spec.sharedCounters[0].counters[bandwidth]"
AFFINITY = "spec.sharingAffinity"


def drawing(counter: Object) -> Object:
    draws = [{"counterSet": "port", "counters": {"bandwidth": counter}}]
    return device_slice(devices=[{"name": "d", "consumesCounters": draws}])


def published(counter: Object) -> Object:
    return device_slice(devices=None, sharedCounters=[{"name": "port", "counters": {"bandwidth": counter}}])


def affinity(*entries: Object, **fields: Any) -> Object:
    return device_slice(**{"devices": None, "sharingAffinity": list(entries), **fields})


ACCEPTED = {
    "a draw of what is requested": drawing(FROM),
    "a counter with a policy": published(
        {"value": "100G", "requestPolicy": {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}}
    ),
    "extractors": affinity(
        {"cel": {"subnet": 'object.kind == "NIC" ? object.subnet : ""'}},
        {"selector": {"cel": {"expression": "device.driver == 'd'"}}, "cel": {"subnet": "object.subnet"}},
    ),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=list(ACCEPTED))
def test_what_is_accepted_is_kept(body: Object):
    made = ok(ApiServer(), "POST", SLICES, body)["spec"]
    found = {key: made[key] for key in body["spec"] if body["spec"][key] is not None}
    assert found == {key: value for key, value in body["spec"].items() if value is not None}


REFUSED: dict[str, tuple[Object, str, str]] = {
    "two amounts": (drawing({"value": "1", **FROM}), COUNTER, "Invalid"),
    "no capacity": (drawing({"valueFrom": {}}), f"{COUNTER}.valueFrom.capacityName", "Required"),
    "a capacity of no name": (
        drawing({"valueFrom": {"capacityName": "a b"}}), f"{COUNTER}.valueFrom.capacityName", "Invalid",
    ),
    "a counter that is requested itself": (
        published({"value": "1", **FROM}), f"{SHARED}.valueFrom", "Forbidden",
    ),
    "a policy beyond the counter": (
        published({"value": "1", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}),
        f"{SHARED}.requestPolicy.validValues", "Invalid",
    ),
    "extractors beside devices": (
        affinity({"cel": {"a": "object.a"}}, devices=[{"name": "d"}]), "spec", "Invalid",
    ),
    "no expression": (affinity({"cel": {}}), f"{AFFINITY}[0].cel", "Required"),
    "an expression of a number": (affinity({"cel": {"a": "1"}}), f"{AFFINITY}[0].cel[a]", "Invalid"),
    "an expression of a device": (
        affinity({"cel": {"a": "device.driver"}}), f"{AFFINITY}[0].cel[a]", "Invalid",
    ),
    "a selector that does not compile": (
        affinity({"selector": {"cel": {"expression": "object.a"}}, "cel": {"a": "''"}}),
        f"{AFFINITY}[0].selector.cel.expression", "Invalid",
    ),
    "one key twice": (
        affinity({"cel": {"a": "''"}}, {"cel": {"a": "''"}}), f"{AFFINITY}[1].cel[a]", "Invalid",
    ),
    "nine keys": (affinity({"cel": {f"k{at}": "''" for at in range(9)}}), f"{AFFINITY}[0].cel", "TooMany"),
    "nine entries": (affinity(*[{"cel": {f"k{at}": "''"}} for at in range(9)]), AFFINITY, "TooMany"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "field", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_an_api_server_would_refuse(body: Object, field: str, reason: str):
    assert causes(ApiServer(), "POST", SLICES, body) == [(field, f"FieldValue{reason}")]


def test_results_say_at_most_two_counter_sets():
    api = ApiServer()
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    claim = {"metadata": {"name": "c"}, "spec": spec}
    made = ok(api, "POST", CLAIMS, claim)
    result = {"request": "r", "driver": "d.example", "pool": "p", "device": "d"}
    for count, expected in ((2, 200), (3, 422)):
        counters = [{"counterSet": f"s{at}", "counters": {"c": "1500m"}} for at in range(count)]
        results = [{**result, "consumedCounters": counters}]
        body = {**made, "status": {"allocation": {"devices": {"results": results}}}}
        assert call(api, "PUT", f"{CLAIMS}/c/status", body)[0] == expected
        made = ok(api, "GET", f"{CLAIMS}/c")
    assert made["status"]["allocation"]["devices"]["results"][0]["consumedCounters"][1]["counterSet"] == "s1"
