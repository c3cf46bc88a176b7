"""Devices near each other: the nearest tier that can be had, compared with trying everything."""

import json
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.policy import BEST_FIT, SPREAD, Policy
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan, Reason, Unsatisfied
from reconciler.cli import main
from tests.tools.alignment_world import PCIE, answer, classes, given_by, gpu_nic_claim, machine
from tests.tools.builders import first_of, held, hold, match, snapshot, typed, wants
from tests.tools.checkout import DOCS

TIERS = "dra-reconciler.io/joint-allocation-tiers"
EIGHT = machine("n", [(f"p{n}", n // 4) for n in range(8)], [(f"p{n}", n // 4) for n in range(8)])
"""Eight PCIe roots with a GPU and a NIC each"""


def tiers(outcome: Granted | Unsatisfied) -> list[str]:
    assert isinstance(outcome, Granted), outcome
    return dict(outcome.plans[0].annotations)[TIERS].split(",")


def test_four_gpus_and_four_nics_come_in_pairs():
    taken = held("h", hold("gpu-0", driver="gpu", pool="n"), hold("nic-2", driver="nic", pool="n"))
    outcome = answer([*classes(), *EIGHT, taken], gpu_nic_claim("c", 4, 4, joint_allocation={"pairs": True}))
    found = given_by(outcome)
    assert found["gpu"] == ["gpu-1", "gpu-3", "gpu-4", "gpu-5"]
    assert found["nic"] == ["nic-1", "nic-3", "nic-4", "nic-5"]
    assert tiers(outcome) == [PCIE] * 4


def test_only_devices_that_may_be_used_are_aligned():
    """With pairs, the parts of a request are restricted like the request."""
    known = snapshot(*classes(), *EIGHT)
    claim = gpu_nic_claim("c", 2, 2, joint_allocation={"pairs": True})
    rows = {known.fleet.id_of(row): row for row in range(known.fleet.size)}
    only = {(0, "nic"): frozenset(row for device, row in rows.items() if device.device in ("nic-3", "nic-6"))}
    found = given_by(decide([typed(claim)], known, only=only))  # type: ignore[list-item]
    assert found == {"gpu": ["gpu-3", "gpu-6"], "nic": ["nic-3", "nic-6"]}


def test_a_list_on_one_side_matches_a_scalar_on_the_other():
    world = machine("n", [("p0", 0), ("p3", 1)], [(["p3", "p4"], 1)])
    outcome = answer([*classes(), *world], gpu_nic_claim("c", 1, 1, joint_allocation={}))
    assert given_by(outcome) == {"gpu": ["gpu-1"], "nic": ["nic-0"]}
    assert tiers(outcome) == [PCIE]


def test_a_class_can_align_all_its_claims():
    config = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "JointAllocation", "classes": ["nic"]}
    world = machine("n", [("p0", 0), ("p1", 0)], [("p1", 0)])
    outcome = answer([*classes(gpu=[config]), *world], gpu_nic_claim("c", 1, 1))
    assert given_by(outcome) == {"gpu": ["gpu-1"], "nic": ["nic-0"]}
    own = gpu_nic_claim("c", 1, 1, joint_allocation=[])
    assert given_by(answer([*classes(gpu=[config]), *world], own))["gpu"] == ["gpu-0"]


def test_alternatives_are_aligned_as_well():
    claim = gpu_nic_claim("c", 0, 1, joint_allocation={})
    alternatives = first_of("any", two=wants(2, device_class="gpu"), one=wants(1, device_class="gpu"))
    claim["spec"]["devices"]["requests"].insert(0, alternatives)
    outcome = answer([*classes(), *machine("n", [("p0", 0), ("p1", 0)], [("p1", 0)])], claim)
    assert given_by(outcome) == {"any/one": ["gpu-1"], "nic": ["nic-0"]}


def test_pairs_keep_the_constraints_and_the_configuration_of_the_claim():
    claim = gpu_nic_claim("c", 2, 2, joint_allocation={"pairs": True})
    claim["spec"]["devices"]["constraints"] = [match("gpu/numaNode", "gpu")]
    parameters = {"driver": "gpu", "parameters": {"mode": "x"}}
    claim["spec"]["devices"]["config"] = [{"requests": ["gpu"], "opaque": parameters}, {"opaque": parameters}]
    world = machine("n", [("p0", 0), ("p4", 1), ("p5", 1)], [("p0", 0), ("p4", 1), ("p5", 1)])
    outcome = answer([*classes(), *world], claim)
    assert given_by(outcome) == {"gpu": ["gpu-1", "gpu-2"], "nic": ["nic-1", "nic-2"]}
    assert isinstance(outcome, Granted)
    written = outcome.plans[0].allocation.to_json()["devices"]["config"]
    assert written == [
        {"source": "FromClaim", "requests": ["gpu"], "opaque": parameters},
        {"source": "FromClaim", "opaque": parameters},
    ]


@pytest.mark.parametrize(
    ("preference", "message"),
    [
        pytest.param({"requests": ["gpus"]}, "there is no request gpus", id="request"),
        pytest.param({"required": "rack"}, "required is rack", id="required"),
        pytest.param({"tier": []}, "joint-allocation: 0.tier: is not known", id="a slip"),
        pytest.param({"pairs": True}, "same count", id="pairs"),
        pytest.param([{}] * 9, "at most 8", id="too many"),
        pytest.param("near", "joint-allocation", id="no object"),
    ],
)
def test_an_invalid_preference_refuses_the_claim(preference: Any, message: str):
    outcome = answer([*classes(), *EIGHT], gpu_nic_claim("c", 2, 1, joint_allocation=preference))
    assert isinstance(outcome, Unsatisfied)
    assert outcome.reason is Reason.PREFERENCES_INVALID
    assert message in outcome.message
    assert "claim default/c" in outcome.message


def test_json_with_a_comment_is_refused_with_its_place():
    claim = gpu_nic_claim("c", 1, 1)
    claim["metadata"]["annotations"]["dra-reconciler.io/joint-allocation"] = '{"tiers": [], // none\n}'
    outcome = answer([*classes(), *EIGHT], claim)
    assert isinstance(outcome, Unsatisfied)
    assert "line 1 column" in outcome.message


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"tiers": "x"}, "tiers: must be a list"), ({"tier": []}, "tier: is not known; did you mean tiers")],
)
def test_a_class_with_a_wrong_configuration_is_named(wrong: dict[str, Any], why: str):
    config = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "JointAllocation", **wrong}
    outcome = answer([*classes(gpu=[config]), *EIGHT], gpu_nic_claim("c", 1, 1))
    assert isinstance(outcome, Unsatisfied)
    assert f"class gpu: spec.config[0].opaque.parameters: {why}" in outcome.message


