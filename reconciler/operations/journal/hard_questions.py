"""Keeps questions that a search gave up, as manifests: `dra-reconciler allocate -f FILE` asks them again."""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import structlog

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Unsatisfied
from reconciler.state.devices.snapshot import Snapshot, View

log = structlog.get_logger()

MOST_KEPT = 64
"""Files in the folder. With more, no other question is kept"""


class HardQuestions:
    """A folder of questions, each with one node where the search gave up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="hard-question")
        self.writing: Future[None] | None = None

    def keep(self, claims: Sequence[ResourceClaim], snapshot: Snapshot, answer: Unsatisfied) -> None:
        """Keep a question that was given up, unless another is being written. Equal ones have one file.

        Called by decisions, which do no I/O: a thread writes the file.
        """
        if answer.gave_up_on is None or (self.writing is not None and not self.writing.done()):
            return
        items = [*_fleet(snapshot.topology.view(answer.gave_up_on), snapshot), *_asked(claims, snapshot)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1)
        self.writing = self._writer.submit(self._write, text)

    def _write(self, text: str) -> None:
        path = self._folder / f"{sha256(text.encode()).hexdigest()[:16]}.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not path.exists() and sum(1 for _ in self._folder.glob("*.json")) < MOST_KEPT:
                path.write_text(text)
        except OSError as error:
            log.warning("hard question not kept", path=str(path), error=str(error))


def _asked(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> Iterator[object]:
    used = {
        part.device_class_name
        for claim in claims
        for request in claim.spec.devices.requests
        for part in (request.exactly, *request.first_available)
        if part is not None
    }
    for name, one in snapshot.classes.items():
        if name in used:
            yield {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", **one.to_json()}
    for claim in claims:
        of = claim.metadata
        metadata = {"name": of.name, "namespace": of.namespace, "annotations": dict(of.annotations)}
        yield _claim(metadata, {"spec": claim.spec.to_json()})


def _claim(metadata: object, content: dict[str, object]) -> object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, **content}


def _fleet(view: View, snapshot: Snapshot) -> Iterator[object]:
    """The node, the slices that it sees, and a claim without a name of its own for each held device."""
    fleet = snapshot.fleet
    metadata = {"name": view.node.name, "labels": dict(view.node.labels)}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    for of_node in view.pools:
        pool = fleet.pool(of_node.pool)
        for block in pool.blocks if pool is not None else ():
            yield {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **block.source().to_json()}
    held = view.rows[view.of(snapshot.occupancy.held)]
    for number, device in enumerate(map(fleet.id_of, held.tolist())):
        result = {"request": "r", "driver": device.driver, "pool": device.pool, "device": device.device}
        requests = [{"name": "r", "exactly": {"deviceClassName": "held"}}]
        content = {
            "spec": {"devices": {"requests": requests}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        yield _claim({"name": f"held-{number}", "namespace": "default"}, content)
