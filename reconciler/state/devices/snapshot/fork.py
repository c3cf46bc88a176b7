"""A picture that goes its own way from what another is now, at the cost of its holds alone."""

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
    """All that a store is at one moment. Taken where it changes, turned into another one anywhere."""

    world: Snapshot
    retained: RetainedDraws
    decided: tuple[tuple[ResourceClaim, Plan | None], ...]
    """Claims, with the plan of those that have one that is not written yet"""
    pods: tuple[Pod, ...]

    def claims(self) -> Iterator[ResourceClaim]:
        """All claims, with what is assumed as if it were written."""
        for claim, plan in self.decided:
            if plan is None:
                yield claim
            else:
                status = claim.status.model_copy(update={"allocation": plan.allocation})
                yield claim.model_copy(update={"status": status})

    def store(self) -> "Forked":
        """A store that begins with this, for the thread it is made in. Call it once."""
        return Forked(self)


class Forked(Store):
    """A store of a fleet that is given. Devices do not change there; all else may."""

    def __init__(self, fork: Fork) -> None:
        super().__init__(fork.world.rules)
        self._topology = fork.world.topology
        self._fleet = fork.world.fleet  # with what taint rules do to it
        self._nodes = dict(fork.world.topology.nodes)
        self._classes = dict(fork.world.classes)
        self._retained = fork.retained
        load(self, (*fork.pods, *fork.claims()))
        self._changed_devices.clear()  # the columns are worked out from the ledger, and so with these

    @staticmethod
    def off(store: Store) -> Fork:
        """What a store is now."""
        decided = (
            (claim, store.assumed(claim.metadata.uid) if claim.allocation is None else None)
            for claim in store.claims.values()
        )
        world, pods = store.snapshot().fork(), tuple(store.pods.values())
        return Fork(world, store._retained.fork(), tuple(decided), pods)

    def _put_slice(self, source: ResourceSlice) -> Delta:
        raise Inconsistent(f"slice {source.key.name} for a picture whose devices do not change")
