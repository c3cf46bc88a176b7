"""The Kubernetes release whose rules apply, and its feature gates that are on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from reconciler.errors import Rejected

T = TypeVar("T")
Release = Literal["1.36", "1.37"]
NEWEST_MINOR = 37
"""The newest release of Kubernetes 1 whose defaults are known"""

ADMIN_ACCESS = "DRAAdminAccess"
BINDING_CONDITIONS = "DRADeviceBindingConditions"
COMPATIBILITY_GROUPS = "DRADeviceCompatibilityGroups"
COMPOSITE_GROUPS = "CompositePodGroup"
CONSUMABLE_CAPACITY = "DRAConsumableCapacity"
DERIVED_ATTRIBUTES = "DRADerivedAttributes"
DEVICE_STATUS = "DRAResourceClaimDeviceStatus"
EXTENDED_RESOURCES = "DRAExtendedResource"
FRACTIONAL_RANGE = "DRAFractionalCapacityRange"
GENERIC_WORKLOAD = "GenericWorkload"
GROUP_CLAIMS = "DRAWorkloadResourceClaims"
GROUP_PREEMPTION = "PodGroupPreemptionPolicy"
LIST_ATTRIBUTES = "DRAListTypeAttributes"
NODE_ALLOCATABLE = "DRANodeAllocatableResources"
OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
PARTITIONABLE_DEVICES = "DRAPartitionableDevices"
PRIORITIZED_LIST = "DRAPrioritizedList"
SHARED_CAPACITY = "DRASharedConsumableCapacity"
SHARING_AFFINITY = "DRASharingAffinity"
TAINT_RULES = "DRADeviceTaintRules"
TAINTS = "DRADeviceTaints"


class FeatureGate(NamedTuple):
    """A feature of Kubernetes that a server may have or lack."""

    on_since: int | None = None
    """The minor release of Kubernetes 1 in which it is on by default; None: in none yet"""
    shown_by: str = ""
    """A kind that only servers with the feature serve: discovery then decides, not the release"""
    needs_no_server: bool = False
    """Whether its fields are also read from annotations, and nothing of it is written: never off by itself"""
    is_preview: bool = False
    """Whether no release has it yet: off without a server, too"""


GATES: dict[str, FeatureGate] = {
    ADMIN_ACCESS: FeatureGate(34),
    BINDING_CONDITIONS: FeatureGate(36),
    COMPATIBILITY_GROUPS: FeatureGate(needs_no_server=True),
    COMPOSITE_GROUPS: FeatureGate(shown_by="CompositePodGroup"),
    CONSUMABLE_CAPACITY: FeatureGate(36),
    DERIVED_ATTRIBUTES: FeatureGate(),
    DEVICE_STATUS: FeatureGate(33),
    EXTENDED_RESOURCES: FeatureGate(36),
    FRACTIONAL_RANGE: FeatureGate(37),
    GENERIC_WORKLOAD: FeatureGate(shown_by="PodGroup"),
    GROUP_CLAIMS: FeatureGate(),
    GROUP_PREEMPTION: FeatureGate(),
    LIST_ATTRIBUTES: FeatureGate(),
    NODE_ALLOCATABLE: FeatureGate(),
    OPTIONAL_NODE_OPERATIONS: FeatureGate(),
    PARTITIONABLE_DEVICES: FeatureGate(36),
    PRIORITIZED_LIST: FeatureGate(34),
    SHARED_CAPACITY: FeatureGate(is_preview=True),
    SHARING_AFFINITY: FeatureGate(is_preview=True),
    TAINT_RULES: FeatureGate(37, shown_by="DeviceTaintRule"),
    TAINTS: FeatureGate(36),
}
"""docs/versions.md shows them by release; tests compare them with the gates of each release."""


def spelled(gate: str) -> str:
    """The name of a gate, with a note if it is one of a preview."""
    return f"{gate} (preview of 1.{NEWEST_MINOR + 1})" if GATES[gate].is_preview else gate


def needs_gate(gate: str) -> str:
    """What is said of a feature whose gate is off."""
    return f"needs the feature gate {spelled(gate)}; it is off"


GroupMode = Literal["kep-5963", "pairwise"]
"""How compatibility groups are compared. `kep-5963`: all devices that are allocated from a counter set share
one group; devices without groups are compatible only with each other. `pairwise`: every two devices share a
group; a device without groups is compatible with all."""

ExclusionScope = Literal["counter-set", "pool"]
"""Which pairs of devices `compatibleOnlyWith` judges, in a pool and on a node. `counter-set`: those that
share a counter set, and those of which one draws from none. `pool`: all."""

ANY_DRIVER = "*"

ALL_GATES = frozenset(name for name, gate in GATES.items() if not gate.is_preview)
"""Those that are on where no server lacks them"""

NEWER_GATES = frozenset({
    *(COMPOSITE_GROUPS, DERIVED_ATTRIBUTES, FRACTIONAL_RANGE, GROUP_PREEMPTION),
    *(NODE_ALLOCATABLE, OPTIONAL_NODE_OPERATIONS),
})  # fmt: skip
"""Those that 1.36 lacks, or has with fields of another shape: off where its rules are followed"""


@dataclass(frozen=True, slots=True)
class Semantics:
    """The rules to follow.

    The releases differ in POOL-3 and POOL-7, PREP-8's capacity test, RES-9, RES-10 and CEL-6.
    """

    release: Release = "1.37"
    gates: frozenset[str] = ALL_GATES
    group_modes: frozenset[tuple[str, GroupMode]] = frozenset()
    """(driver, mode); the driver `*` is the default for all others"""
    exclusion_scopes: frozenset[tuple[str, ExclusionScope]] = frozenset()
    """(driver, scope); the driver `*` is the default for all others"""

    def group_mode(self, driver: str, *, states: bool) -> GroupMode:
        """The mode for a driver's devices (GRP-12). `states`: one of them says `compatibleOnlyWith`."""
        return self.explicit_group_mode(driver) or ("pairwise" if states else "kep-5963")

    def explicit_group_mode(self, driver: str) -> GroupMode | None:
        """The mode that the settings name for a driver; None if they leave it to its devices."""
        modes = dict(self.group_modes)
        return modes.get(driver) or modes.get(ANY_DRIVER)

    def exclusion_scope(self, driver: str) -> ExclusionScope:
        """Which pairs of a driver's devices expressions judge."""
        scopes = dict(self.exclusion_scopes)
        return scopes.get(driver) or scopes.get(ANY_DRIVER) or "counter-set"

    def has(self, gate: str) -> bool:
        """Whether a feature gate is on."""
        return gate in self.gates

    @property
    def old(self) -> bool:
        """Whether the rules of 1.36 apply where they differ."""
        return self.release == "1.36"

    @property
    def sharing(self) -> bool:
        """Whether a device can be held by several claims at once."""
        return self.has(CONSUMABLE_CAPACITY)

    @property
    def binding_conditions(self) -> bool:
        """Binding conditions need two gates."""
        return self.has(BINDING_CONDITIONS) and self.has(DEVICE_STATUS)


