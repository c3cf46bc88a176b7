"""Which pods belong to which Workload, whatever happens to pods."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.core import WORKLOAD, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.dispatching import WorkloadRoster
from tests.tools.small_fleet import pod
from tests.tools.unit_pictures import as_pod

KEYS = [ObjectKey(namespace, name) for namespace in ("a", "b") for name in ("p", "q")]
WORKLOADS = [ObjectKey(namespace, name) for namespace in ("a", "b") for name in ("v", "w")]


def of(key: ObjectKey, workload: str | None) -> Pod:
    """A pod; None is one without the annotation."""
    made = pod(key.name, gates=())
    annotations = {} if workload is None else {WORKLOAD: workload}
    made["metadata"] |= {"namespace": key.namespace, "annotations": annotations}
    return as_pod(made)


@given(changes=st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(["v", "w", "", None, "gone"]))))
def test_the_pods_of_a_workload_are_those_that_name_it_now(changes: list[tuple[ObjectKey, str | None]]):
    roster, pods = WorkloadRoster(), dict[ObjectKey, Pod]()
    for key, workload in changes:
        pods.pop(key, None)
        if workload != "gone":
            pods[key] = of(key, workload)
        roster.note(key, pods.get(key))
        for asked in WORKLOADS:
            assert roster.pods(asked) == {
                key
                for key, one in pods.items()
                if (key.namespace, one.metadata.annotations.get(WORKLOAD)) == asked
            }
