"""What doctor examines, what a check finds (a rule, a place and what to do), and all rules by their ids."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from reconciler.api.manifests.bundle import Entry, bundle, with_own_uid
from reconciler.api.manifests.documents import Document, InvalidDocument, Origin
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ApiObject, PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import Device, DeviceTaintRule, ResourceSlice
from reconciler.api.objects.validating import subject_of
from reconciler.cel.refusals import REFUSES
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.trial import store_of


class Severity(Enum):
    """Severity of a finding, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """One problem."""

    severity: Severity
    check: str
    """Id of the rule"""
    object: str
    field: str
    """Path in the object; empty for the object as a whole"""
    what: str
    remedy: str
    origin: Origin


class Rule(Struct, frozen=True):
    """A rule that a check tests."""

    id: str
    severity: Severity
    summary: str
    remedy: str

    def finding_at(self, origin: Origin, subject: str, field: str, what: str) -> Finding:
        """A violation of this rule at a place in the input, which may be unreadable."""
        return Finding(self.severity, self.id, subject, field, what, self.remedy, origin)

    def finding(self, entry: Entry, field: str, what: str) -> Finding:
        """A violation of this rule in an object."""
        return self.finding_at(entry.origin, subject_of(entry.raw), field, what)


_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

UNREADABLE: Final = Rule(
    "unreadable", _E, "A document or an object cannot be read.",
    "Fix the syntax, or the named field; the API server would also reject or drop it.",
)  # fmt: skip
PUT_RIGHT: Final = Rule(
    "put-right", _W, "A field has a shape that is fixed here, but that an API server rejects.",
    "Write it as the API defines it; `dra-reconciler convert` converts whole files.",
)  # fmt: skip
OLD_VERSION: Final = Rule(
    "old-version", _I, "An object has an API version before v1.",
    "Use resource.k8s.io/v1; `dra-reconciler convert` writes it, or names the field that v1 does not have.",
)  # fmt: skip
DUPLICATE_OBJECT: Final = Rule(
    "duplicate-object", _E, "Two objects of one kind have the same name: only the first is used.",
    "Rename or remove one of them; a cluster that gets both keeps the last.",
)  # fmt: skip
API_RULES: Final = Rule(
    "api-rules", _E, "An object violates a rule or limit of the API.",
    "Fix the field; an API server rejects the object.",
)  # fmt: skip
FIRST_REVISION: Final = Rule(
    "first-revision-limits", _W, "A slice in the shape of KEP-4815's first revision exceeds its limits.",
    "Use smaller slices or fewer entries; `dra-reconciler convert` writes the current API.",
)  # fmt: skip
UNKNOWN_FIELD: Final = Rule(
    "unknown-field", _W, "A field is not known here; it is ignored, and servers drop what they do not know.",
    "Fix its name or its place, or remove it; if Kubernetes has it, upgrade dra-reconciler.",
)  # fmt: skip
UNUSED_FIELD: Final = Rule(
    "unused-field", _W, "Kubernetes uses a field that is ignored here, so answers may differ.",
    "Compare with what kube-scheduler does; docs/versions.md lists all such fields.",
)  # fmt: skip
PREVIEW_FIELD: Final = Rule(
    "preview-field", _I, "A field of a feature that no released server has.",
    "Keep it to trials: the field may change or go. docs/reference/rules has its rules.",
)  # fmt: skip
UNKNOWN_KIND: Final = Rule(
    "unknown-kind", _W, "A kind about devices or gangs is not known here, so its objects are ignored.",
    "Fix kind or version if they are wrong; if Kubernetes has it, upgrade dra-reconciler.",
)  # fmt: skip
UNRENDERED: Final = Rule(
    "unrendered-template", _E, "A value contains a template action that is not rendered.",
    "Render the template first, and check its output.",
)  # fmt: skip
CLAIM_SOURCE: Final = Rule(
    "claim-source", _E, "An entry of a pod's resourceClaims has `source`, which servers drop.",
    "Move the fields below `source` up to the entry.",
)  # fmt: skip
CLAIM_ENTRY: Final = Rule(
    "claim-entry", _E, "An entry of a pod's resourceClaims, or the use of one in a container, is invalid.",
    "Name one claim or one template in each entry; containers name entries and requests of their claims.",
)  # fmt: skip
MISSING_CLAIM: Final = Rule(
    "missing-claim", _W, "A pod names a claim or template that is not in the input.",
    "Create it, or fix its name. In manifests: ignore this if the cluster has it.",
)  # fmt: skip

