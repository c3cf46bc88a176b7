"""An independent copy of a store. It copies only the holds and shares the fleet and all objects."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.slices import ResourceSlice
from reconciler.errors import Inconsistent
from reconciler.state.delta import Delta
from reconciler.state.devices.inventory import Inventory
from reconciler.state.devices.occupancy.columns import Columns
from reconciler.state.devices.occupancy.ledger import Ledger
from reconciler.state.devices.occupancy.retained_draws import RetainedDraws
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.nominations.reserved import Reserved
from reconciler.state.nominations.table import Nominations
from reconciler.state.store import Store


def with_plans(
    stored: Mapping[ObjectKey, ResourceClaim], plans: Iterable[Plan]
) -> dict[ObjectKey, ResourceClaim]:
    """Claims with assumed plans as if they were written."""
    claims = dict(stored)
    for plan in plans:
        claim = claims.get(plan.claim)
        if claim is not None and claim.allocation is None:
            status = claim.status.model_copy(update={"allocation": plan.allocation})
            claims[plan.claim] = claim.model_copy(update={"status": status})
    return claims


class Fork(Struct, frozen=True, eq=False):
    """The content of a store at one moment. Any thread may turn it into another store, once."""

    snapshot: Snapshot
    ledger: Ledger
    retained: RetainedDraws
    columns: Columns
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


class Forked(Store):
    """A store with a given fleet. Its devices cannot change; everything else can."""

    def __init__(self, fork: Fork) -> None:
        super().__init__(fork.snapshot.rules)
        self._topology = fork.snapshot.topology
        # With the taints of taint rules, of which it has none itself.
        self._inventory = Inventory(fork.snapshot.rules, self._retained_of, fork.snapshot.fleet)
        self._node_view = fork.snapshot.topology.nodes
        self._nodes = dict(self._node_view)
        self._classes = dict(fork.snapshot.classes)
        self._ledger, self._retained, self._columns = fork.ledger, fork.retained, fork.columns
        self._claims.update(fork.claims())
        self._pods.update(fork.pods)
        self._reserved = Reserved(fork.nominations)

    @staticmethod
    def fork_of(store: Store) -> Fork:
        """The current content of a store."""
        current = store.snapshot()
        snapshot, ledger, retained = current.fork(), store._ledger.fork(), store._retained.fork()
        columns = store._columns
        assert columns is not None  # a store with a snapshot has columns
        columns = columns.fork(snapshot.fleet, ledger, retained)
        assumed = tuple(store.assumptions)
        claims, pods, held = dict(store.claims), dict(store.pods), store.nominations.fork()
        return Fork(snapshot, ledger, retained, columns, claims, assumed, pods, held)

    def _put_slice(self, source: ResourceSlice) -> Delta:
        raise Inconsistent(f"ResourceSlice {source.key.name}: a forked store cannot change devices")
