"""Which changes put a gang into the queue."""

from reconciler.aio.queue import Queue
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.semantics import Semantics
from reconciler.control.intake import Intake
from reconciler.control.units import Unit, gang_unit
from reconciler.state.store import Store
from tests.tools.gangs import annotated, grouped, pod_group
from tests.tools.small_fleet import claim
from tests.tools.unit_pictures import put, remove

G = gang_unit(GangKey("default", GangSource.ANNOTATION, "g"))


class Recorded(Queue[Unit]):
    """Keeps what was put since the last look."""

    def __init__(self) -> None:
        super().__init__(base=1.0, cap=1.0, random=lambda: 1.0)
        self.seen: list[Unit] = []

    def put(self, item: Unit, *, priority: object = (), after: float = 0.0) -> None:  # noqa: ARG002
        self.seen.append(item)

    def since(self) -> list[Unit]:
        found, self.seen = self.seen, []
        return found


def intake() -> tuple[Intake, Recorded]:
    queue = Recorded()
    return Intake(Store(Semantics()), queue, [], lambda _: None), queue


async def test_a_claim_of_a_member_queues_its_gang():
    found, queue = intake()
    put(found, annotated("p0", "a", size=2))
    assert G in queue.since()
    put(found, claim("a", managed=False))
    assert G in queue.since()


async def test_a_member_that_goes_queues_its_gang_also_if_it_was_the_last():
    found, queue = intake()
    put(found, annotated("p0", size=2))
    queue.since()
    remove(found, "Pod", "p0")
    assert G in queue.since()


async def test_a_group_queues_its_gang_and_its_pods():
    """It may have become a gang, or none."""
    found, queue = intake()
    put(found, grouped("p0"))
    queue.since()
    put(found, pod_group())
    assert [str(unit) for unit in queue.since()] == ["pod default/p0", "gang default/podgroup/g"]


async def test_a_gang_without_gated_pods_is_not_queued():
    found, queue = intake()
    running = annotated("p0", "a", size=2)
    running["spec"]["schedulingGates"] = []
    put(found, running, claim("a", managed=False))
    assert G not in queue.since()
