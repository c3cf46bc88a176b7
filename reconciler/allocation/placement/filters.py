"""The filters of kube-scheduler that look at nodes and at the pods on them, each as tests of all nodes.

A filter is a function from a question to its tests; it yields none if the pod does not need it. Filters that
need kinds which are listed on demand say so first. Source: rules FIT-1 to FIT-10.
`volume_filters.py` has those that look at volumes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from kernels.domains import Counter, Even, Near, Vacant, per_domain, present
from kernels.types import Codes, Mask
from reconciler.allocation.placement import pod_tests
from reconciler.allocation.placement.volumes import volumes
from reconciler.api.objects.core import Pod
from reconciler.errors import Rejected
from reconciler.state.nodes.room import MOST, PODS
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods import terms as pod_terms

Filter = Callable[[pod_tests.PodQuestion], Iterator[pod_tests.Test]]

ROOM = "NodeResourcesFit"

_FEATURES: Mapping[str, Callable[[Pod], object]] = {
    "RestartAllContainersOnContainerExits": lambda pod: any(
        rule.action == "RestartAllContainers"
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for rule in container.restart_policy_rules
    ),
    "UserNamespacesHostNetworkSupport": lambda pod: pod.spec.host_network and pod.spec.host_users is False,
}
"""Feature that a node must declare -> whether a pod needs it, in Kubernetes 1.36"""


def node_affinity(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Node selector and required node affinity."""
    passed = question.nodes.labelled(question.pod)
    yield pod_tests.Test("NodeAffinity", "outside node selector or affinity", passed)


