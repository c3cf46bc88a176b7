"""Which names change, into what, and who is told."""

import pytest

from reconciler.api.convert.layout import as_key, as_label, valid_names
from reconciler.api.validation.fields import MAX_IDENTIFIER, MAX_LABEL, is_dns_label, is_key
from tests.tools.builders import (
    claim,
    device,
    held,
    hold,
    request,
    resource_slice,
    selectors,
    taint,
    taint_rule,
)
from tests.tools.conversion_worlds import conversion


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gpu-0", "gpu-0"),
        ("gpu-0-mig-1g.5gb-0", "gpu-0-mig-1g-5gb-0"),
        ("memorySlice0", "memory-slice-0"),
        ("GPU_0", "gpu-0"),
        ("gi:memory", "gi-memory"),
        ("...", "x"),
        ("a" * 70, "a" * 63),
    ],
)
def test_a_label_is_the_closest_there_is(before: str, after: str):
    assert as_label(before) == after
    assert is_dns_label(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("copy-engines", "copy_engines"),
        ("example.com/copy-engines", "example.com/copy_engines"),
        ("1g", "_1g"),
        ("k" * 40, "k" * 32),
    ],
)
def test_a_key_is_the_closest_there_is(before: str, after: str):
    assert as_key(before) == after
    assert is_key(after)


def test_names_that_would_meet_are_numbered_and_valid_ones_stay():
    assert valid_names(["a.b", "a-b", "a_b", "A.B"], is_dns_label, as_label, MAX_LABEL) == {
        "a.b": "a-b-2",
        "a-b": "a-b",
        "a_b": "a-b-3",
        "A.B": "a-b-4",
    }
    assert valid_names(["a-b", "a_b"], is_key, as_key, MAX_IDENTIFIER) == {"a-b": "a_b_2", "a_b": "a_b"}


def test_a_long_name_makes_room_for_its_number():
    found = valid_names(["x" * 70, "x" * 80], is_dns_label, as_label, MAX_LABEL)
    assert list(found.values()) == ["x" * 63, "x" * 61 + "-2"]


RAW = resource_slice(
    "s",
    [device("gpu.0", {"pci-root": "r"}, {"copy-engines": "7"}, {"gpu.0": {"Memory": 1}})],
    nodeName="n",
    sharedCounters=[{"name": "gpu.0", "counters": {"Memory": {"value": "1"}}}],
)


def test_every_new_name_is_in_the_map():
    assert [tuple(rename) for rename in conversion(RAW).renames] == [
        ("attribute", "d", "pci-root", "pci_root"),
        ("capacity", "d", "copy-engines", "copy_engines"),
        ("device", "d/p", "gpu.0", "gpu-0"),
        ("counter set", "d/p", "gpu.0", "gpu-0"),
        ("counter", "d/p, counter set gpu-0", "Memory", "memory"),
    ]


def test_what_is_drawn_and_published_is_renamed_alike():
    counters, content = conversion(RAW).objects
    assert counters["spec"]["sharedCounters"] == [{"name": "gpu-0", "counters": {"memory": {"value": "1"}}}]
    assert content["spec"]["devices"] == [
        device("gpu-0", {"pci_root": "r"}, {"copy_engines": "7"}, {"gpu-0": {"memory": 1}})
    ]


def test_claims_that_hold_a_device_hold_it_under_its_new_name():
    *_, holder = conversion(RAW, held("h", hold("gpu.0"))).objects
    (result,) = holder["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-0"


def test_a_taint_rule_for_a_device_follows_it():
    rule = taint_rule("t", {"driver": "d", "pool": "p", "device": "gpu.0"}, taint("k"))
    *_, made = conversion(RAW, rule).objects
    assert made["spec"]["deviceSelector"]["device"] == "gpu-0"
    assert made["apiVersion"] == "resource.k8s.io/v1"


def test_a_claim_that_names_a_renamed_key_is_told():
    wanted = claim("c", request(selectors=selectors('device.capacity["d"]["copy-engines"] == quantity("7")')))
    assert conversion(RAW, wanted).notes[-1:] == (
        "ResourceClaim default/c names copy-engines, which is now copy_engines",
    )


def test_a_driver_has_one_name_for_a_key_in_all_its_pools():
    other = resource_slice(
        "t", [device("x", capacity={"copy_engines": "1", "copy-engines": "1"})], pool="q", nodeName="n"
    )
    made = {raw["metadata"]["name"]: raw for raw in conversion(RAW, other).objects}
    assert list(made["s"]["spec"]["devices"][0]["capacity"]) == ["copy_engines_2"]
    assert list(made["t"]["spec"]["devices"][0]["capacity"]) == ["copy_engines", "copy_engines_2"]


def test_a_key_with_a_domain_is_told_by_what_changed():
    raw = resource_slice("s", [device("a", {"example.com/pci-root": "r"})], nodeName="n")
    wanted = claim("c", request(selectors=selectors('device.attributes["example.com"]["pci-root"] == "r"')))
    assert conversion(raw, wanted).notes == ("ResourceClaim default/c names pci-root, which is now pci_root",)


def test_an_exclusion_that_names_a_renamed_key_is_told():
    raw = resource_slice(
        "s",
        [
            device(
                "a",
                {"pci-root": "r"},
                compatibleOnlyWith={"expression": 'device.attributes["d"]["pci-root"] == "r"'},
            )
        ],
        nodeName="n",
    )
    assert conversion(raw).notes == ("ResourceSlice s names pci-root, which is now pci_root",)
