"""Why preferences refuse a claim: the decision is repeated without them."""

from hypothesis import given

from reconciler.allocation.alignment.deciding import PreferenceKey, decide
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from tests.tools.alignment_cases import Case, cases
from tests.tools.alignment_outcomes import answer
from tests.tools.alignment_world import PCIE, classes, gpu_nic_claim, machine
from tests.tools.builders import held, hold, snapshot, typed
from tests.tools.partition_tables import PAIRS, table


def refused(outcome: Granted | Unsatisfied) -> Unsatisfied:
    assert isinstance(outcome, Unsatisfied), outcome
    return outcome


def test_a_refusal_without_preferences_names_the_requests_of_the_claim():
    world = [*classes(), *machine("n", [("p0", 0), ("p1", 0)], [("p0", 0)])]
    outcome = refused(
        answer(world, gpu_nic_claim("c", 2, 2, joint_allocation={"pairs": True, "required": PCIE}))
    )
    assert outcome.reason is Reason.NO_DEVICE
    assert outcome.message.startswith("claim default/c, request nic: 1 of 3 devices matches")


def test_a_refusal_by_partitions_has_counts():
    taken = held("h", *(hold(f"gpu-{n}", driver="gpu", pool="n") for n in (0, 2, 4, 6)))
    world = [*classes(gpu=[table(*PAIRS)]), *machine("n", [("p0", 0)] * 8, []), taken]
    outcome = refused(answer(world, gpu_nic_claim("c", 2, 0)))
    assert (outcome.reason, outcome.nodes) == (Reason.PARTITION, 1)
    (count,) = outcome.counts
    assert [gate.left for gate in count.gates][-2:] == [4, 0]


def test_preferences_in_without_are_ignored():
    world = snapshot(*classes(gpu=[table(*PAIRS)]), *machine("n", [("p0", 0), ("p1", 1), ("p1", 1)], []))
    claim = typed(gpu_nic_claim("c", 3, 0, joint_allocation={"required": "numaNode"}))
    assert isinstance(claim, ResourceClaim)

    def without(*preferences: PreferenceKey) -> Reason | None:
        outcome = decide([claim], world, without=preferences)
        return outcome.reason if isinstance(outcome, Unsatisfied) else None

    assert without() is Reason.ALIGNMENT
    assert without((0, 0)) is Reason.PARTITION
    assert without((0, "gpu")) is Reason.ALIGNMENT
    assert without((0, 0), (0, "gpu")) is None


@given(cases())
def test_without_the_named_preferences_the_claim_fits(case: Case):
    """Gates go from what any claim needs over alignment to partitions; the first that refuses is named."""
    outcome = decide([case.claim], case.world)
    if isinstance(outcome, Granted):
        return
    alignments: list[PreferenceKey] = [(0, 0), (0, 1)]
    unpartitioned = decide([case.claim], case.world, without=[(0, "gpu")])
    plain = decide([case.claim], case.world, without=[*alignments, (0, "gpu")])
    match outcome.reason:
        case Reason.PARTITION:
            assert isinstance(unpartitioned, Granted)
        case Reason.ALIGNMENT:
            assert refused(unpartitioned).reason is Reason.ALIGNMENT
            assert isinstance(plain, Granted)
        case _:
            assert refused(plain).reason is outcome.reason
