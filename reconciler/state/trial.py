"""Places units one after another on a store and its nodes, and undoes all of it. Decides nothing.

A trial on the live store must end before the next `await`: nobody else sees what it did. In a thread it
works on forks (`state/devices/snapshot/fork.py`, `Nodes.fork`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.nodes.demand import demand
from reconciler.state.nodes.room import Wanted
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations.nomination import NOBODY, Nominee
from reconciler.state.store import Store


class Trial:
    """A context manager: on exit, everything that was not kept is undone, the last first."""

    def __init__(
        self, store: Store, nodes: Nodes, *, supposed: bool, own: frozenset[Nominee] = NOBODY
    ) -> None:
        """`supposed`: whether nodes without a Node object may be used. `own` are those for whom is decided:
        what is nominated for others is held.
        """
        self.store = store
        self.nodes = nodes
        self.supposed = supposed
        self.own = own
        self._undo: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        for key in self.nodes.nominated.charges_of(self.own):
            charge = self.nodes.room.charged(key)
            self._undo.append(partial(self.nodes.room.charge, key, charge))
            self.nodes.room.charge(key, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.back_to(0)

    @property
    def snapshot(self) -> Snapshot:
        """The state with everything that is placed. Keeping it makes the next change copy columns."""
        return self.store.snapshot_for(self.own)

    def place(self, plans: Sequence[Plan], pod: Pod | None = None, node: str = "") -> None:
        """Count plans as held, and a pod on its node."""
        for plan in plans:
            self.assume(plan)
        if pod is not None and node:
            self.host(pod, node)

    def assume(self, plan: Plan) -> None:
        """Count a plan as held. What its claim held before is released."""
        self.release(plan.uid)
        self.store.assume(plan)
        self._undo.append(lambda: self.store.forget(plan))

    def host(self, pod: Pod, node: str, takes: Wanted | None = None) -> None:
        """Count a pod on a node, and not where it was before. `takes` is its demand, if it is known."""
        self._remember(pod.key)
        self.nodes.host(pod.key, pod, node, demand(pod) if takes is None else takes)

    def release(self, uid: str) -> None:
        """Count the devices of a claim as free."""
        vacated = self.store.vacate(uid)
        if vacated is not None:
            self._undo.append(lambda: self.store.restore(vacated))

    def remove(self, pod: ObjectKey) -> None:
        """Count a pod on no node: neither where it runs, nor where it is nominated."""
        residents, nominee = self.nodes.residents, self.nodes.residents.nominee(pod)
        if nominee is not None:
            self._undo.append(lambda: residents.nominate(pod, nominee))
            residents.nominate(pod, None)
        self._remember(pod)
        self.nodes.host(pod, None)

    def _remember(self, pod: ObjectKey) -> None:
        """Undo the next change of a pod's node with the others."""
        resident, charge = self.nodes.residents.get(pod), self.nodes.room.charged(pod)

        def undo() -> None:
            if resident is None or charge is None:
                self.nodes.host(pod, None)
            else:
                self.nodes.host(pod, resident.pod, resident.node, charge.amounts)

        self._undo.append(undo)

    def mark(self) -> int:
        """The present state, for `back_to`."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Undo everything since a mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def keep(self) -> None:
        """Keep everything that is placed now."""
        self._undo.clear()
