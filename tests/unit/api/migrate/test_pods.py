"""A pod gets as many devices by claims as it got by requests, and each container those that it asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.migrate.pods import Template, rewrite, template_named
from reconciler.api.migrate.special_claims import Resources, Wanted, mapping
from reconciler.api.objects.core import GATE
from reconciler.errors import Malformed

GPU = "example.com/gpu"
KNOWN = Resources({GPU: Wanted("gpu.example.com")})
Json = dict[str, Any]


def container(name: str, count: object = None, **more: Any) -> Json:
    resources = {} if count is None else {"resources": {"limits": {GPU: count, "cpu": "1"}}}
    return {"name": name, "image": "i", **resources, **more}


def pod(mains: list[Json], inits: list[Json] | None = None, **more: Any) -> Json:
    return {**({"initContainers": inits} if inits else {}), "containers": mains, **more}


def done(spec: Json, resources: Resources = KNOWN, *, gate: bool = True) -> Any:
    found = rewrite(spec, resources, gate=gate, where="Pod p")
    assert found is not None
    return found


def devices(spec: Json) -> dict[str, int]:
    """Claim -> its devices; the name of a template ends with its count."""
    return {
        one["name"]: int(one["resourceClaimTemplateName"].rpartition("-")[2])
        for one in spec["resourceClaims"]
    }


def used(one: Json) -> list[str]:
    return [claim["name"] for claim in (one.get("resources") or {}).get("claims", ())]


def test_request_and_limit_become_one_claim_and_nothing_of_them_stays():
    spec = pod([container("main", "2")])
    spec["containers"][0]["resources"]["requests"] = {GPU: 2}
    found = done(spec)
    (main,) = found.spec["containers"]
    assert main["resources"] == {"limits": {"cpu": "1"}, "claims": [{"name": "main-gpu-example-com"}]}
    told = found.spec["resourceClaims"]
    assert told == [{"name": "main-gpu-example-com", "resourceClaimTemplateName": "gpu.example.com-2"}]
    assert found.spec["schedulingGates"] == [{"name": GATE}]
    (template,) = found.templates
    assert template.spec() == {
        "devices": {
            "requests": [{"name": "devices", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}]
        }
    }
    assert spec["containers"][0]["resources"]["limits"][GPU] == "2"  # the input stays


def test_what_is_there_stays():
    old = [{"name": "main-gpu-example-com", "resourceClaimName": "x"}]
    gates = [{"name": "example.com/other"}, {"name": GATE}]
    found = done(pod([container("main", 1)], resourceClaims=old, schedulingGates=gates))
    assert [one["name"] for one in found.spec["resourceClaims"]] == [
        "main-gpu-example-com", "main-gpu-example-com-2",
    ]  # fmt: skip
    assert found.spec["schedulingGates"] == gates
    assert "schedulingGates" not in done(pod([container("main", 1)]), gate=False).spec
    assert "schedulingGates" not in done(pod([container("main", 1)], nodeName="n")).spec


def test_init_containers_use_the_claims_of_those_that_start_later():
    inits = [container("large", 4), container("side", 1, restartPolicy="Always"), container("small", 1)]
    found = done(pod([container("main", 2)], inits))
    large, side, small = found.spec["initContainers"]
    told = devices(found.spec)
    assert told == {"side-gpu-example-com": 1, "main-gpu-example-com": 2, "init-gpu-example-com": 1}
    assert used(large) == ["side-gpu-example-com", "main-gpu-example-com", "init-gpu-example-com"]
    assert used(side) == ["side-gpu-example-com"]
    assert used(small) == ["main-gpu-example-com"]


def test_resources_that_stand_for_nothing_stay_and_are_named():
    spec = pod([{"name": "a", "resources": {"limits": {"example.com/license": 1, GPU: 1}}}])
    found = done(spec)
    assert found.unmapped == ("example.com/license",)
    assert found.spec["containers"][0]["resources"]["limits"] == {"example.com/license": 1}
    only = {"limits": {"example.com/license": 1}}
    assert done(pod([{"name": "a", "resources": only}])).spec["containers"][0]["resources"] == only


@pytest.mark.parametrize(
    "share", ["gpumem", "gpucores", "gpumem-percentage", "gpu.shared", "priority", "vcore", "millicores"]
)
def test_a_share_of_a_device_does_not_become_a_whole_one(share: str):
    """Wherever in the pod it is asked for; none of it is no share."""
    name = f"{GPU.rpartition('/')[0]}/{share}"
    for shared in ([{GPU: 1, name: 3000}], [{GPU: 1}, {name: 3000}]):
        containers = [{"name": f"c{at}", "resources": {"limits": one}} for at, one in enumerate(shared)]
        with pytest.raises(Malformed) as raised:
            rewrite(pod(containers), KNOWN, gate=True, where="Pod p")
        assert str(raised.value).startswith(f"Pod p: {name}: asks for a share of {GPU}")
    assert done(pod([{"name": "a", "resources": {"limits": {GPU: 1, name: 0}}}])).templates
    assert not done(pod([{"name": "a", "resources": {"limits": {name: 3000}}}])).templates
    other = f"other.example.org/{share}"
    assert done(pod([{"name": "a", "resources": {"limits": {GPU: 1, other: 1}}}])).unmapped == (other,)


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/use-gputype",
        "nvidia.com/nouse-gpuuuid",
        "scheduling.koordinator.sh/device-allocate-hint",
        "scheduling.koordinator.sh/gpu-partition-spec",
    ],
)
def test_a_choice_among_devices_is_not_dropped(name: str):
    told = f"Pod p: metadata.annotations[{name}]: chooses among devices"
    spec = pod([container("main", 1)])
    with pytest.raises(Malformed) as raised:
        rewrite(spec, KNOWN, gate=True, where="Pod p", annotations=["a/b", name])
    assert str(raised.value).startswith(told)
    assert rewrite(pod([{"name": "a"}]), KNOWN, gate=True, where="Pod p", annotations=[name]) is None


@pytest.mark.parametrize(
    "name", ["cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "node.kubernetes.io/x"]
)
def test_resources_of_kubernetes_are_not_looked_at(name: str):
    spec = pod([{"name": "a", "resources": {"limits": {name: "1"}}}])
    assert rewrite(spec, KNOWN, gate=True, where="Pod p") is None


@pytest.mark.parametrize(
    ("limits", "requests", "told"),
    [
        ({GPU: "1500m"}, {}, "1500m is not a whole number of devices"),
        ({GPU: "-1"}, {GPU: "-1"}, "-1 is not a whole number of devices"),
        ({GPU: "many"}, {}, "'many' is not a quantity"),
        ({GPU: 2}, {GPU: 1}, "limit 2 and request 1 differ"),
        ({}, {GPU: 1}, "request 1 has no limit; the API server requires one"),
        ({GPU: 33}, {}, "33 devices; a claim has at most 32"),
    ],
)
def test_what_cannot_be_rewritten_names_container_and_resource(limits: Json, requests: Json, told: str):
    spec = pod([{"name": "a", "resources": {"limits": limits, "requests": requests}}])
    with pytest.raises(Malformed) as raised:
        rewrite(spec, KNOWN, gate=True, where="Pod p")
    assert str(raised.value) == f"Pod p: container a: {GPU}: {told}"


def test_names_of_claims_are_labels_of_their_own():
    many = [container(name, 1) for name in ("x" * 63, "x" * 62 + "y")]
    names = list(devices(done(pod(many)).spec))
    assert len(set(names)) == 2
    assert all(len(name) <= 63 for name in names)


def test_zero_devices_are_no_claim():
    found = done(pod([container("main", 0)]))
    assert "resourceClaims" not in found.spec
    assert found.spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert "schedulingGates" not in found.spec


@given(
    inits=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4),
    mains=st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
def test_a_pod_holds_what_kubernetes_counts_for_it(inits: list[tuple[int, bool]], mains: list[int]):
    """The effective request: containers and sidecars run together, other init containers before them."""
    lasting = [count for count, stays in inits if stays]
    wanted = sum(lasting) + sum(mains)
    for at, (count, stays) in enumerate(inits):
        if not stays:
            wanted = max(wanted, count + sum(n for n, sidecar in inits[:at] if sidecar))
    spec = pod(
        [container(f"m{n}", count) for n, count in enumerate(mains)],
        [
            container(f"i{n}", count, **({"restartPolicy": "Always"} if stays else {}))
            for n, (count, stays) in enumerate(inits)
        ],
    )
    found = done(spec).spec
    held = devices(found) if "resourceClaims" in found else {}
    assert sum(held.values()) == wanted
    running: set[str] = set()
    for (count, stays), one in zip(inits, found.get("initContainers", ()), strict=True):
        assert sum(held[name] for name in used(one)) >= count
        assert not running & {*used(one)}  # nobody shares devices with a sidecar that runs
        running |= {*used(one)} if stays else set()
    for count, one in zip(mains, found["containers"], strict=True):
        assert sum(held[name] for name in used(one)) == count
        assert not running & {*used(one)}
        running |= {*used(one)}


@pytest.mark.parametrize(
    ("resource", "device_class", "selector"),
    [
        ("nvidia.com/gpu", "gpu.nvidia.com", ""),
        (
            "nvidia.com/mig-1g.5gb",
            "mig.nvidia.com",
            'device.attributes["gpu.nvidia.com"].profile == "1g.5gb"',
        ),
        ("deviceclass.resource.kubernetes.io/fast", "fast", ""),
    ],
)
def test_known_names_need_no_mapping(resource: str, device_class: str, selector: str):
    found = mapping([]).wanted(resource)
    assert found is not None
    assert (found.device_class, found.selector) == (device_class, selector)


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("1g.5gb.me", "1g.5gb+me"),
        ("1g.23gb.me", "1g.23gb+me"),
        ("7g.186gb", "7g.186gb"),
        ("1g.24gb.gfx", "1g.24gb+gfx"),
        ("4g.96gb.gfx", "4g.96gb+gfx"),
        ("2g.48gb.me.all", "2g.48gb+me.all"),
        ("2g.48gb-me", "2g.48gb-me"),
    ],
)
def test_every_profile_that_the_device_plugin_names_is_known(name: str, profile: str):
    """rm.AddDefaultResourcesToConfig of the plugin, and MigProfileInfo.String of go-nvlib."""
    found = mapping([])
    wanted = found.wanted(f"nvidia.com/mig-{name}")
    assert wanted is not None
    assert wanted.selector == f'device.attributes["gpu.nvidia.com"].profile == "{profile}"'
    assert template_named(Template(wanted, 12).name, found) == Template(wanted, 12)


@pytest.mark.parametrize(
    "name", ["1g.5gb.shared", "1g.5gb+me", "1c.2g.10gb", "1g.5gb.all", "1g.5gb-gfx", "strategy"]
)
def test_what_no_profile_is_called_is_unknown(name: str):
    """A shared partition among them: a claim would be for the whole one."""
    assert mapping([]).wanted(f"nvidia.com/mig-{name}") is None


def test_a_container_may_ask_for_profiles_whose_names_differ_in_a_dot():
    asked = {"limits": {"nvidia.com/mig-1g.24gb.me": 1, "nvidia.com/mig-1g.24gb-me": 1}}
    found = done(pod([{"name": "main", "resources": asked}]), mapping([]))
    told = [one["name"] for one in found.spec["resourceClaims"]]
    assert told == ["main-mig-nvidia-com-1g-24gb-me", "main-mig-nvidia-com-1g-24gb-me-2"]
    seen = [one["resourceClaimTemplateName"] for one in found.spec["resourceClaims"]]
    assert seen == ["mig.nvidia.com-1g.24gb.me-1", "mig.nvidia.com-1g.24gb-me-1"]


def test_a_mapping_file_comes_first_and_has_to_make_sense():
    made = mapping([], {"resources": {"nvidia.com/gpu": {"class": "other"}}}, "m.yaml")
    assert made.wanted("nvidia.com/gpu") == Wanted("other")
    for wrong, told in (
        ([], "resources: must be a map"),
        ({"a": {}}, "needs a class"),
        ({"a": {"class": "c", "count": 1}}, "unknown field count"),
        ({"a": {"class": "c", "selector": "true"}}, "a selector needs a name"),
        ({"a": {"class": "c", "name": 1}}, "must be texts"),
    ):
        with pytest.raises(Malformed, match=f"m.yaml: .*{told}"):
            mapping([], {"resources": wrong}, "m.yaml")
    assert mapping([]).wanted("example.com/x") is None
