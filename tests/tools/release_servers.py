"""Embedded servers that offer what a release of Kubernetes offers, and keep the fields that it keeps."""

import json
from typing import Any

from reconciler.api.validation.kinds import Conversion, Object
from reconciler.api.validation.served_kinds import every_kind
from reconciler.embedded import ApiServer, GroupVersion, Request, Response, ServedKind, Stream
from tests.tools import release_schemas
from tests.tools.release_schemas import GROUP

OFF = {
    32: {"DRAAdminAccess", "DRAResourceClaimDeviceStatus"},
    33: {"DRAAdminAccess", "DRADeviceTaints", "DRAPartitionableDevices", "DRAPrioritizedList"},
    34: {
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
    },
    36: {
        "DRADeviceTaintRules",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAWorkloadResourceClaims",
        "TopologyAwareWorkloadScheduling",
    },
    37: {
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAWorkloadResourceClaims",
        "PodGroupPreemptionPolicy",
        "TopologyAwareWorkloadScheduling",
    },
}
"""Gates that a release knows and has off by default. Source: the release's own list of gates."""
OFF[35] = OFF[34] | {"DRADeviceTaintRules"}

_UNNAMED = {
    "DRAConsumableCapacity": {"allowMultipleAllocations", "consumedCapacity", "shareID"},
    "DRAPartitionableDevices": {"consumesCounters", "perDeviceNodeSelection", "sharedCounters"},
    "DRAPrioritizedList": {"firstAvailable"},
}
"""Fields whose descriptions do not name their gate"""


class Release(ApiServer):
    """A server of one minor release of Kubernetes 1, with its default gates, and its group switched on."""

    def __init__(self, minor: int, *, beta_rules: bool = False) -> None:
        """`beta_rules`: whether versions of DeviceTaintRule are switched on that are off by default."""
        self.minor = minor
        self.off = frozenset(OFF[minor])

        def serves(kind: ServedKind, version: GroupVersion) -> bool:
            if version.group != GROUP:
                return True
            if kind.kind == "DeviceTaintRule" and version.version != "v1" and not beta_rules:
                return False
            return version.version in release_schemas.served(minor, kind.kind)

        super().__init__(serves=serves, release=minor)

    def handle(self, request: Request) -> Response | Stream:
        """As every server does, but with the release's own name."""
        if request.path == "/version":
            version = {"major": "1", "minor": str(self.minor), "gitVersion": f"v1.{self.minor}.0"}
            return Response(200, json.dumps(version).encode())
        return super().handle(request)


def forgetful(minor: int) -> list[tuple[dict[GroupVersion, Conversion], GroupVersion, Conversion]]:
    """Conversions to put in place of those of the embedded server: what the release drops is not stored."""
    made = []
    for kind in every_kind():
        for version in kind.served:
            if version.group == GROUP and version.version in release_schemas.served(minor, kind.kind):
                before = kind.conversions.get(version, Conversion(_as_it_is, _as_it_is))
                conversions = kind.conversions
                assert isinstance(conversions, dict)
                up = _dropping(before, kind, version, minor)
                made.append((conversions, version, Conversion(up, before.down)))
    return made


def _dropping(before: Conversion, kind: ServedKind, version: GroupVersion, minor: int) -> Any:
    off = frozenset(OFF[minor])

    def up(obj: Object) -> Object:
        kept = release_schemas.pruned(obj, minor, version.version, kind.kind, off)
        assert isinstance(kept, dict)
        for gate in _UNNAMED.keys() & off:
            kept = _without(kept, _UNNAMED[gate])
        return before.up(kept)

    return up


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(part, names) for key, part in value.items() if key not in names}
    return [_without(part, names) for part in value] if isinstance(value, list) else value


def _as_it_is(obj: Object) -> Object:
    return obj
