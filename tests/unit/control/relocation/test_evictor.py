"""What follows from each answer to an eviction, and what counts for the rates."""

import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.pod_writer import Evictions
from reconciler.cluster.transport import PauseReasons
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted
from reconciler.control.relocation.evictor import AGAIN, LONGEST_AGAIN, PAUSED, Evictor, Rates
from reconciler.control.relocation.ground import Victim
from reconciler.control.waiting import Pause
from reconciler.errors import Conflict, Gone, Protected, ReconcilerError, Rejected, Retry, Undecided
from reconciler.state.nominations import of_pod

VICTIM = Victim(ObjectKey("default", "p"), "u", ())
GRANTED = Evicted(VICTIM.key, VICTIM.uid, of_pod(ObjectKey("default", "q")))


class Answering(Evictions):
    """Gives the answers of a list, one after the other; None grants."""

    def __init__(self, *answers: ReconcilerError | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def evict(self, pod: ObjectKey, uid: str, *, dry_run: bool = False) -> None:  # noqa: ARG002
        self.asked.append(uid)
        if (answer := self._answers.pop(0)) is not None:
            raise answer


class Made:
    def __init__(self, *answers: ReconcilerError | None, why: str = "", per_minute: int = 1) -> None:
        self.said: list[Decision] = []
        reasons = PauseReasons()
        if why:
            reasons.set("test", why)
        self.evictions = Answering(*answers)
        self.evictor = Evictor(
            self.evictions,
            Rates(per_minute, 100),
            Pause(reasons, self.said.append, lambda _: None),
            clock=lambda: 0.0,
            report=self.said.append,
        )


async def test_what_was_granted_is_said_and_counted():
    made = Made(None)
    assert made.evictor.wait() == 0
    assert await made.evictor.evict(VICTIM, GRANTED) is None
    assert made.said == [GRANTED]
    assert made.evictions.asked == ["u"]
    assert made.evictor.wait() > 0


async def test_a_pod_that_is_gone_leaves_without_being_counted():
    made = Made(Gone("no such pod"))
    assert await made.evictor.evict(VICTIM, GRANTED) is None
    assert made.said == []
    assert made.evictor.wait() == 0


@pytest.mark.parametrize(
    "answer", [Protected("a budget"), Retry("busy"), Conflict("another pod of its name")]
)
async def test_what_was_not_allowed_is_tried_again_later_and_later(answer: ReconcilerError):
    made = Made(*[answer] * 8)
    delays = [await made.evictor.evict(VICTIM, GRANTED) for _ in range(8)]
    assert delays[:3] == [2 * AGAIN, 4 * AGAIN, 8 * AGAIN]
    assert delays[-1] == LONGEST_AGAIN
    assert made.evictor.wait() == 0


async def test_the_server_may_ask_for_more_time():
    made = Made(Retry("busy", after=100.0))
    assert await made.evictor.evict(VICTIM, GRANTED) == 100.0


async def test_another_pod_starts_with_the_shortest_delay():
    made = Made(Protected("a budget"), Protected("a budget"), Protected("a budget"))
    for _ in range(2):
        await made.evictor.evict(VICTIM, GRANTED)
    assert await made.evictor.evict(VICTIM._replace(uid="other"), GRANTED) == 2 * AGAIN


async def test_without_an_answer_it_counts_since_it_may_have_been_granted():
    made = Made(Undecided("no answer"))
    assert await made.evictor.evict(VICTIM, GRANTED) == 2 * AGAIN
    assert made.evictor.wait() > 0
    assert made.said == []


async def test_what_had_no_answer_is_said_once_the_pod_leaves():
    made = Made(Undecided("no answer"), Gone("no such pod"))
    await made.evictor.evict(VICTIM, GRANTED)
    made.evictor.leaves(VICTIM._replace(uid="other"))
    assert made.said == []
    await made.evictor.evict(VICTIM, GRANTED)
    made.evictor.leaves(VICTIM)
    assert made.said == [GRANTED]


@pytest.mark.parametrize(
    ("later", "uid", "said"),
    [
        (Protected("a budget"), "u", []),
        (Protected("a budget"), "other", [GRANTED]),
        (Retry("busy"), "u", [GRANTED]),
    ],
)
async def test_what_had_no_answer_and_then_a_budget_forbids_was_not_granted(
    later: ReconcilerError, uid: str, said: list[Decision]
):
    made = Made(Undecided("no answer"), later)
    await made.evictor.evict(VICTIM, GRANTED)
    await made.evictor.evict(VICTIM._replace(uid=uid), GRANTED)
    made.evictor.leaves(VICTIM)  # also if somebody else deletes it
    assert made.said == said


async def test_what_is_rejected_is_not_tried_again():
    made = Made(Rejected("forbidden"))
    with pytest.raises(Rejected):
        await made.evictor.evict(VICTIM, GRANTED)


async def test_nothing_is_sent_while_writes_are_paused():
    made = Made(why="a test")
    assert await made.evictor.evict(VICTIM, GRANTED) == PAUSED
    assert made.evictions.asked == []
