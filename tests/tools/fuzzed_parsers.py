"""Every parser of text from outside, and what it may raise: nothing else may come of any text."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, NamedTuple, cast

from reconciler.allocation.alignment.preferences import JOINT, PARTITION, alignments, partition_preference
from reconciler.api.manifests import documents
from reconciler.api.manifests.documents import Document
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.selectors import NodeSelector
from reconciler.api.objects.semver import Semver
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import Review, ServedKind
from reconciler.api.validation.served_kinds import COMPOSITE_GROUP, POD_GROUP, TAINT_RULE, WORKLOAD
from reconciler.api.versions.extensions import ANNOTATION
from reconciler.api.versions.reading import is_ours, read, to_v1
from reconciler.cel.program import compile_selector
from reconciler.cluster.events import Cursor, cut_listing, listed
from reconciler.cluster.kinds import Resource
from reconciler.control.special_claims import HANDED_OVER, HandOverTerms, SpecialClaims
from reconciler.errors import Malformed, Rejected, Relist, Retry
from reconciler.ha.shard import parse_shard
from reconciler.plugins.koordinator import annotations as koordinator
from tests.tools.unit_pictures import intake


class Parser(NamedTuple):
    """Something that reads text."""

    run: Callable[[str], object]
    may_raise: tuple[type[Exception], ...]


SLICES = Resource("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False)
CLAIMS = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)
KOORDINATOR = "scheduling.koordinator.sh"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _manifest(text: str) -> object:
    found = documents.of_text("file", text.encode("utf-8", "replace").decode())
    return [read(one.raw) if isinstance(one, Document) and is_ours(one.raw) else one for one in found]


def _older_slice(spec: str) -> object:
    made = []
    for version in ("v1beta1", "v1beta2", "v1alpha3"):
        with suppress(Malformed):
            raw = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice"}
            made.append(to_v1({**raw, "metadata": {"name": "s"}, "spec": json.loads(spec)}, []))
    return made


def _page(text: str) -> object:
    page = cut_listing(_bytes(text))
    return [listed(item, SLICES) for item in page.items]


def _slice(spec: str) -> object:
    text = b'{"metadata":{"name":"s","resourceVersion":"1"},"spec":' + _bytes(spec) + b"}"
    return listed(text, SLICES)


def _claim(spec: str) -> object:
    text = b'{"metadata":{"name":"c","namespace":"n","resourceVersion":"1"},"spec":' + _bytes(spec) + b"}"
    return listed(text, CLAIMS)


def _extensions(text: str) -> object:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d", "pool": pool, "nodeName": "n", "devices": [{"name": "d"}]}
    metadata = {"name": "s", "annotations": {ANNOTATION: text}}
    return read(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
    )


def _alignments(text: str) -> object:
    raw: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n", "annotations": {JOINT: text, PARTITION: text}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
    }
    claim = cast("ResourceClaim", read(raw))
    with suppress(Malformed):
        alignments(claim, {})
    return partition_preference(claim)


def _koordinator(text: str) -> object:
    names = ("device-allocated", "device-allocate-hint", "device-joint-allocate", "gpu-partition-spec")
    notes = {f"{KOORDINATOR}/{name}": text for name in names}
    for one in (koordinator.allocated, koordinator.hints, koordinator.joint_allocate):
        with suppress(Malformed):
            one("pod p", notes)
    return koordinator.partition_spec("pod p", notes)


def _selector(text: str) -> object:
    raw = json.loads(text)
    return NodeSelector.model_validate(raw).matches("n", {"zone": "a"})


def _written(kind: ServedKind, spec: str) -> object:
    """An object as files, a watch and the embedded server take it, in every version, and again without it."""
    made: list[object] = []
    for served in kind.served:
        raw = {"metadata": {"name": "g", "namespace": "n"}, "spec": json.loads(spec)}
        with suppress(Malformed):
            made.append(read({"apiVersion": str(served), "kind": kind.kind, **raw}))
        with suppress(WrongType):
            stored = kind.upgrade(raw, served)
            made += kind.validate(Review(stored, None, served, "", {}))
            made += kind.validate(Review(stored, {**stored, "spec": {}}, served, "", {}))
            made.append(kind.downgrade(stored, served))
    return made


async def _hand_over(text: str, node: str = "n") -> str:
    """What is held for a pod whose annotation says anything: its node at most, for a minute at most."""
    pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {"nodeName": node}}
    pod["metadata"]["annotations"] = {HANDED_OVER: text}  # type: ignore[assignment]
    picture = intake()
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    terms = HandOverTerms(lambda: 0.0, lambda: moment, seconds=60.0, calm=5.0)
    delta = picture.store.apply(Changed("Pod", Pod.model_validate(pod)))
    SpecialClaims(picture.store, picture.roster, picture.nominating, terms).note(delta)
    held = list(picture.store.nominations)
    assert all(one.until <= 60.0 and {place.node for place in one.places} == {node} for one in held)
    return "held" if held else "nothing is held"


STAMPS = ("2026-01-01T00:00:30Z", "2026-01-01", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "x", "")


def handed_over(seed: int) -> str:
    """The same for a text that was right, or nearly, and is broken in some places."""
    random = Random(f"handedOver {seed}")
    text = f"{random.choice(STAMPS)} {random.choice(('d', 'd,e', ',', '', 'é', 'x' * 999))}"
    for _ in range(random.randrange(4)):
        at = random.randrange(len(text) + 1)
        text = (
            text[:at] + random.choice((" ", ",", "Z", "-", "9" * 9, "\0")) + text[at + random.randrange(3) :]
        )
    return asyncio.run(_hand_over(text, random.choice(("n", "gone", ""))))


PARSERS = {
    "quantity": Parser(Quantity.parse, (ValueError,)),
    "semver": Parser(Semver.parse, (ValueError,)),
    "semver, leniently": Parser(Semver.parse_leniently, (ValueError,)),
    "CEL": Parser(compile_selector, (Rejected,)),
    "a line of a watch": Parser(lambda text: Cursor(SLICES, "1").feed(_bytes(text)), (Retry, Relist)),
    "a page of a listing": Parser(_page, (ValueError, Retry)),
    "the spec of a slice": Parser(_slice, (Retry,)),
    "the spec of an older slice": Parser(_older_slice, (ValueError, RecursionError)),
    "the spec of a claim": Parser(_claim, (Retry,)),
    "device-extensions": Parser(_extensions, (Malformed,)),
    "joint-allocation": Parser(_alignments, (Malformed,)),
    "Koordinator's annotations": Parser(_koordinator, (Malformed,)),
    "a node selector": Parser(_selector, (ValueError, RecursionError, Rejected)),
    "a manifest": Parser(_manifest, (Malformed,)),
    "the spec of a PodGroup": Parser(partial(_written, POD_GROUP), (ValueError, RecursionError)),
    "the spec of a CompositePodGroup": Parser(
        partial(_written, COMPOSITE_GROUP), (ValueError, RecursionError)
    ),
    "the spec of a Workload": Parser(partial(_written, WORKLOAD), (ValueError, RecursionError)),
    "the spec of a taint rule": Parser(partial(_written, TAINT_RULE), (ValueError, RecursionError)),
    "the annotation handed-over": Parser(lambda text: asyncio.run(_hand_over(text)), ()),
    "a shard": Parser(parse_shard, (Rejected,)),
}

CORPUS = (
    "",
    "\0",
    "\ud800",
    "NaN",
    "null",
    "[]",
    "{}",
    '"x"',
    "1e999999999",
    "-" + "9" * 5000,
    "[" * 5000,
    '{"a":' * 5000,
    "[" * 900 + "]" * 900,
    '{"d": {"compatibleOnlyWith": ' + "[" * 900 + "]" * 900 + "}}",
    '{"d": {"consumesCounters": [1, null, {"counterSet": []}]}}',
    '{"d": {"consumesCounters": [{"counterSet": {"x": 1}, "compatibilityGroups": [[]]}]}}',
    '{"d": {"consumesCounters": [{"counterSet": "g", "compatibilityGroups": 5}]}}',
    '{"devices": {"requests": [{"name": "r", "exactly": null, "firstAvailable": null}]}}',
    '{"devices": {"requests": [{"name": "r", "exactly": {"count": ' + "9" * 5000 + "}}]}}",
    '{"driver": "d", "pool": {"name": "p", "generation": 1e400, "resourceSliceCount": 1}}',
    '{"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [{"name": null}]}',
    '{"type":"ADDED","object":{"metadata":null}}',
    '{"type":"ADDED","object":{"metadata":{"resourceVersion":[]}}}',
    '{"type":"ERROR","object":{"code":410,"message":{}}}',
    '{"type":[],"object":{}}',
    '{"metadata":{"resourceVersion":7},"items":[1]}',
    '{"metadata":{},"items":[{"metadata":{"name":[]}}]}',
    '{"nodeSelectorTerms": [{"matchFields": [{"key": "z", "operator": "Gt", "values": ["9999999"]}]}]}',
    "a: &a [*a, *a]",
    "a: &a [x]\nb: *a\n<<: *a",
    "!!python/object/apply:os.system ['true']",
    "kind: ResourceSlice\napiVersion: resource.k8s.io/v1\nmetadata: {name: 1}\nspec: []",
    "- " * 3000,
    "? " * 3000,
    "drivers=a;drivers=b;;=",
    "v" + "1." * 5000,
    "1.2.3-" + "a." * 120,
    "(" * 3000,
    "device." + "a." * 4000,
)
"""Texts that hurt once, or look as if they might; each is given to every parser."""


def survives(name: str, text: str) -> None:
    """Read a text. Raises what the parser must not raise."""
    parser = PARSERS[name]
    with suppress(*parser.may_raise):
        parser.run(text)