GROUP_TREE: Final = Rule(
    "group-tree", _W, "A tree of CompositePodGroups cannot be used: a parent or groups are missing, say.",
    "Correct the parents or minGroupCount, or add the missing groups; pods of the tree are pending.",
)  # fmt: skip

POOL_INCOMPLETE: Final = Rule(
    "pool-incomplete", _E, "The newest generation of a pool does not have resourceSliceCount slices.",
    "Publish resourceSliceCount slices, or fix the count; until then no device of the pool is allocated.",
)  # fmt: skip
POOL_OBSOLETE: Final = Rule(
    "pool-obsolete", _W, "A slice has an older generation than its pool.",
    "Delete the slice, or update its generation; its devices are not allocated.",
)  # fmt: skip
POOL_DISAGREES: Final = Rule(
    "pool-disagrees", _E, "Slices of one pool and generation have different resourceSliceCount.",
    "Set the same count in every slice of a generation; until then no device of the pool is allocated.",
)  # fmt: skip
DUPLICATE_DEVICE: Final = Rule(
    "duplicate-device", _E, "A pool has two devices with the same name.",
    "Rename one of them; until then no device of the pool is allocated.",
)  # fmt: skip
DEVICE_ON_TWO_NODES: Final = Rule(
    "device-on-two-nodes", _E, "Devices of two nodes have the same driver, pool and name.",
    "Use a separate pool for each node, for example with the name of the node.",
)  # fmt: skip

DUPLICATE_COUNTER_SET: Final = Rule(
    "duplicate-counter-set", _E, "A pool has two counter sets with the same name.",
    "Merge them or rename one; until then no device of the pool is allocated.",
)  # fmt: skip
DANGLING_COUNTER_SET: Final = Rule(
    "dangling-counter-set", _E, "A device draws from a counter set that its pool does not have.",
    "Fix the name, or publish the set in a slice of the same pool and generation.",
)  # fmt: skip
DANGLING_COUNTER: Final = Rule(
    "dangling-counter", _E, "A device draws a counter that the counter set does not have.",
    "Fix the name, or add the counter to the set.",
)  # fmt: skip
NEGATIVE_DRAW: Final = Rule(
    "negative-draw", _E, "A device draws a negative amount from a counter set.",
    "Draw zero or more; until then no device of the pool is allocated.",
)  # fmt: skip
POOL_INVALID: Final = Rule(
    "pool-invalid", _E, "The counters of a pool cannot be used.",
    "Fix what the finding names; until then no device of the pool is allocated.",
)  # fmt: skip
DEVICE_NEVER_FITS: Final = Rule(
    "device-never-fits", _E, "A device draws more than its counter set holds, so it is never allocated.",
    "Lower what the device draws, or raise the counter.",
)  # fmt: skip
UNUSED_COUNTER: Final = Rule(
    "unused-counter", _W, "No device of the pool draws from a counter.",
    "Remove the counter, or let devices draw from it.",
)  # fmt: skip
COUNTERS_OVERCOMMITTED: Final = Rule(
    "counters-overcommitted", _E, "Allocated devices draw more than their counter set holds.",
    "Delete one of the named claims; until then no other device of the set is allocated.",
)  # fmt: skip
LARGER_FIRST: Final = Rule(
    "larger-first", _I, "A device is listed before smaller ones, so claims that match both get it first.",
    "List smaller devices first, as `convert --order-by-size` does. Ignore this if all claims select a size.",
)  # fmt: skip