# -- against trying everything

ROOTS = st.sampled_from(["p0", "p1", "p2"])
PLACES = st.tuples(ROOTS, st.integers(0, 1))
LISTS = st.tuples(st.one_of(ROOTS, st.lists(ROOTS, min_size=1, max_size=2, unique=True)), st.integers(0, 1))


def shared(values: Sequence[Any]) -> bool:
    as_sets = [set(value) if isinstance(value, list) else {value} for value in values]
    return bool(set.intersection(*as_sets))


def best_tiers(
    gpus: list[tuple[str, int]],
    nics: list[tuple[Any, int]],
    wanted: tuple[int, int],
    preference: dict[str, Any],
) -> tuple[int, ...] | None:
    """The smallest tuple of tiers over all ways to choose devices; None if there is none."""
    accepted = 3 if preference["required"] == "node" else 1 + [PCIE, "numaNode"].index(preference["required"])

    def tier(together: list[tuple[Any, int]]) -> int:
        if shared([root for root, _ in together]):
            return 0
        return 1 if len({numa for _, numa in together}) == 1 else 2

    def levels(ways: tuple[Any, Any]) -> tuple[int, ...]:
        mine = [gpus[n] for n in ways[0]], [nics[n] for n in ways[1]]
        if preference["pairs"]:
            return tuple(tier([gpu, nic]) for gpu, nic in zip(*mine, strict=True))
        return (tier([*mine[0], *mine[1]]),)

    ways: Iterator[tuple[Any, Any]] = product(
        permutations(range(len(gpus)), wanted[0]), permutations(range(len(nics)), wanted[1])
    )
    return min((found for way in ways if max(found := levels(way)) < accepted), default=None)


SOME_POLICY = st.sampled_from([None, BEST_FIT, SPREAD, LeastLoss()])


def near(root: str) -> int:
    """The NUMA node of a PCIe root."""
    return 1 if root == "p2" else 0


@given(
    gpus=st.lists(ROOTS, min_size=1, max_size=4),
    nics=st.lists(ROOTS, min_size=1, max_size=3),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    pairs=st.booleans(),
    required=st.sampled_from([PCIE, "numaNode", "node"]),
    policy=SOME_POLICY,
)
def test_the_tiers_are_the_best_there_are(
    gpus: list[str],
    nics: list[str],
    counts: tuple[int, int],
    pairs: bool,
    required: str,
    policy: Policy | None,
):
    """On machines as they are built: a PCIe root is on one NUMA node. A policy gives up no tier."""
    places = [(root, near(root)) for root in gpus], [(root, near(root)) for root in nics]
    check(places[0], places[1], counts, pairs=pairs, required=required, exact=True, policy=policy)


