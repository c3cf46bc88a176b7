"""The list of every kind of decision."""

from importlib import import_module
from pkgutil import iter_modules

from reconciler.control import decisions
from reconciler.control.decisions.declaration import Decision
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
