"""Many sets of pods at once: how many fit, from the text of the request to the text of the answer."""

import json
from time import perf_counter, thread_time

import numpy as np
from numpy.random import default_rng

from perf.deciding import Decider, Wrong, read_claim
from perf.fleets import mig, racks
from perf.fleets.objects import Json, claim
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import as_json, question_in
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Node
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Forked, Trial

SEED = 20
PROFILES = list(mig.SHARE)


def sets(size: Size, progress: Progress) -> Outcome:
    """The same request again and again, each answered on a fork of the state, as `POST /fit` does.

    The first one, for which the selectors run on the fleet, is not counted: others asked for them before.
    """
    decider, nodes = Decider.over(mig.fleet(size["nodes"])), Nodes()
    for raw in mig.fleet(size["nodes"]):
        thing = read(raw)
        if isinstance(thing, Node):
            nodes.note(Changed("Node", thing))
    drawn = default_rng(SEED)
    for number in range(size["held"]):
        profile = drawn.choice(PROFILES, p=np.array(list(mig.SHARE.values())) / 100)
        decider.decide(read_claim(claim(f"held-{number}", [mig.partition("r", str(profile))])))
    text = _request(size)
    whole, deciding, wall, placed = [], [], [], 0
    for number in range(size["asked"] + 1):
        busy, began = thread_time(), perf_counter()
        fork, table = Forked.fork_of(decider.store), nodes.fork()
        question = question_in(bundle(of_text("body", text)))
        read_at = thread_time()
        with Trial(fork.store(), table, supposed=False) as trial:
            found = fit(question, trial)
        decided_at = thread_time()
        answer = json.dumps(as_json(found))
        if number:
            whole.append(thread_time() - busy)
            deciding.append(decided_at - read_at)
            wall.append(perf_counter() - began)
            progress(number, size["asked"])
        placed = sum(one.fits for one in found.sets)
        if not answer or (found.all_fit != (placed == size["sets"] * size["pods"])):
            raise Wrong("the answer contradicts itself")
    return Outcome(
        [
            *_figures("request to answer, processor", whole),
            *_figures("deciding, processor", deciding),
            *_figures("request to answer", wall),
            Figure("pods with a place", placed, "pods", ""),
        ]
    )


def _figures(name: str, seconds: list[float]) -> list[Figure]:
    p50, p99 = (np.percentile(seconds, [50, 99]) * 1e3).tolist()
    return [Figure(f"{name} p50", p50, "ms"), Figure(f"{name} p99", p99, "ms")]


def _request(size: Size) -> str:
    items: list[Json] = []
    for number in range(size["sets"]):
        spec = claim("x", [mig.partition("r", PROFILES[number % len(PROFILES)])])["spec"]
        items.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"t{number}"},
                "spec": {"spec": spec},
            }
        )
    asked = [_set(number, size) for number in range(size["sets"])]
    request = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "FitRequest", "podSets": asked}
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [request, *items]})


def _set(number: int, size: Size) -> Json:
    pod = racks.pod(f"set-{number}")
    claims = [{"name": "gpu", "resourceClaimTemplateName": f"t{number}"}]
    topology = [{"key": "kubernetes.io/hostname"}] if size["topology"] else []
    return {
        "name": f"set-{number}",
        "count": size["pods"],
        "topology": topology,
        "template": {"spec": {**pod["spec"], "resourceClaims": claims}},
    }


_FLEET = {"nodes": 50, "held": 600, "sets": 50, "pods": 4, "asked": 30}
WORKLOADS = [
    Workload(
        "fit",
        "50 sets of 4 pods with MIG partitions on 10,400 devices, from the text of the request",
        sets,
        {
            "anywhere": {**_FLEET, "topology": 0},
            "each set on one node": {**_FLEET, "topology": 1},
            "some short": {**_FLEET, "held": 1600, "topology": 0},
        },
        tiny={"nodes": 2, "held": 4, "sets": 3, "pods": 2, "asked": 1, "topology": 1},
    ),
]
