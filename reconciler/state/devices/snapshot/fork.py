"""An independent copy of a store. It copies only the holds and shares the fleet."""

from collections.abc import Iterator
from dataclasses import dataclass

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.slices import ResourceSlice
from reconciler.errors import Inconsistent
from reconciler.state.delta import Delta
from reconciler.state.devices.occupancy.retained_draws import RetainedDraws
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.loading import load
from reconciler.state.store import Store


@dataclass(frozen=True, slots=True, eq=False)
class Fork:
    """The content of a store at one moment. Any thread may turn it into another store."""

    snapshot: Snapshot
    retained: RetainedDraws
    decided: tuple[tuple[ResourceClaim, Plan | None], ...]
    """Claims, each with its assumed plan if it has one"""
    pods: tuple[Pod, ...]

    def claims(self) -> Iterator[ResourceClaim]:
        """All claims, with assumed plans as if they were written."""
        for claim, plan in self.decided:
            if plan is None:
                yield claim
            else:
                status = claim.status.model_copy(update={"allocation": plan.allocation})
                yield claim.model_copy(update={"status": status})

    def store(self) -> "Forked":
        """A store that starts with this content, for the calling thread. Call it once."""
        return Forked(self)


class Forked(Store):
    """A store with a given fleet. Its devices cannot change; everything else can."""

    def __init__(self, fork: Fork) -> None:
        super().__init__(fork.snapshot.rules)
        self._topology = fork.snapshot.topology
        self._fleet = fork.snapshot.fleet  # with the taints of taint rules
        self._nodes = dict(fork.snapshot.topology.nodes)
        self._classes = dict(fork.snapshot.classes)
        self._retained = fork.retained
        load(self, (*fork.pods, *fork.claims()))
        self._changed_devices.clear()  # the columns are computed from the ledger, which has these holds

    @staticmethod
    def fork_of(store: Store) -> Fork:
        """The current content of a store."""
        decided = (
            (claim, store.assumed(claim.metadata.uid) if claim.allocation is None else None)
            for claim in store.claims.values()
        )
        snapshot, pods = store.snapshot().fork(), tuple(store.pods.values())
        return Fork(snapshot, store._retained.fork(), tuple(decided), pods)

    def _put_slice(self, source: ResourceSlice) -> Delta:
        raise Inconsistent(f"ResourceSlice {source.key.name}: a forked store cannot change devices")