SELECTOR_REFUSED: Final = Rule(
    "selector-refused", _E, "An expression does not compile, or may take too many steps.",
    "Fix the expression; an API server rejects the object.",
)  # fmt: skip
SELECTOR_RAISES: Final = Rule(
    "selector-raises", _E, "An expression fails on some devices, so the whole allocation fails.",
    "Guard it: put `device.driver == ... &&` or `\"name\" in device.attributes[...] &&` before it.",
)  # fmt: skip
MATCHES_NOTHING: Final = Rule(
    "matches-nothing", _W, "A class or a request selects none of the devices.",
    "Compare the expressions with the attributes that the slices publish.",
)  # fmt: skip
FOREIGN_DOMAIN: Final = Rule(
    "foreign-domain", _W, "An expression reads a domain that no device has.",
    "A name without a domain is in the domain of its driver; use the driver's name as the domain.",
)  # fmt: skip
MISSING_CLASS: Final = Rule(
    "missing-class", _W, "A request names a class that is not in the input.",
    "Create the DeviceClass, or fix deviceClassName. In manifests: ignore this if the cluster has it.",
)  # fmt: skip

NO_NODE_SELECTION: Final = Rule(
    "no-node-selection", _E, "A slice, or a device that needs one, has no node selection.",
    "Set exactly one of nodeName, nodeSelector, allNodes, or on a slice perDeviceNodeSelection.",
)  # fmt: skip
BAD_NODE_SELECTOR: Final = Rule(
    "bad-node-selector", _E, "A node selector is invalid.",
    "Fix the requirement; valid operators are In, NotIn, Exists, DoesNotExist, Gt and Lt.",
)  # fmt: skip
SEVERAL_TERMS: Final = Rule(
    "several-terms", _E, "A node selector of a slice or device has several terms.",
    "Use one term: a claim cannot carry more, so its allocation fails; or publish one device for each term.",
)  # fmt: skip
MATCHES_NO_NODE: Final = Rule(
    "matches-no-node", _W, "The node name or selector of a slice or device matches no Node of the input.",
    "Fix the node name or selector, or label the nodes.",
)  # fmt: skip

DOUBLE_ALLOCATION: Final = Rule(
    "double-allocation", _E, "Two claims hold a device that cannot be shared.",
    "Delete one of the claims, and the pods that use it.",
)  # fmt: skip
UNKNOWN_DEVICE: Final = Rule(
    "unknown-device", _W, "A claim holds a device that its pool does not publish.",
    "Publish the device again, or delete the claim.",
)  # fmt: skip
HELD_AT_ODDS: Final = Rule(
    "held-at-odds", _E, "Allocated devices exclude each other.",
    "Delete one of the named claims.",
)  # fmt: skip
HELD_UNDER_TAINT: Final = Rule(
    "held-under-taint", _W, "A held device has a NoExecute taint.",
    "Pods that use it without tolerating the taint are evicted: repair the device, or move them before.",
)  # fmt: skip

ASYMMETRIC: Final = Rule(
    "asymmetric-exclusion", _W, "A device allows another that forbids it.",
    "Make both expressions agree; until then the two are never allocated together.",
)  # fmt: skip
EXPRESSION_FAILS: Final = Rule(
    "expression-fails", _E, "A compatibleOnlyWith expression does not compile, or fails on a device.",
    "Guard attributes that not all devices have; a pair that fails counts as incompatible.",
)  # fmt: skip
EXCLUDES_ITSELF: Final = Rule(
    "excludes-itself", _I, "A compatibleOnlyWith expression is false for its own device.",
    "Ignore this if two such devices must not be allocated together; otherwise include its own kind.",
)  # fmt: skip
LONELY_GROUP: Final = Rule(
    "lonely-group", _I, "No other device of the counter set declares a compatibility group.",
    "Ignore this if the device must be allocated alone; otherwise declare the group in other devices.",
)  # fmt: skip
MISSPELLED_GROUP: Final = Rule(
    "misspelled-group", _W, "The name of a compatibility group is similar to the group of another device.",
    "Fix the name, so that the devices share the group.",
)  # fmt: skip
NEVER_TOGETHER: Final = Rule(
    "never-together", _I, "Devices exclude each other, although the counters allow both.",
    "Ignore this if the hardware cannot do both; otherwise fix groups and expressions.",
)  # fmt: skip
NOT_COMPARED: Final = Rule(
    "not-compared", _I, "A compatibleOnlyWith expression is not true for a device of another counter set.",
    "Ignore this if each counter set is a physical device; otherwise set --exclusion-scope DRIVER=pool.",
)  # fmt: skip
EXTENSION_CONFLICT: Final = Rule(
    "extension-conflict", _W, "Part of the annotation dra-reconciler.io/device-extensions has no effect.",
    "Set each field in one place only, or equal in both; the device's field overrides the annotation.",
)  # fmt: skip
DROPPED: Final = Rule(
    "dropped-expression", _W, "A compatibleOnlyWith field is not in the annotation, so servers drop it.",
    "Also publish it in the annotation dra-reconciler.io/device-extensions.",
)  # fmt: skip

