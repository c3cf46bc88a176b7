"""Stores to try things on: loaded from objects, forked, or with units placed that are undone again."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from reconciler.api.objects.changes import Change, Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey, PoolID
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.errors import Inconsistent
from reconciler.state.devices.ledger import Drawn, Ledger, RetainedDraws
from reconciler.state.devices.occupancy_columns import OccupancyColumns
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.held_back import Reserved
from reconciler.state.nodes.room import Wanted
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import NOBODY, Nominations, Nominee
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.store import Delta, Store
from reconciler.state.supply import Supply


class AppliesChanges(Protocol):
    """Accepts changes one by one."""

    def apply(self, change: Change, /) -> object:
        """Apply one change."""


def load(target: AppliesChanges, objects: Iterable[ApiObject]) -> None:
    """Add objects in order. An object replaces an earlier one of the same kind and name."""
    for thing in objects:
        target.apply(Changed(type(thing).__name__, thing))


def store_of(objects: Iterable[ApiObject], rules: Semantics) -> Store:
    """A store with only these objects."""
    store = Store(rules)
    load(store, objects)
    return store


def with_plans(
    stored: Mapping[ObjectKey, ResourceClaim], plans: Iterable[Plan]
) -> dict[ObjectKey, ResourceClaim]:
    """Claims with assumed plans as if they were written."""
    claims = dict(stored)
    for plan in plans:
        claim = claims.get(plan.claim)
        if claim is not None and claim.allocation is None:
            claims[plan.claim] = claim.replacing("status", allocation=plan.allocation)
    return claims


class Fork(Struct, frozen=True, eq=False):
    """The content of a store at one moment. Any thread may turn it into another store, once."""

    snapshot: Snapshot
    ledger: Ledger
    retained: RetainedDraws
    columns: OccupancyColumns
    stored: Mapping[ObjectKey, ResourceClaim]
    """Claims as the server has them"""
    assumed: tuple[Plan, ...]
    pods: Mapping[ObjectKey, Pod]
    nominations: Nominations

    def claims(self) -> dict[ObjectKey, ResourceClaim]:
        """All claims, with assumed plans as if they were written."""
        return with_plans(self.stored, self.assumed)

    def store(self) -> "Forked":
        """A store that starts with this content, for the calling thread."""
        return Forked(self)


def _no_draws(_: PoolID) -> Mapping[str, Drawn]:
    """Pools that never change retain none."""
    return {}


class Forked(Store):
    """A store with a given fleet. Its devices cannot change; everything else can."""

    def __init__(self, fork: Fork) -> None:
        super().__init__(fork.snapshot.rules)
        # No method of its own: a store in a circle would stay in memory until a full collection.
        self.supply = Supply(fork.snapshot.rules, _no_draws, fork.snapshot)
        self._ledger, self.retained, self._columns = fork.ledger, fork.retained, fork.columns
        self._claims.update(fork.claims())
        self._pods.update(fork.pods)
        self._reserved = Reserved(fork.nominations)

    @staticmethod
    def fork_of(store: Store) -> Fork:
        """The current content of a store."""
        current = store.snapshot()
        snapshot, ledger, retained = current.fork(), store._ledger.fork(), store.retained.fork()
        columns = store._columns
        assert columns is not None  # a store with a snapshot has columns
        columns = columns.fork(snapshot.fleet, ledger, retained)
        assumed = tuple(store.assumptions)
        claims, pods, held = dict(store.claims), dict(store.pods), store.nominations.fork()
        return Fork(snapshot, ledger, retained, columns, claims, assumed, pods, held)

    def _put_slice(self, source: ResourceSlice) -> Delta:
        raise Inconsistent(f"ResourceSlice {source.key.name}: a forked store cannot change devices")


class Trial:
    """A context manager: on exit, everything that was not kept is undone, the last first.

    A trial on the live store must end before the next `await`: nobody else sees what it did. In a thread
    it works on forks (`Fork`, `Nodes.fork`).
    """

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
            self.host(pod, node, demand_of(pod, self.store, plans))

    def assume(self, plan: Plan) -> None:
        """Count a plan as held. What its claim held before is released."""
        self.release(plan.uid)
        self.store.assume(plan)
        self._undo.append(lambda: self.store.forget(plan))

    def host(self, pod: Pod, node: str, takes: Wanted | None = None) -> None:
        """Count a pod on a node, and not where it was before. `takes` is its demand, if it is known."""
        self._remember(pod.key)
        self.nodes.host(pod.key, pod, node, demand_of(pod, self.store) if takes is None else takes)

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
