"""The Kubernetes release whose rules apply, and its feature gates that are on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from reconciler.errors import Rejected

Release = Literal["1.36", "1.37"]

ADMIN_ACCESS = "DRAAdminAccess"
BINDING_CONDITIONS = "DRADeviceBindingConditions"
COMPATIBILITY_GROUPS = "DRADeviceCompatibilityGroups"
CONSUMABLE_CAPACITY = "DRAConsumableCapacity"
DEVICE_STATUS = "DRAResourceClaimDeviceStatus"
FRACTIONAL_RANGE = "DRAFractionalCapacityRange"
LIST_ATTRIBUTES = "DRAListTypeAttributes"
PARTITIONABLE_DEVICES = "DRAPartitionableDevices"
PRIORITIZED_LIST = "DRAPrioritizedList"
TAINT_RULES = "DRADeviceTaintRules"
TAINTS = "DRADeviceTaints"

GATES = (
    ADMIN_ACCESS,
    BINDING_CONDITIONS,
    COMPATIBILITY_GROUPS,
    CONSUMABLE_CAPACITY,
    DEVICE_STATUS,
    FRACTIONAL_RANGE,
    LIST_ATTRIBUTES,
    PARTITIONABLE_DEVICES,
    PRIORITIZED_LIST,
    TAINT_RULES,
    TAINTS,
)


GroupMode = Literal["kep-5963", "pairwise"]
"""How compatibility groups are compared. `kep-5963`: all devices that are allocated from a counter set share
one group; devices without groups are compatible only with each other. `pairwise`: every two devices share a
group; a device without groups is compatible with all."""

ExclusionScope = Literal["counter-set", "pool"]
"""Which pairs of devices `compatibleOnlyWith` judges, in a pool and on a node. `counter-set`: those that
share a counter set, and those of which one draws from none. `pool`: all."""

ANY_DRIVER = "*"


@dataclass(frozen=True, slots=True)
class Semantics:
    """The rules to follow.

    The releases differ in POOL-3 and POOL-7, PREP-8's capacity test, RES-9, RES-10 and CEL-6.
    """

    release: Release = "1.37"
    gates: frozenset[str] = frozenset(GATES)
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


def with_gates(text: str, *, lacking: frozenset[str] = frozenset()) -> frozenset[str]:
    """The gates that are on after `A=true,B=false`. Other gates are on, unless they are in `lacking`.

    Raises Rejected for an unknown name or value.
    """
    gates = set(GATES) - lacking
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        if name not in GATES:
            raise Rejected(f"unknown feature gate {name!r}; use one of {', '.join(GATES)}")
        if value.lower() not in ("true", "false"):
            raise Rejected(f"feature gate {name}: write {name}=true or {name}=false, not {part!r}")
        (gates.add if value.lower() == "true" else gates.discard)(name)
    return frozenset(gates)


def with_group_modes(modes: Iterable[str]) -> frozenset[tuple[str, GroupMode]]:
    """Parse `DRIVER=MODE` texts; the last of each driver wins. Raises Rejected for an unknown mode."""
    found: dict[str, GroupMode] = {}
    for text in modes:
        driver, _, mode = text.rpartition("=")
        if not driver or mode not in ("kep-5963", "pairwise"):
            raise Rejected(f"group mode {text!r}: write DRIVER=kep-5963 or DRIVER=pairwise")
        found[driver] = "pairwise" if mode == "pairwise" else "kep-5963"
    return frozenset(found.items())


def with_exclusion_scopes(scopes: Iterable[str]) -> frozenset[tuple[str, ExclusionScope]]:
    """Parse `DRIVER=SCOPE` texts; the last of each driver wins. Raises Rejected for an unknown scope."""
    found: dict[str, ExclusionScope] = {}
    for text in scopes:
        driver, _, scope = text.rpartition("=")
        if not driver or scope not in ("counter-set", "pool"):
            raise Rejected(f"exclusion scope {text!r}: write DRIVER=pool or DRIVER=counter-set")
        found[driver] = "pool" if scope == "pool" else "counter-set"
    return frozenset(found.items())
