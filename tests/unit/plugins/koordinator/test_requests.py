"""What a pod may request: sums over containers, names together, counts and shares."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.core import Pod
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.answer_cache import Demands
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand, requested
from reconciler.plugins.koordinator.vocabulary import Rules
from tests.tools.examples import examples
from tests.tools.koordinator_builders import pod


def full(requests: dict[str, Any]) -> dict[str, Any]:
    return {"requests": {f"koordinator.sh/{name}": value for name, value in requests.items()}}


def test_a_pod_needs_what_its_containers_need_together_or_one_init_container_alone():
    wants = Pod.model_validate(
        {
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"resources": full({"rdma": "10"})}, {"resources": full({"rdma": "20"})}],
                "initContainers": [
                    {"resources": full({"fpga": "50"})},
                    {"resources": full({"rdma": "5"}), "restartPolicy": "Always"},
                    {"resources": full({"rdma": "90"})},
                ],
                "overhead": {"koordinator.sh/rdma": 1, "cpu": "250m"},
            },
        }
    )
    assert requested(wants) == {"koordinator.sh/rdma": 96, "koordinator.sh/fpga": 50}


def test_a_pod_without_devices_of_ours_is_not_ours():
    assert read_demand(pod({"example.com/gpu": 1, "koordinator.sh/gpu": 0}), Rules()) is None


AMOUNTS = st.dictionaries(
    st.sampled_from([vocabulary.NVIDIA_GPU, vocabulary.KOORD_RDMA, "cpu"]),
    st.sampled_from(["0", "1", "100", "150"]),
)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
CONTAINERS = st.lists(
    st.fixed_dictionaries({"resources": RESOURCES, "restartPolicy": st.sampled_from([None, "Always"])}),
    max_size=2,
)
NOTES = {
    vocabulary.JOINT_ALLOCATE: ['{"deviceTypes":["gpu","rdma"]}', '{"deviceTypes":["rdma","gpu"]}', "["],
    vocabulary.ALLOCATE_HINT: [
        '{"rdma":{"vfSelector":{}}}',
        '{"gpu":{"requiredTopologyScope":"PCIe"}}',
        "{}",
    ],
    vocabulary.PARTITION_SPEC: ['{"allocatePolicy":"Restricted"}', "{}"],
    vocabulary.ALLOCATED: ["["],
}


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    spec: dict[str, Any] = {
        "containers": draw(CONTAINERS),
        "initContainers": draw(CONTAINERS),
        "overhead": draw(AMOUNTS),
    }
    notes = {name: draw(st.sampled_from(texts)) for name, texts in NOTES.items() if draw(st.booleans())}
    provider = draw(st.sampled_from([{}, {vocabulary.ISOLATION_PROVIDER: "HAMi-core"}]))
    meta = {"name": draw(st.sampled_from("pq")), "annotations": notes, "labels": provider}
    return Pod.model_validate({"metadata": meta, "spec": spec})


def answer(read: Any) -> Demand | Failure | str | None:
    try:
        found: Demand | Failure | None = read()
    except Malformed as exc:
        return str(exc)
    return found


@examples(40)
@given(st.lists(pods(), min_size=1, max_size=4), st.lists(st.integers(0, 3), max_size=6))
def test_shared_readings_equal_a_reading_of_each_pod(several: list[Pod], order: list[int]):
    rules = Rules()
    demands = Demands(rules)
    for number in [*range(len(several)), *order]:
        one = several[number % len(several)]
        assert answer(lambda one=one: demands.of(one)) == answer(lambda one=one: read_demand(one, rules))


# Pairs of pods that differ in one word: each word must tell them apart.
ONE: dict[str, Any] = {"resources": {"requests": {vocabulary.NVIDIA_GPU: "1", vocabulary.KOORD_RDMA: "1"}}}
MORE: dict[str, Any] = {"resources": {"limits": {vocabulary.NVIDIA_GPU: "4"}}}


def made(spec: dict[str, Any], **meta: Any) -> Pod:
    return Pod.model_validate({"metadata": {"name": "p", **meta}, "spec": {"containers": [ONE], **spec}})


def test_each_word_counts():
    rules = Rules()
    demands = Demands(rules)
    different = [
        made({}),
        made({"containers": [ONE, MORE]}),
        made({"initContainers": [MORE]}),
        made({"initContainers": [MORE | {"restartPolicy": "Always"}]}),
        made({"overhead": {vocabulary.KOORD_RDMA: "1"}}),
        made({}, labels={vocabulary.ISOLATION_PROVIDER: "HAMi-core"}),
        *(made({}, annotations={key: NOTES[key][0]}) for key in NOTES if key != vocabulary.ALLOCATED),
    ]
    found = [demands.of(one) for one in different]
    assert found == [read_demand(one, rules) for one in different]
    assert len({id(one) for one in found}) == len(different)
    again = made({}, labels={"app": "x"}, namespace="other")
    assert demands.of(again) is found[0]
