"""Names of decisions: short, never twice, and the same again from the same source."""

from random import Random

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import Ungated
from reconciler.control.decisions.declaration import Numbering

POD = ObjectKey("default", "p")


def test_the_same_source_gives_the_same_names():
    first, second = Numbering(Random(7).random), Numbering(Random(7).random)
    names = [first() for _ in range(1000)]
    assert names == [second() for _ in range(1000)]
    assert len(set(names)) == 1000
    assert max(map(len, names)) <= 16


def test_runs_differ():
    assert len({Numbering(Random(seed).random)() for seed in range(50)}) == 50


def test_a_decision_keeps_its_name_and_gets_one_if_it_has_none():
    names = Numbering(Random(1).random)
    named = names.named(Ungated(POD))
    assert named.decision_id
    assert names.named(named) is named
    assert names.named(Ungated(POD)).decision_id != named.decision_id
