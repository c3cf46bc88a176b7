"""A small fleet, sets of pods, and the question how many fit, for tests."""

from collections.abc import Iterable
from typing import Any

from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import Fit, question_in
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.small_fleet import Object, device_class, devices, node, template


def machine(name: str, count: int, *, cpu: str = "8", **labels: str) -> list[Object]:
    made = node(name, **{"kubernetes.io/hostname": name, **labels})
    made["status"] = {"allocatable": {"cpu": cpu, "pods": "20"}}
    return [made, devices(name, *(f"d{at}" for at in range(count)))] if count else [made]


def pods(name: str, count: int, *, cpu: str = "0", gpus: str = "one", **fields: Any) -> Object:
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": gpus}] if gpus else [],
        **fields.pop("spec", {}),
    }
    return {"name": name, "count": count, "template": {"spec": spec}, **fields}


def ask(world: list[Object], *sets: Object, templates: Iterable[Object] = (), **fields: object) -> Fit:
    raw = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "FitRequest", "podSets": [*sets], **fields}
    documents = [raw, template("one"), template("two", 2), *templates]
    question = question_in(bundle([Document(Origin("test"), one) for one in documents]))
    with world_of(map(read, [device_class(), *world]), Semantics()).trial() as trial:
        found = fit(question, trial)
    assert not list(trial.store.assumptions)
    return found


FLEET = [*machine("a", 2, rack="x"), *machine("b", 2, rack="x"), *machine("c", 4, rack="y")]
