"""What `modes` shows of Koordinator's devices: exclusive use, by node and type."""

from collections.abc import Iterable
from typing import Any

from reconciler.api.objects.meta import ApiObject
from reconciler.cli.output import Table
from reconciler.cli.views.koordinator_machines import fleet_of
from reconciler.plugins.koordinator.holdings import ExclusiveUse, exclusive_use
from reconciler.plugins.koordinator.objects import Device
from reconciler.plugins.koordinator.rules import Semantics

COLUMNS = ("NODE", "TYPE", "HELD", "EXCLUSIVE", "POD", "LOCKED OUT")


def used_alone(objects: Iterable[ApiObject]) -> list[ExclusiveUse]:
    """The exclusive use on all machines among some objects, by node; none without Device objects."""
    known = list(objects)
    if not any(isinstance(one, Device) for one in known):
        return []
    fleet = fleet_of(known, Semantics.PROPOSAL)
    return [
        use
        for name, machine in sorted(fleet.machines.items())
        for use in exclusive_use(machine, fleet.holders(name))
    ]


def table(found: Iterable[ExclusiveUse]) -> Table:
    """One row for each node and type, with a line for each device that is held for exclusive use."""
    made = Table(COLUMNS, names=2)
    for use in found:
        lines = [(str(one.minor), one.policy, ", ".join(map(str, one.pods))) for one in use.held]
        held = ("\n".join(column) for column in zip(*lines, strict=True))
        made.add((use.node, use.kind, *held, ", ".join(map(str, use.locked_out)) or "-"))
    return made


def as_json(found: Iterable[ExclusiveUse]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "node": use.node,
            "type": use.kind,
            "held": [
                {"minor": one.minor, "exclusivePolicy": one.policy, "pods": [str(pod) for pod in one.pods]}
                for one in use.held
            ],
            "lockedOut": list(use.locked_out),
        }
        for use in found
    ]
