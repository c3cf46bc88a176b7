"""The list of every kind of decision, and their names: short, never twice, the same from the same source."""

from importlib import import_module
from pkgutil import iter_modules
from random import Random

from reconciler.api.objects.meta import ObjectKey
from reconciler.control import decisions
from reconciler.control.decisions.allocating import Ungated
from reconciler.control.decisions.declaration import Decision, Numbering
from reconciler.control.decisions.every import DECISIONS


def test_every_kind_of_decision_is_listed_once():
    modules = [import_module(f"{decisions.__name__}.{one.name}") for one in iter_modules(decisions.__path__)]
    declared = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Decision) and kind is not Decision
    }
    assert sorted(kind.__name__ for kind in DECISIONS) == sorted(kind.__name__ for kind in declared)


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