def lacking(release: Release) -> frozenset[str]:
    """The gates that are off without a server, since the release does not have them."""
    return NEWER_GATES if release == "1.36" else frozenset()


def with_gates(text: str, *, lacking: frozenset[str] = frozenset()) -> frozenset[str]:
    """The gates that are on after `A=true,B=false`; others are unless `lacking` has them, or previews.

    Raises Rejected for an unknown name or value.
    """
    gates = set(ALL_GATES - lacking)
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in GATES:
            raise Rejected(f"unknown feature gate {name!r}; use one of {', '.join(map(spelled, GATES))}")
        if value.lower() not in ("true", "false"):
            raise Rejected(f"feature gate {name}: write {name}=true or {name}=false, not {part!r}")
        (gates.add if value.lower() == "true" else gates.discard)(name)
    return frozenset(gates)


def with_group_modes(modes: Iterable[str]) -> frozenset[tuple[str, GroupMode]]:
    """Parse `DRIVER=MODE` texts; the last of each driver wins. Raises Rejected for an unknown mode."""
    return _by_driver(modes, "group mode", {"kep-5963": "kep-5963", "pairwise": "pairwise"})


def with_exclusion_scopes(scopes: Iterable[str]) -> frozenset[tuple[str, ExclusionScope]]:
    """Parse `DRIVER=SCOPE` texts; the last of each driver wins. Raises Rejected for an unknown scope."""
    return _by_driver(scopes, "exclusion scope", {"pool": "pool", "counter-set": "counter-set"})


def _by_driver(texts: Iterable[str], what: str, words: Mapping[str, T]) -> frozenset[tuple[str, T]]:
    found: dict[str, T] = {}
    for text in texts:
        driver, _, word = text.rpartition("=")
        if not driver or word not in words:
            raise Rejected(f"{what} {text!r}: write {' or '.join(f'DRIVER={one}' for one in words)}")
        found[driver] = words[word]
    return frozenset(found.items())
