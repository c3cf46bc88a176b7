"""What drivers and administrators do to slices, nodes and classes."""

from collections.abc import Callable

from reconciler.api.validation.served_kinds import DEVICE_CLASS, NODE, SLICE
from tests.tools.simulation import fleet
from tests.tools.simulation.fleet import NODES, Object
from tests.tools.simulation.ground import Ground


class Supply:
    """The fleet, and everybody who changes it."""

    def __init__(self, ground: Ground, *, partitions: bool) -> None:
        """`partitions`: nodes have nothing but partitions, so that moves can gain something."""
        self._ground = ground
        self.pools = list(fleet.pools(ground.random))
        if partitions:
            self.pools = [(fleet.PART, name) for name in NODES]
        self.drivers = frozenset(driver for driver, _ in self.pools)
        self.generation = 1

    def publish(self) -> None:
        """What there is in the beginning."""
        self._ground.api.load(map(fleet.device_class, fleet.CLASSES))
        self._ground.api.load(map(fleet.node, NODES))
        for driver, pool in self.pools:
            self._ground.api.load(fleet.slices(driver, pool, 1, self._ground.random))

    def acts(self) -> list[Callable[[], None]]:
        """What may happen, likely things several times."""
        return [
            self.renew_pool, self.renew_pool, self.renew_in_place, self.lose_slice, self.lose_slice,
            self.cordon, self.lose_node, self.lose_class,
        ]  # fmt: skip

    def mend(self) -> None:
        """Everything that was lost comes back, so that there is something to decide in the end."""
        for name in NODES:
            if self._ground.api.store[NODE].get(name) is None:
                self._ground.api.load([fleet.node(name)])
        for name in fleet.CLASSES:
            if self._ground.api.store[DEVICE_CLASS].get(name) is None:
                self._ground.api.load([fleet.device_class(name)])

    def renew_pool(self) -> None:
        """A driver publishes another generation, and takes the old slices back or forgets to."""
        driver, pool = self._ground.random.choice(self.pools)
        self._ground.count["pools published anew"] += 1
        old = [one for one in self._ground.all(SLICE) if _pool(one) == (driver, pool)]
        self.generation += 1
        new = fleet.slices(driver, pool, self.generation, self._ground.random)
        if self._ground.random.random() < 0.5:
            old, new = [], [*new]  # stays incomplete or beside the old one for a while
        self._ground.api.load(new)
        for one in old:
            self._ground.delete(SLICE, one)

    def renew_in_place(self) -> None:
        """A driver publishes other contents under the names of its old slices."""
        driver, pool = self._ground.random.choice(self.pools)
        old = [one for one in self._ground.all(SLICE) if _pool(one) == (driver, pool)]
        self._ground.count["slices edited"] += 1
        self.generation += 1
        new = fleet.slices(driver, pool, self.generation, self._ground.random)
        for before, after in zip(old, new, strict=False):
            spec = after["spec"]
            self._ground.update(SLICE, before, lambda shown, spec=spec: {**shown, "spec": spec})  # type: ignore[misc]
        for one in old[len(new) :]:
            self._ground.delete(SLICE, one)
        self._ground.api.load(new[len(old) :])

    def lose_slice(self) -> None:
        """A slice vanishes, whether or not its devices are held."""
        slices = self._ground.all(SLICE)
        if slices:
            self._ground.count["slices lost"] += 1
            self._ground.delete(SLICE, self._ground.random.choice(slices))

    def cordon(self) -> None:
        names = [one["metadata"]["name"] for one in self._ground.all(NODE)]
        if names:
            name = self._ground.random.choice(names)

            def turned(shown: Object) -> Object:
                cordoned = not shown.get("spec", {}).get("unschedulable", False)
                return {**shown, "spec": {"unschedulable": True} if cordoned else {}}

            self._ground.count["nodes cordoned or opened"] += 1
            self._ground.api.update(NODE, "", name, turned)

    def lose_node(self) -> None:
        """A node goes, or one that went comes back."""
        name = self._ground.random.choice(sorted(NODES))
        self._ground.count["nodes lost or back"] += 1
        if self._ground.api.store[NODE].get(name) is None:
            self._ground.api.load([fleet.node(name)])
        else:
            self._ground.api.delete(NODE, "", name)

    def lose_class(self) -> None:
        """A class goes, or one that went comes back."""
        name = self._ground.random.choice(sorted(fleet.CLASSES))
        self._ground.count["classes lost or back"] += 1
        if self._ground.api.store[DEVICE_CLASS].get(name) is None:
            self._ground.api.load([fleet.device_class(name)])
        else:
            self._ground.api.delete(DEVICE_CLASS, "", name)


def _pool(slice_: Object) -> tuple[str, str]:
    return slice_["spec"]["driver"], slice_["spec"]["pool"]["name"]
