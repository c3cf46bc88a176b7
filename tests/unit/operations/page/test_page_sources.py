"""What the page remembers of refusals: the last message of each unit, in bounded memory."""

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import Freed, Waits
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending
from reconciler.operations.page.sources import SPARE, RefusalMessages


def unit(name: str) -> Unit:
    return Unit(Kind.CLAIM, ObjectKey("ns", name))


def refused(name: str, message: str) -> Waits:
    return Waits((ObjectKey("ns", name),), None, "DevicesInUse", message)


def test_the_last_message_of_a_unit_is_kept():
    messages = RefusalMessages(Pending())
    messages.on_decision(refused("a", "first"))
    messages.on_decision(refused("a", "second"))
    messages.on_decision(Freed(ObjectKey("ns", "a"), "why"))
    assert messages.of(unit("a")) == "second"
    assert messages.of(unit("b"), "nothing yet") == "nothing yet"


def test_messages_of_units_that_are_not_pending_are_dropped_when_there_are_many():
    pending = Pending()
    messages = RefusalMessages(pending)
    pending.note(unit("pending"), "DevicesInUse", [ObjectKey("ns", "pending")])
    messages.on_decision(refused("pending", "kept"))
    messages.on_decision(refused("gone", "dropped"))
    for number in range(SPARE + 1):
        messages.on_decision(refused(f"other-{number}", "dropped"))
    assert messages.of(unit("pending")) == "kept"
    assert messages.of(unit("gone")) == ""