def taints(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Taints, cordons, and nodes that are not ready."""
    yield pod_tests.Test("TaintToleration", "with untolerated taint", question.nodes.tolerated(question.pod))


def node_objects(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Nodes without a Node object, where they may not be used."""
    nodes = question.nodes
    if not question.supposed and nodes.supposed:
        yield pod_tests.Test("", "without a Node object", nodes.described())


def other_claims(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """The nodes of the pod's claims that are allocated already."""
    if question.held:
        passed = question.nodes.matching(question.held)
        yield pod_tests.Test("DynamicResources", "away from other claims of the pod", passed)
    if question.taken:
        reason = (
            f"where another pod uses claim {question.taken}, whose devices stand for resources of the node"
        )
        nowhere = ~question.nodes.every()
        yield pod_tests.Test(
            "DynamicResources", reason, nowhere, "give each pod a claim of its own", by_pods=True
        )


def room(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """CPU, memory, other resources, and the number of pods."""
    wanted, waived, but = question.wanted, question.waived, question.counters.but
    if not question.by_resource:
        passed = question.nodes.room.fits(wanted, waived, but=but)
        yield pod_tests.Test(ROOM, "Insufficient resources", passed, by_pods=True)
        return
    for resource, places in question.nodes.room.short_of(wanted, waived, but=but).items():
        reason = "Too many pods" if resource == PODS else f"Insufficient {resource}"
        yield pod_tests.Test(ROOM, reason, ~places, by_pods=True, resource=resource)


def device_plugins(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Device plugins: beside one kube-scheduler takes the resource from it, and makes no claim (EXT-2)."""
    nodes = question.nodes
    for resource in question.claimed:
        offered, _ = nodes.room.by_name((resource,), but=())
        without = (offered[resource] == 0) | (offered[resource] == MOST)
        remedy = "rewrite the pod with dra-reconciler migrate"
        yield pod_tests.Test(ROOM, f"where a device plugin serves {resource}", without, remedy)


def declared_features(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Features of kubelets that the pod needs."""
    needed = frozenset(name for name, needs in _FEATURES.items() if needs(question.pod))
    if needed:
        names = ", ".join(sorted(needed))
        yield pod_tests.Test(
            "NodeDeclaredFeatures",
            f"without declared feature {names}",
            question.nodes.declaring(needed),
            f"enable {names} on the kubelets of more nodes",
        )


def host_ports(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Ports of the node."""
    for port in pod_terms.ports_of(question.pod):
        for taken in pod_terms.conflicting(port):
            yield pod_tests.Test(
                "NodePorts",
                f"with host port {port} in use",
                Vacant(_port_counter(question, taken)),
                f"free host port {port} on a node, or remove hostPort from the pod",
                by_pods=True,
            )


def topology_spread(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Topology spread constraints that must be met."""
    pod, nodes = question.pod, question.nodes
    found = pod_terms.spread_of(pod) if pod.spec.topology_spread_constraints else ()
    if not found:
        return
    complete = nodes.every()
    for one in found:
        complete = complete & (nodes.labels.codes(one.topology_key)[0] > 0)
    for one in found:
        codes, size = nodes.labels.codes(one.topology_key)
        yield pod_tests.Test(
            "PodTopologySpread",
            f"without label {one.topology_key} of a topology spread constraint",
            codes > 0,
            f"label the nodes with {one.topology_key}",
        )
        counted = complete
        if one.by_affinity:
            counted = counted & nodes.labelled(pod)
        if one.by_taints:
            counted = counted & nodes.tolerated_own(pod)
        own = int(one.selector.matches(pod.metadata.labels))
        at = _spread_counter(question, one, codes, size, counted)
        yield pod_tests.Test(
            "PodTopologySpread",
            f"beyond maxSkew {one.skew} of the topology spread over {one.topology_key}",
            Even(at, one.skew, own, one.least, present(codes, counted, size)),
            f"make room for the pod in other domains of {one.topology_key}, or raise maxSkew",
            by_pods=True,
        )


def affinity(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Required affinity: to pods that match all terms."""
    terms = pod_terms.affinity_of(question.pod)
    if not terms:
        return
    pod, labels_of = question.pod, question.nodes.residents.namespaces.labels_of
    pods = pod_terms.PodSet(tuple((term.scope, term.selector) for term in terms), terminating=True)
    keys = tuple(dict.fromkeys(term.topology_key for term in terms))
    counters = tuple(_set_counter(question, pods, key) for key in keys)
    first = pods.has(pod.key.namespace, pod.metadata.labels, labels_of)
    yield pod_tests.Test(
        "InterPodAffinity",
        f"without a pod of the required affinity in the same {', '.join(keys)}",
        Near(counters, first),
        "wait until a pod of the required affinity runs, or correct podAffinity",
        by_pods=True,
    )


def anti_affinity(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Required anti-affinity of the pod, and of pods that are there."""
    pod = question.pod
    for term in dict.fromkeys(pod_terms.anti_affinity_of(pod)):
        pods = pod_terms.PodSet(((term.scope, term.selector),), terminating=True)
        yield pod_tests.Test(
            "InterPodAffinity",
            f"with a pod in the same {term.topology_key} that the pod's anti-affinity excludes",
            Vacant(_set_counter(question, pods, term.topology_key)),
            f"add nodes in other domains of {term.topology_key}, or relax podAntiAffinity",
            by_pods=True,
        )
    for term in _against(question):
        yield pod_tests.Test(
            "InterPodAffinity",
            f"with a pod in the same {term.topology_key} whose anti-affinity excludes the pod",
            Vacant(_term_counter(question, term)),
            f"add nodes in other domains of {term.topology_key}, or relax that pod's podAntiAffinity",
            by_pods=True,
        )


FILTERS: tuple[Filter, ...] = (
    node_objects,
    node_affinity,
    other_claims,
    device_plugins,
    taints,
    declared_features,
    host_ports,
    room,
    volumes,
    topology_spread,
    affinity,
    anti_affinity,
)
"""In the order of their reasons: a node counts under the first that it fails"""


def require_objects(question: pod_tests.PodQuestion) -> None:
    """Raise Unlisted if the tests of a pod need objects that are not listed, and Rejected as filters do."""
    pod, nodes = question.pod, question.nodes
    own = () if pod.spec.affinity is None else (*pod_terms.affinity_of(pod), *pod_terms.anti_affinity_of(pod))
    if nodes.residents.asks_for_namespaces(pod, own):
        nodes.on_demand.require(pod_terms.NAMESPACE, "the namespaceSelector of a pod affinity term")
    if pod.spec.volumes and nodes.volumes.considered:
        pod_tests.require_storage(pod, nodes.on_demand, nodes.volumes.objects)


def tests_of(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """All tests of a pod, in the order of their reasons."""
    for find in FILTERS:
        yield from find(question)


def _against(question: pod_tests.PodQuestion) -> list[pod_terms.Term]:
    """The anti-affinity terms of other pods that select the pod."""
    pod, residents = question.pod, question.nodes.residents
    labels_of = residents.namespaces.labels_of
    found = dict.fromkeys(residents.against(pod))
    for fellow in question.fellows:
        for term in pod_terms.anti_affinity_of(fellow):
            if term.matches(pod.key.namespace, pod.metadata.labels, labels_of):
                found[term] = None
    return list(found)


def _port_counter(question: pod_tests.PodQuestion, port: pod_terms.Port) -> int:
    nodes, counters = question.nodes, question.counters

    def make() -> Counter:
        return pod_tests.by_node(nodes.residents.using(port, but=counters.but))

    def takes(pod: Pod) -> bool:
        return any(port in pod_terms.counted_as(one) for one in pod_terms.ports_of(pod))

    return counters.get(port, make, takes)


def _set_counter(question: pod_tests.PodQuestion, pods: pod_terms.PodSet, key: str) -> int:
    nodes, counters = question.nodes, question.counters
    residents = nodes.residents

    def make() -> Counter:
        codes, size = nodes.labels.codes(key)
        return Counter(codes, per_domain(residents.belonging(pods, but=counters.but), codes, None, size))

    def takes(pod: Pod) -> bool:
        return pods.has(pod.key.namespace, pod.metadata.labels, residents.namespaces.labels_of)

    return counters.get((pods, key), make, takes)


def _term_counter(question: pod_tests.PodQuestion, term: pod_terms.Term) -> int:
    nodes, counters = question.nodes, question.counters

    def make() -> Counter:
        codes, size = nodes.labels.codes(term.topology_key)
        having = nodes.residents.having(term, but=counters.but)
        return Counter(codes, per_domain(having, codes, None, size))

    return counters.get(term, make, lambda pod: term in pod_terms.anti_affinity_of(pod))


def _spread_counter(
    question: pod_tests.PodQuestion, spread: pod_terms.Spread, codes: Codes, size: int, counted: Mask
) -> int:
    nodes, counters, namespace = question.nodes, question.counters, question.pod.key.namespace
    pods = pod_terms.PodSet(((pod_terms.Scope(frozenset([namespace])), spread.selector),), terminating=False)
    ignored = spread.selector.selects_all  # kube-scheduler counts no pod for an empty selector

    def make() -> Counter:
        if ignored:
            return Counter(codes, np.zeros(size, dtype=np.int64), counted)
        each = nodes.residents.belonging(pods, but=counters.but)
        return Counter(codes, per_domain(each, codes, counted, size), counted)

    def takes(pod: Pod) -> bool:
        return not ignored and pod.key.namespace == namespace and spread.selector.matches(pod.metadata.labels)

    return counters.get((pods, spread.topology_key, counted.tobytes()), make, takes)


HERE = (host_ports, volumes, anti_affinity)
"""Filters that look at what shares a domain with the pod"""
EVERYWHERE = (topology_spread, affinity)
"""Filters that look at all domains"""


def surroundings(pod: Pod, names: Iterable[str], nodes: Nodes) -> tuple[object, ...]:
    """Which tests some nodes pass, and the counts behind that. Equal states give equal values."""
    rows = [row for name in sorted(names) if (row := nodes.row_of(name)) is not None]
    found: list[object] = []
    for filters in (HERE, EVERYWHERE):
        counters = pod_tests.Counters(nodes, (pod.key,))
        try:
            for test in (
                test for find in filters for test in find(pod_tests.PodQuestion(pod, nodes, counters))
            ):
                found += [test.reason, pod_tests.nodes_passing(test, counters)[rows].tolist()]
        except Rejected as exc:
            found.append(str(exc))
        for one in counters.made:
            counts = one.counts[one.codes[rows]] if filters is HERE else one.counts
            found.append(counts.tolist())
    return tuple(found)
