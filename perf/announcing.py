"""Has an API server announce claims, by the policy that is deployed, in a namespace made for that."""

import asyncio

import yaml

from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.live import Cluster
from perf.machine import ROOT
from reconciler.api.objects.claims import FINALIZER
from reconciler.cluster.kinds import NAMESPACE
from reconciler.errors import Conflict, Gone

FILE = ROOT / "deploy/admission/announce-claims.yaml"
SPACE = "perf-announced"
"""The namespace"""
LABEL = "dra-reconciler.io/announce-claims"
PATIENCE = 30.0
"""Seconds that a server has to apply a new policy"""
LOOK = 0.2
"""Seconds between two looks whether it does"""


async def announced_namespace(made: Cluster) -> str:
    """A namespace in which claims are announced from now on; empty if the server has no such policies.

    Raises Wrong if they have no effect, or if somebody else has a namespace of the name.
    """
    for raw in yaml.safe_load_all(FILE.read_text(encoding="utf-8")):
        try:
            await made.create(raw)
        except Conflict:  # it is deployed here
            continue
        except Gone:
            return ""
    try:
        await made.create(_namespace())
    except Conflict as exc:
        raise Wrong(f"the namespace {SPACE} is there already: delete it, if it is not in use") from exc
    until = asyncio.get_running_loop().time() + PATIENCE
    while asyncio.get_running_loop().time() < until:
        tried = await made.try_out(
            in_namespace(claim("tried", [mig.partition("partition", "1g.5gb")]), SPACE)
        )
        if FINALIZER in tried["metadata"].get("finalizers", ()):
            return SPACE
        await asyncio.sleep(LOOK)
    raise Wrong(f"the policies of {FILE.name} have no effect in namespace {SPACE} after {PATIENCE:g} s")


def in_namespace(raw: Json, namespace: str) -> Json:
    """The same object in another namespace."""
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}


def _namespace() -> Json:
    return {
        "apiVersion": NAMESPACE.api_version,
        "kind": NAMESPACE.kind,
        "metadata": {"name": SPACE, "labels": {LABEL: "true"}},
    }
