"""GPU partitions: what may be given together, in which order, and what that leaves."""

import json
from typing import Any

import pytest

from reconciler.plugins.koordinator.holdings import Holdings
from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.vocabulary import Semantics
from tests.tools.koordinator_builders import PROPOSAL, UPSTREAM, given, gpu, holding, machine, nic, pod

HONOR = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
RESTRICTED = {"allocatePolicy": "Restricted"}


def part(*minors: int, score: int = 1, bandwidth: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"minors": list(minors), "gpuLinkType": "NVLink", "allocationScore": score}
    return found | ({"ringBusBandwidth": bandwidth} if bandwidth else {})


def with_table(
    table: Any, labels: Any = HONOR, gpus: int = 8, semantics: Semantics = PROPOSAL, **fields: Any
) -> Machine:
    text = table if isinstance(table, str) else json.dumps(table)
    annotations = {"scheduling.koordinator.sh/gpu-partitions": text}
    devices = [gpu(i, (i // 4, str(i)), **fields) for i in range(gpus)]
    return machine(*devices, semantics=semantics, labels=labels, annotations=annotations)


def gpus(count: int, spec: Any = None):
    return pod({"nvidia.com/gpu": count}, spec=spec)


PAIRS = {"2": [part(0, 4), part(1, 5)]}


def test_honor_gives_listed_partitions_only():
    on = with_table(PAIRS)
    assert given(gpus(2), on) == {"gpu": [0, 4]}
    assert given(gpus(2), on, holding(gpus=[0])) == {"gpu": [1, 5]}
    assert given(gpus(2), on, holding(gpus=[0, 1])) == "no-feasible-partition"
    assert given(gpus(3), on) == "partition-size-unsupported"


def test_prefer_gives_them_first():
    on = with_table(PAIRS, labels={})
    assert given(gpus(2), on) == {"gpu": [0, 4]}
    assert given(gpus(2), on, holding(gpus=[0, 1])) == {"gpu": [2, 3]}
    assert given(gpus(3), on) == {"gpu": [0, 1, 2]}


SCORED = {"2": [part(0, 1, score=1), part(2, 3, score=5), part(4, 5, score=5)]}


@pytest.mark.parametrize(
    ("spec", "held", "proposal", "upstream"),
    [
        (None, [], [2, 3], [0, 1]),
        (RESTRICTED, [], [2, 3], [0, 1]),
        (RESTRICTED, [2], [4, 5], [0, 1]),
        (RESTRICTED, [2, 4], None, [0, 1]),
        (RESTRICTED, [0], [2, 3], None),
        ({"allocatePolicy": "BestEffort"}, [2, 4], [0, 1], [0, 1]),
        ({}, [0], [2, 3], [2, 3]),
    ],
)
def test_high_scores_come_first_and_restricted_stops_there(
    spec: Any, held: list[int], proposal: list[int] | None, upstream: list[int] | None
):
    for semantics, expected in ((PROPOSAL, proposal), (UPSTREAM, upstream)):
        on = with_table(SCORED, semantics=semantics)
        found = given(gpus(2, spec), on, holding(gpus=held), semantics)
        assert found == ("no-feasible-partition" if expected is None else {"gpu": expected})


def test_a_bandwidth_is_the_least_that_will_do():
    table = {"2": [part(0, 1), part(2, 3, bandwidth="100Gi"), part(4, 5, bandwidth="200Gi")]}
    on = with_table(table)
    assert given(gpus(2, {"ringBusBandwidth": "200Gi"}), on) == {"gpu": [4, 5]}
    assert given(gpus(2, {"ringBusBandwidth": "100Gi"}), on) == {"gpu": [2, 3]}
    assert given(gpus(2, {"ringBusBandwidth": "201Gi"}), on) == "no-feasible-partition"


@pytest.mark.parametrize(
    ("spec", "proposal", "upstream"),
    [
        ({}, {"gpu": [0, 1, 2]}, "partition-size-unsupported"),
        ({"allocatePolicy": "BestEffort"}, {"gpu": [0, 1, 2]}, "partition-size-unsupported"),
        (RESTRICTED, "partition-size-unsupported", "partition-size-unsupported"),
        ({"ringBusBandwidth": "1"}, "partition-size-unsupported", "partition-size-unsupported"),
    ],
)
def test_what_a_pod_demands_of_partitions_only_partitions_can_meet(spec: Any, proposal: Any, upstream: Any):
    for semantics, expected in ((PROPOSAL, proposal), (UPSTREAM, upstream)):
        on = with_table(PAIRS, labels={}, semantics=semantics)
        assert given(gpus(3, spec), on, semantics=semantics) == expected


HOPPER = {
    str(size): [part(*range(first, first + size)) for first in range(0, 8, size)] for size in (1, 2, 4, 8)
}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("count", "held", "expected"), [(1, [4], [5]), (2, [4], [6, 7]), (4, [4], [0, 1, 2, 3]), (1, [0, 4], [1])]
)
def test_equal_scores_are_decided_by_what_remains(
    semantics: Semantics, count: int, held: list[int], expected: list[int]
):
    on = with_table(HOPPER, semantics=semantics)
    assert given(gpus(count), on, holding(gpus=held), semantics) == {"gpu": expected}


def test_the_greatest_bandwidth_is_left_for_others():
    bandwidths = ["400Gi", "100Gi", "200Gi"]
    table = {"2": [part(2 * i, 2 * i + 1, bandwidth=text) for i, text in enumerate(bandwidths)]}
    assert given(gpus(2), with_table(table)) == {"gpu": [2, 3]}


def test_used_sick_and_hidden_gpus_spoil_a_partition():
    on = with_table(PAIRS)
    assert given(gpus(2), on, holding(gpus=[0], share=1)) == {"gpu": [1, 5]}
    sick = with_table(PAIRS, health=False)
    assert given(gpus(2), sick) == "no-feasible-partition"
    selector = {"gpu": {"selector": {"matchLabels": {"a": "b"}}}}
    hidden = pod({"nvidia.com/gpu": 2}, hint=selector)
    assert given(hidden, on) == "no-feasible-partition"


def test_nearness_decides_between_equal_partitions_only():
    joint = {"deviceTypes": ["gpu", "rdma"]}
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=joint)
    spots = [(0, str(i)) for i in range(4)]

    def beside(table: Any) -> Any:
        annotations = {"scheduling.koordinator.sh/gpu-partitions": json.dumps(table)}
        devices = [*map(gpu, range(4), spots), nic(0, spots[2])]
        return given(wants, machine(*devices, labels=HONOR, annotations=annotations))

    singles = [part(i) for i in range(4)]
    assert beside({"1": singles}) == {"gpu": [2], "rdma": [0]}
    assert beside({"1": [part(0, score=2), *singles[1:]]}) == {"gpu": [0], "rdma": [0]}
    assert beside({"1": singles, "3": [part(1, 2, 3)]}) == {"gpu": [0], "rdma": [0]}


def test_the_release_reads_the_policy_where_the_table_is():
    bare = [gpu(i, (i // 4, str(i))) for i in range(8)]
    hopper = {"node.koordinator.sh/gpu-model": "H100"}

    def three(semantics: Semantics, **where: Any) -> Any:
        return given(gpus(3), machine(*bare, semantics=semantics, **where), semantics=semantics)

    honored, preferred = "partition-size-unsupported", {"gpu": [0, 1, 2]}
    on_the_node = {"node_labels": {**hopper, **HONOR}}
    on_the_device = {"node_labels": hopper, "labels": HONOR}
    assert [three(s, **on_the_node) for s in (PROPOSAL, UPSTREAM)] == [honored, honored]
    assert [three(s, **on_the_device) for s in (PROPOSAL, UPSTREAM)] == [honored, preferred]


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        '{"2": [{"minors": ["a"]}]}',
        '{"2": [{"minors": [0, 1], "ringBusBandwidth": "x"}]}',
        '{"-2": []}',
        '{"99999999999999999999": []}',
    ],
)
def test_a_table_that_cannot_be_read_is_none(text: str):
    on = with_table(text)
    assert given(gpus(2), on) == "partition-table-missing"
    assert len(on.notes) == 1
    assert on.notes[0].startswith("Device n: scheduling.koordinator.sh/gpu-partitions: ")


def test_the_document_also_writes_scores_in_quotes_and_another_name():
    entry = {"minors": [0, 1], "ringAllReduceBandwidth": "400Gi", "allocationScore": "2"}
    table = {"2": [part(2, 3, bandwidth="400Gi"), entry]}
    assert given(gpus(2, {"ringBusBandwidth": "400Gi"}), with_table(table)) == {"gpu": [0, 1]}
    assert with_table(table, semantics=UPSTREAM).partitions is None


def test_a_partition_listed_under_the_wrong_size_is_dropped():
    on = with_table({"2": [part(0), part(1, 2)]})
    assert given(gpus(2), on) == {"gpu": [1, 2]}
    assert on.notes == ("Device n: 1 of 2 partitions are listed under the wrong size",)
    released = with_table({"2": [part(0), part(1, 2)]}, semantics=UPSTREAM)
    assert given(gpus(2), released, Holdings(), UPSTREAM) == {"gpu": [0]}


def test_a_table_beyond_all_machines_is_refused():
    on = with_table({"1": [part(n) for n in range(300)]})
    assert on.partitions is None
    assert "300 partitions of 300 GPUs" in on.notes[0]


NESTED = [
    {"2": {"NVLINK": [part(0, 4), part(1, 5)]}},
    {"2": [{"NVLINK": [part(0, 4)]}, {"PCIE": [part(1, 5)]}]},
    {"2": [{"NVLINK": [part(0, 4)], "PCIE": [part(1, 5)]}]},
    {"2": [part(0, 4), {"NVLINK": [part(1, 5)]}]},
]


@pytest.mark.parametrize("table", NESTED)
def test_partitions_may_be_grouped_by_link_type_as_in_the_story(table: Any):
    on = with_table(table)
    assert on.notes == ()
    assert given(gpus(2), on, holding(gpus=[0])) == {"gpu": [1, 5]}
    assert given(gpus(2), on, holding(gpus=[0, 1])) == "no-feasible-partition"
    released = with_table(table, semantics=UPSTREAM)
    assert (released.partitions, len(released.notes)) == (None, 1)


def test_the_story_is_read_with_scores_as_text_and_either_name_of_the_bandwidth():
    """The text of the user story, made JSON."""
    group = [
        {"minors": [0], "gpuLinkType": "NVLink", "ringBusBandwidth": "400Gi", "allocationScore": "1"},
        {"minors": [1], "ringAllReduceBandwidth": "200Gi", "allocationScore": 2},
    ]
    on = with_table({"1": [{"NVLINK": group}]})
    assert on.partitions is not None
    assert on.partitions.scores.tolist() == [1, 2]
    assert given(gpus(1), on) == {"gpu": [1]}
    assert given(gpus(1, {"ringBusBandwidth": "300Gi"}), on) == {"gpu": [0]}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ('{"1": {"NVLINK": [{"minors": [-1]}]}}', "1.NVLINK.0.minors.0: "),
        ('{"2": [{"NVLINK": [{"minors": [0]},\n {"minors": "0"}]}]}', "2.0.NVLINK.1.minors: "),
        ('{"1": {"NVLINK": 7}}', "1.NVLINK: "),
        ('{"1": {"minors": [0]}}', "1.minors.0: "),
        ('{"1": 7}', "1: "),
        ("[7]", "must be an object"),
    ],
)
def test_an_error_in_a_grouped_table_names_the_place_in_the_text(table: str, why: str):
    on = with_table(table)
    assert on.partitions is None or not len(on.partitions.sizes)
    assert why in on.notes[0]