RULES: Final = tuple(one for one in list(globals().values()) if isinstance(one, Rule))
"""All of the above, in this order"""


T = TypeVar("T", bound=ApiObject)
_IN_SNAPSHOT = (ResourceSlice, DeviceClass, ResourceClaim, Node, DeviceTaintRule)

Slices = list[tuple[Entry, ResourceSlice]]


class ReadDocument(Struct, frozen=True):
    """A document, and its object if it is valid."""

    document: Document
    entry: Entry | None


class DoctorInput(Struct, frozen=True):
    """The input of all checks."""

    documents: tuple[ReadDocument, ...]
    refused: tuple[InvalidDocument, ...]
    warnings: tuple[tuple[Origin, str], ...]
    """Mistakes that were fixed while reading"""
    snapshot: Snapshot
    """With all slices, also those with duplicate names"""
    slice_entries: Mapping[str, Entry]
    """Name in `snapshot` -> the slice as it was read"""

    @property
    def entries(self) -> Iterator[Entry]:
        """All valid objects, in order."""
        return (one.entry for one in self.documents if one.entry is not None)

    def of(self, model: type[T]) -> Iterator[tuple[Entry, T]]:
        """All objects of one kind."""
        return ((entry, entry.object) for entry in self.entries if isinstance(entry.object, model))

    def pools(self) -> Mapping[PoolID, Slices]:
        """The slices of each pool, in the order in which they were read."""
        found: dict[PoolID, Slices] = {}
        for entry, source in self.of(ResourceSlice):
            found.setdefault(source.pool_id, []).append((entry, source))
        return found

    def device(self, row: int) -> tuple[Entry, str, Device]:
        """The slice, the path in it, and the device in a row of the snapshot's fleet."""
        fleet = self.snapshot.fleet
        at = int(fleet.pool_of[row])
        pool, local = fleet.pools[at], row - int(fleet.start[at])
        block = int(np.searchsorted(pool.offsets, local, side="right")) - 1
        index = local - int(pool.offsets[block])
        source = pool.blocks[block].source()
        return self.slice_entries[source.key.name], f"spec.devices[{index}]", source.spec.devices[index]


def read_input(found: Iterable[Document | InvalidDocument], rules: Semantics) -> DoctorInput:
    """Read documents. Invalid content is never raised; it goes to `refused`."""
    written: list[ReadDocument] = []
    refused: list[InvalidDocument] = []
    warnings: list[tuple[Origin, str]] = []
    for document in found:
        if isinstance(document, InvalidDocument):
            refused.append(document)
            continue
        # One bundle for each document: a common bundle would reject the second object of a name.
        one = bundle([document], REFUSES, rules)
        refused += one.refused
        warnings += [(document.origin, line.removeprefix(f"{document.origin}: ")) for line in one.warnings]
        entries = [entry for of_kind in one.entries.values() for entry in of_kind.values()]
        written.append(ReadDocument(document, entries[0] if entries else None))
    snapshot, slices = _snapshot([one.entry for one in written if one.entry is not None], rules)
    return DoctorInput(tuple(written), tuple(refused), tuple(warnings), snapshot, slices)


def _snapshot(entries: Iterable[Entry], rules: Semantics) -> tuple[Snapshot, dict[str, Entry]]:
    objects: list[ApiObject] = []
    slices: dict[str, Entry] = {}
    for number, entry in enumerate(entries):
        thing = entry.object
        if not isinstance(thing, _IN_SNAPSHOT):
            continue
        if isinstance(thing, ResourceSlice):
            name = thing.key.name if thing.key.name not in slices else f"{thing.key.name} ({number})"
            slices[name] = entry
            thing = thing.replacing("metadata", name=name)
        elif isinstance(thing, ResourceClaim):
            thing = with_own_uid(thing)
        objects.append(thing)
    return store_of(objects, rules).snapshot(), slices
