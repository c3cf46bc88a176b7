"""How many pods fit, against placing them one by one, and the cases that operators meet."""

from typing import Any

import pytest

from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import Fit, question_in
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.claims import ResourceClaimTemplate
from reconciler.api.objects.questions import MAX_PODS, MAX_SETS, AskedSet
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.validating import without_nulls
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from tests.tools.examples import scaled
from tests.tools.fitting_fleet import FLEET, ask, machine, pods
from tests.tools.fitting_worlds import domains, fit_world, hold_seats, one_by_one, wrong
from tests.tools.small_fleet import Object, claim, held, pod, template


def nodes(found: Fit) -> list[list[str]]:
    return [[seat.node for seat in one.seats] for one in found.sets]


def test_sets_fit_beside_each_other_in_their_order():
    found = ask(FLEET, pods("first", 3), pods("second", 2, gpus="two"), pods("third", 2))
    assert nodes(found) == [["a", "a", "b"], ["c", "c"], ["b"]]
    assert [one.short is None for one in found.sets] == [True, True, False]
    short = found.sets[2].short
    assert short is not None
    assert (short.reason, short.lacks) == ("GangUnplaced", (("devices of class gpu", 1),))


def test_sets_share_the_room_of_nodes():
    """The second set sees what the pods of the first take, although neither is placed pod by pod."""
    found = ask(machine("a", 4, cpu="3"), pods("first", 2, cpu="1"), pods("second", 2, cpu="1", gpus=""))
    assert [one.fits for one in found.sets] == [2, 1]


def test_a_required_topology_keeps_a_set_in_the_smallest_domain_that_suffices():
    rack: Any = {"topology": [{"key": "rack"}]}
    assert nodes(ask(FLEET, pods("s", 3, **rack))) == [["a", "a", "b"]]
    found = ask(FLEET, pods("s", 5, **rack))
    assert found.sets[0].fits == 4
    assert found.sets[0].domain == (("rack", "x"),)
    assert found.sets[0].short is not None
    assert "4 of 5 pods fit together at most" in found.sets[0].short.message


def test_a_preferred_topology_is_met_if_no_pod_loses_its_place():
    rack: Any = {"topology": [{"key": "rack", "required": False}]}
    assert ask(FLEET, pods("s", 4, **rack)).sets[0].domain == (("rack", "x"),)
    whole = ask(FLEET, pods("s", 8, **rack)).sets[0]
    assert (whole.fits, whole.domain) == (8, ())


def test_a_set_that_misses_its_minimum_leaves_everything_to_the_next():
    found = ask(FLEET, pods("large", 9, minCount=9), pods("small", 8))
    assert [one.fits for one in found.sets] == [0, 8]


@pytest.mark.parametrize("spec", [{}, {"affinity": {"podAntiAffinity": {}}}])
def test_without_holders_and_nodes(spec: Object):
    used = claim("used", 2) | {"metadata": {"name": "used", "namespace": "default", "uid": "u"}}
    used["status"] = held("gpu.example.com", "a", "d0", "d1", on="a")
    world = [*machine("a", 2), used]
    assert ask(world, pods("s", 2, spec=spec)).sets[0].fits == 0
    assert ask(world, pods("s", 2, spec=spec), without=["used"]).sets[0].fits == 2
    assert ask(world, pods("s", 2, spec=spec), without=["used"], withoutNodes=["a"]).sets[0].fits == 0


def pairs(names: str) -> list[Object]:
    """A node whose devices have a letter each, and pods that need two devices of the same letter."""
    made = machine("a", len(names))
    for one, name in zip(made[1]["spec"]["devices"], names, strict=True):
        one["attributes"] = {"example.com/of": {"string": name}}
    return made


@pytest.mark.parametrize(
    ("least", "fits", "said"),
    [
        (1, 2, "2 of 4 pods have a place; by counting, 3 of 4 pods fit together at most; 4 are needed"),
        (3, 0, "2 of 4 pods fit together at most; 3 are needed"),
    ],
)
def test_what_is_only_counted_is_told_from_what_has_a_place(least: int, fits: int, said: str):
    pair = template("pair", 2)
    pair["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": "example.com/of"}]
    found = ask(pairs("aaabbcd"), pods("s", 4, gpus="pair", minCount=least), templates=[pair]).sets[0]
    assert found.fits == fits
    assert found.short is not None
    assert found.short.message.startswith(said)