@pytest.mark.parametrize("policy", ["honor", "Strict"])
def test_an_unknown_partition_policy_keeps_all_gpus_and_is_reported(policy: str):
    """It may be meant to exclude what Prefer allows. The release counts it as Prefer."""
    key = "node.koordinator.sh/gpu-partition-policy"
    on = with_table(PAIRS, labels={key: policy})
    (note,) = on.notes
    assert note.startswith(f"Device n: {key}: '{policy}' is not one of Honor, Prefer")
    half = pod({"gpu": 50})
    for asked in (gpus(2), gpus(1), half):
        assert given(asked, on) == "partition-policy-unknown"
        assert given(asked, with_table(PAIRS, labels={key: "Prefer"})) != "partition-policy-unknown"
    assert given(gpus(2), with_table(PAIRS, labels={key: policy}, semantics=UPSTREAM), semantics=UPSTREAM)
    assert with_table(PAIRS, labels={key: policy}, semantics=UPSTREAM).notes == ()
    assert with_table(PAIRS, labels={key: "Prefer"}).notes == ()


GOOD = [part(0, 1), part(2, 3)]
BAD = [
    {"minors": [4, 5], "allocationScore": "high"},
    {"gpuLinkType": "NVLink"},
    {"minors": ["a"]},
    {"minors": [4, 5], "ringBusBandwidth": "x"},
    7,
]


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("bad", BAD, ids=str)
def test_one_bad_partition_costs_no_other_one(bad: Any, at: int):
    listed = [*GOOD[:at], bad, *GOOD[at:]]
    on = with_table({"2": listed})
    assert on.partitions is not None
    assert on.partitions.minors == ((0, 1), (2, 3))
    (note,) = on.notes
    assert f"gpu-partitions: 2.{at}" in note
    assert note.endswith("; this partition is skipped")
    assert "Partition " not in note  # nor any other name of a class
    assert with_table({"2": listed}, semantics=UPSTREAM).partitions is None