@given(
    gpus=st.lists(PLACES, min_size=1, max_size=4),
    nics=st.lists(LISTS, min_size=1, max_size=3),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    pairs=st.booleans(),
    required=st.sampled_from([PCIE, "numaNode", "node"]),
    policy=SOME_POLICY,
)
def test_what_can_be_had_at_all_is_had_whatever_devices_say_of_their_places(
    gpus: list[tuple[str, int]],
    nics: list[tuple[Any, int]],
    counts: tuple[int, int],
    pairs: bool,
    required: str,
    policy: Policy | None,
):
    check(gpus, nics, counts, pairs=pairs, required=required, exact=False, policy=policy)


def check(
    gpus: list[tuple[str, int]],
    nics: list[tuple[Any, int]],
    counts: tuple[int, int],
    *,
    pairs: bool,
    required: str,
    exact: bool,
    policy: Policy | None,
) -> None:
    if pairs:
        counts = (counts[1], counts[1])
    preference = {"pairs": pairs, "required": required}
    claim = gpu_nic_claim("c", *counts, joint_allocation=preference)
    outcome = answer([*classes(), *machine("n", gpus, nics)], claim, policy=policy)
    expected = best_tiers(gpus, nics, counts, preference)
    if expected is None:
        assert isinstance(outcome, Unsatisfied)
    else:
        reached = [[PCIE, "numaNode", "node"].index(tier) for tier in tiers(outcome)]
        assert tuple(reached) == expected if exact else tuple(reached) >= expected
        found = given_by(outcome)
        assert [len(found["gpu"]), len(found["nic"])] == list(counts)
        assert len({*found["gpu"], *found["nic"]}) == sum(counts)


def test_a_claim_without_preferences_is_decided_by_the_allocator():
    world = snapshot(*classes(), *EIGHT)
    claim = typed(gpu_nic_claim("c", 2, 1))
    assert isinstance(claim, ResourceClaim)
    plain, jointly = allocate([claim], world), decide([claim], world)
    assert isinstance(plain, Granted)
    assert plain == jointly
    assert isinstance(plain.plans[0], Plan)


# -- The example of the documentation, as a reader runs it.


EXAMPLE = str(DOCS / "examples" / "joint-allocation.yaml")


def test_the_table_says_who_got_what_and_how_near():
    result = CliRunner().invoke(main, ["allocate", "-f", EXAMPLE])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "aligned: claim default/near: resource.kubernetes.io/pcieRoot" in lines
    refused = {line.split()[3].rstrip(":,"): line for line in lines if line.startswith("not allocated: ")}
    assert refused["default/pairs"].endswith(
        "request nic: 2 of 10 devices match class and selectors; 1 is free; the request needs 2 devices"
    )
    assert refused["default/within"].endswith(
        "no node has devices for default/within gpu, default/within nic that share numaNode, "
        "which joint allocation requires"
    )


def test_the_claims_carry_the_tiers_that_were_reached():
    result = CliRunner().invoke(main, ["allocate", "-f", EXAMPLE, "-o", "json"])
    near, wide = (claim for claim in json.loads(result.stdout)["items"])
    reached = near["metadata"]["annotations"]["dra-reconciler.io/joint-allocation-tiers"]
    assert reached == "resource.kubernetes.io/pcieRoot"
    devices = [one["device"] for one in near["status"]["allocation"]["devices"]["results"]]
    assert devices == ["gpu-2", "nic-0"]
    devices = [one["device"] for one in wide["status"]["allocation"]["devices"]["results"]]
    assert devices == ["gpu-4", "gpu-5"]


def test_the_page_names_the_example():
    assert f"docs/examples/{Path(EXAMPLE).name}" in (DOCS / "joint-allocation.md").read_text()


def test_explain_shows_the_alignment_as_a_gate_with_the_nearest_miss():
    result = CliRunner().invoke(main, ["explain", "within", "-f", EXAMPLE])
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "0 aligned on numaNode, on no node" in lines
    assert "without the alignment on numaNode it could be allocated" in lines
    miss = "node-1: numaNode 0: 3 of 3 for request gpu, 0 of 1 for request nic"
    assert f"nearest miss: {miss}" in lines