@pytest.mark.parametrize("gpus", ["one", "pair"])
def test_a_pool_that_is_not_ready_is_named(gpus: str):
    """By columns, and by the search."""
    pair = template("pair", 2)
    pair["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": "example.com/of"}]
    world = pairs("aabb")
    world[1]["spec"]["pool"]["resourceSliceCount"] = 2
    short = ask(world, pods("s", 2, gpus=gpus), templates=[pair]).sets[0].short
    assert short is not None
    assert (
        "4 devices that match are in pools that are not ready (pool gpu.example.com/a: 1 of 2"
        in short.message
    )


def test_without_a_pod_its_room_and_its_claims_are_free():
    used = claim("used", 2) | {"metadata": {"name": "used", "namespace": "default", "uid": "u"}}
    used["status"] = held("gpu.example.com", "a", "d0", "d1", on="a")
    runs = pod("p", "used", gates=(), nodeName="a")
    runs["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "8"}}
    world = [*machine("a", 2), used, runs]
    assert ask(world, pods("s", 2, cpu="1"), without=["default/p"]).sets[0].fits == 2
    used["status"]["reservedFor"] = [{"resource": "pods", "name": "other", "uid": "o"}]
    assert ask(world, pods("s", 2, cpu="1"), without=["default/p"]).sets[0].fits == 0
    assert ask(world, pods("s", 2, cpu="1", gpus=""), without=["default/p"]).sets[0].fits == 2


@pytest.mark.parametrize(("phase", "fits"), [("Pending", 0), ("Succeeded", 2)])
def test_without_a_pod_a_claim_stays_that_another_pod_names(phase: str, fits: int):
    """The other pod has not reserved it yet, but it will run where the devices are."""
    used = claim("used", 2) | {"metadata": {"name": "used", "namespace": "default", "uid": "u"}}
    used["status"] = held("gpu.example.com", "a", "d0", "d1", on="a")
    users = [pod("p", "used", gates=(), nodeName="a"), pod("q", "used")]
    users[1]["status"] = {"phase": phase}
    world = [*machine("a", 2), used, *users]
    assert ask(world, pods("s", 2), without=["p"]).sets[0].fits == fits
    assert ask(world, pods("s", 2), without=["p", "q"]).sets[0].fits == 2


def test_pods_with_devices_of_koordinator_are_refused():
    """Their amounts on a node say nothing of its devices: two halves are no whole."""
    asked = pods("s", 1, gpus="")
    asked["template"]["spec"]["containers"][0]["resources"]["requests"] = {"koordinator.sh/gpu-core": "50"}
    with pytest.raises(Rejected) as refused:
        ask(FLEET, asked)
    assert "podSets[0].template.spec: requests koordinator.sh/gpu-core" in str(refused.value)


def test_pods_that_name_an_allocated_claim_follow_it():
    used = claim("used") | {"metadata": {"name": "used", "namespace": "default", "uid": "u"}}
    used["status"] = held("gpu.example.com", "b", "d0", on="b")
    entry: Any = {"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "used"}]}}
    assert nodes(ask([*FLEET, used], pods("s", 2, **entry))) == [["b", "b"]]
    del used["status"]
    assert len(set(nodes(ask([*FLEET, used], pods("s", 2, **entry)))[0])) == 1


def test_pods_that_exclude_each_other_need_nodes_of_their_own():
    term = {"labelSelector": {"matchLabels": {"app": "s"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked = pods("s", 5, spec={"affinity": rule})
    asked["template"]["metadata"] = {"labels": {"app": "s"}}
    found = ask(FLEET, pods("before", 2), asked, pods("after", 4))
    assert nodes(found)[1] == ["b", "c"]
    assert found.sets[2].fits == 4


@pytest.mark.parametrize("given", [{}, {"labels": None, "name": "x"}, {"labels": {"app": "s"}}])
def test_the_pod_of_a_set_has_no_nulls(given: dict[str, Any]):
    """A null would have it read twice; names and what else is given of its metadata do not count."""
    asked = pods("s", 1)
    asked["template"]["metadata"] = given
    metadata = AskedSet.model_validate(asked).pod["metadata"]
    expected = {"name": "fit s", "namespace": "default", "labels": given.get("labels")}
    assert metadata == without_nulls(expected)


def test_a_claim_of_an_unknown_class_is_explained():
    bad = template("bad") | {"spec": {"spec": claim("x", device_class="none")["spec"]}}
    raw = {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "FitRequest",
        "podSets": [pods("s", 2, gpus="bad")],
    }
    question = question_in(bundle([Document(Origin("test"), one) for one in (raw, bad)]))
    with world_of(map(read, FLEET), Semantics()).trial() as trial:
        (found,) = fit(question, trial).sets
    assert found.short is not None
    assert found.short.reason == "ClassNotFound"


def test_the_claims_of_sets_from_one_template_have_its_spec():
    raw = {
        "apiVersion": "dra-reconciler.io/v1alpha1",
        "kind": "FitRequest",
        "podSets": [pods("a", 1, gpus="one"), pods("b", 1, gpus="one")],
    }
    found = bundle([Document(Origin("test"), one) for one in (raw, template("one"))])
    (made,) = found.of(ResourceClaimTemplate)
    claims = [claim for one in question_in(found).sets for claim in one.claims]
    assert [claim.key.name for claim in claims] == ["fit a-gpu", "fit b-gpu"]
    assert all(claim.spec is made.spec.spec for claim in claims)


@pytest.mark.parametrize(
    ("sets", "fields", "said"),
    [
        ([], {}, "podSets: must be a list of 1 or more"),
        (
            [pods(f"s{at}", 1) for at in range(MAX_SETS + 1)],
            {},
            f"podSets: must be a list of at most {MAX_SETS}",
        ),
        ([pods("s", 0)], {}, f"podSets[0].count: must be a whole number from 1 to {MAX_PODS}"),
        ([pods("s", 2, minCount=3)], {}, "podSets[0].minCount: must be a whole number from 1 to 2"),
        ([pods("s", 1), pods("s", 1)], {}, "podSets[1].name: s is the name of an earlier set, too"),
        ([pods("s", 1) | {"replicas": 2}], {}, "podSets[0].replicas: is not known"),
        ([pods("s", 6000), pods("t", 6000)], {}, "podSets: have 12000 pods; the maximum is 10000"),
        ([pods("s", 1, gpus="three")], {}, "ResourceClaimTemplate default/three is missing; add it"),
        ([pods("s", 1, topology=[{"label": "rack"}])], {}, "podSets[0].topology[0].label: is not known"),
        ([pods("s", 1, spec={"nodeName": "a"})], {}, "podSets[0].template.spec.nodeName: must not be set"),
        ([pods("s", 1, spec={"containers": 3})], {}, "podSets[0].template.spec.containers"),
        ([pods("s", 1)], {"without": "x"}, "without: must be a list"),
        ([pods("s", 1)], {"without": ["x"]}, "there is no claim and no pod default/x"),
        ([pods("s", 1)], {"withoutNodes": ["x"]}, "there is no node x"),
        ([pods("s", 1)], {"count": 2}, "count: is not known"),
        (
            [pods("s", 1, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "no"}]})],
            {},
            "there is no claim default/no",
        ),
    ],
)
def test_an_invalid_request_names_object_and_field(sets: list[Object], fields: Object, said: str):
    with pytest.raises(Rejected) as raised:
        ask(FLEET, *sets, **fields)
    assert said in str(raised.value)


def test_huge_counts_fit_nowhere_and_larger_ones_are_refused():
    """Two claims of a pod together ask for more than 64 bits hold."""
    entries = [{"name": name, "resourceClaimTemplateName": "huge"} for name in ("a", "b")]
    asked = pods("s", 2, spec={"resourceClaims": entries})
    found = ask(FLEET, pods("t", 2), asked, templates=[template("huge", 2**63 - 1)])
    assert [one.fits for one in found.sets] == [2, 0]
    with pytest.raises(Rejected, match=r"huge: .*count: must be at most 9223372036854775807"):
        ask(FLEET, asked, templates=[template("huge", 2**70)])


@pytest.mark.parametrize("block", range(6))
def test_as_many_pods_fit_as_one_by_one_and_the_plan_is_possible(block: int):
    for seed in range(block * scaled(50), (block + 1) * scaled(50)):
        world = fit_world(seed)
        with world.trial() as trial:
            found = fit(world.question, trial)
        assert wrong(world, found.sets) == [], seed
        with world.trial() as trial:
            for asked, one in zip(world.question.sets, found.sets, strict=True):
                alone = max((one_by_one(asked, trial, labels) for labels in domains(asked, world)), default=0)
                assert one.fits >= (alone if alone >= asked.least else 0), (seed, asked.name)
                hold_seats(asked, one, trial)
            assert trial.snapshot.occupancy.left.min(initial=0) >= 0