@pytest.mark.parametrize("placed", [True, False])
def test_a_part_of_a_gpu_breaks_no_partition_while_another_gpu_is_free(placed: bool):
    """Of the best partitions first; a GPU that is shared already breaks none."""
    table = json.dumps({"2": [part(0, 1, score=2), part(2, 3)]})
    on = machine(
        *[gpu(minor, (0, str(minor)) if placed else None) for minor in range(4)],
        labels=HONOR,
        annotations={"scheduling.koordinator.sh/gpu-partitions": table},
    )
    half = pod({"gpu": 50})
    assert given(half, on) == {"gpu": [2]}
    assert given(half, on, holding(gpus=[2], share=50)) == {"gpu": [2]}
    assert given(half, on, holding(gpus=[2])) == {"gpu": [3]}
    assert given(half, on, holding(gpus=[2, 3])) == {"gpu": [0]}
    assert given(half, on, holding(gpus=[0, 2, 3])) == {"gpu": [1]}
    assert given(half, with_table({"2": [part(0, 1)]}), holding()) == {"gpu": [2]}


def test_what_is_sick_does_not_remain_for_anybody():
    table = {"1": [part(0), part(3)], "3": [part(0, 1, 2)]}
    annotations = {"scheduling.koordinator.sh/gpu-partitions": json.dumps(table)}
    sick = [gpu(i, health=i != 1) for i in range(4)]
    assert given(gpus(1), machine(*sick, labels=HONOR, annotations=annotations)) == {"gpu": [0]}
