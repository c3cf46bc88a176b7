"""The demonstration's manifests, decided as `dra-reconciler allocate` does, stopped at some claims."""

from datetime import UTC, datetime
from functools import cache
from io import BytesIO

from msgspec.structs import replace

from reconciler.api.manifests.bundle import read_bundle
from reconciler.api.manifests.inferred_nodes import bundle_objects
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.cli.demo import MANIFESTS
from reconciler.control.offline import Question, Report, decide
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.trial import load, store_of


@cache
def _decided() -> tuple[tuple[Question, ...], Report]:
    asked: list[Question] = []
    report = decide(read_bundle((str(MANIFESTS),), BytesIO()), Semantics(), on_question=asked.append)
    return tuple(asked), report


def after(pod: str) -> Snapshot:
    """The fleet when a pod was served, and nobody else."""
    bundle = read_bundle((str(MANIFESTS),), BytesIO())
    pods = {key: entry for key, entry in bundle.entries["Pod"].items() if str(key) == pod}
    named = {claim for one in bundle.of(Pod) if str(one.key) == pod for claim in claims_of(one)}
    claims = {key: entry for key, entry in bundle.entries["ResourceClaim"].items() if key in named}
    alone = replace(bundle, entries={**bundle.entries, "Pod": pods, "ResourceClaim": claims})
    report = decide(alone, Semantics())
    store = store_of(bundle_objects(bundle), Semantics())
    written = report.allocated(datetime.now(UTC))
    load(store, (read({**raw, "metadata": {**raw["metadata"], "uid": pod}}) for raw in written))
    return store.snapshot()


def question(claim: str) -> Question:
    """What is asked when a claim's turn comes, with the picture of the fleet at that moment."""
    (found,) = (one for one in _decided()[0] if [str(c.key) for c in one.claims] == [claim])
    return found


def granted(claim: str) -> Granted:
    """What a claim got."""
    (found,) = (one for one in _decided()[1].granted if [str(p.claim) for p in one.plans] == [claim])
    return found
