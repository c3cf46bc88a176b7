"""Templates: the fixed shares of some GPU models (KOO-15)."""

from collections.abc import Mapping

from reconciler.api.koordinator.amounts import Shares


def matching(each: Shares, templates: Mapping[str, Mapping[str, Shares]]) -> dict[str, tuple[str, ...]]:
    """vendor-model -> names of the templates with exactly the requested shares."""
    found = {
        model: tuple(name for name, shares in of_model.items() if dict(shares) == dict(each))
        for model, of_model in templates.items()
    }
    return {model: names for model, names in found.items() if names}
