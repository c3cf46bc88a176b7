"""What `top` and `modes` show of Koordinator's devices."""

from collections.abc import Iterable, Sequence

from reconciler.api.objects.changes import Change
from reconciler.api.objects.meta import ApiObject
from reconciler.plugins.koordinator.figures import STATES, Tally, by_node, by_type
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.holdings import exclusive_use
from reconciler.plugins.koordinator.names import TYPES
from reconciler.plugins.koordinator.objects import printed
from reconciler.plugins.koordinator.pods import KoordinatorState
from reconciler.plugins.koordinator.rules import Rules
from reconciler.plugins.plugin import Shown, Usage, UsageLine
from reconciler.state.trial import load


class MachineUsage(Usage):
    """Machines, and the devices that pods hold, as they change."""

    types = TYPES
    states = STATES
    extra = "RESOURCES FREE"

    def __init__(self) -> None:
        self._state = KoordinatorState(Fleet(Rules()), lambda _: None)

    def apply(self, change: Change) -> None:
        self._state.apply(change)

    def lines(self, *, nodes: bool) -> Sequence[UsageLine]:
        fleet = self._state.fleet
        return [_line(tally) for tally in (by_node(fleet) if nodes else by_type(fleet))]


def modes(objects: Iterable[ApiObject]) -> Shown:
    """Exclusive use, by node and type: a line for each device that is held so."""
    state = KoordinatorState(Fleet(Rules()), lambda _: None)
    load(state, objects)
    shown = Shown(("NODE", "TYPE", "HELD", "EXCLUSIVE", "POD", "LOCKED OUT"), [], [])
    for name, machine in sorted(state.fleet.machines.items()):
        for use in exclusive_use(machine, state.fleet.holders(name)):
            lines = [(str(one.minor), one.policy, ", ".join(map(str, one.pods))) for one in use.held]
            held = ("\n".join(column) for column in zip(*lines, strict=True))
            shown.rows.append((use.node, use.kind, *held, ", ".join(map(str, use.locked_out)) or "-"))
            values = [
                {"minor": one.minor, "exclusivePolicy": one.policy, "pods": [str(pod) for pod in one.pods]}
                for one in use.held
            ]
            shown.values.append(
                {"node": use.node, "type": use.kind, "held": values, "lockedOut": list(use.locked_out)}
            )
    return shown


def _line(one: Tally) -> UsageLine:
    free = []
    for name, total, left in one.amounts:
        amounts = (next(iter(printed({name: int(amount)}).values())) for amount in (left, total))
        free.append(f"{name.rpartition('/')[2]} {' of '.join(amounts)}")
    if one.functions:
        free.append(f"virtual functions {one.functions_free} of {one.functions}")
    value = {
        "type": one.kind,
        "node": one.node or None,
        "devices": one.devices,
        **dict(zip(STATES, one.states, strict=True)),
        "resources": [
            {"resource": name, "total": int(total), "free": int(left)} for name, total, left in one.amounts
        ],
        "virtualFunctions": {"total": one.functions, "free": one.functions_free},
    }
    return UsageLine(one.node, one.kind, one.devices, one.states, ", ".join(free) or "-", value)
