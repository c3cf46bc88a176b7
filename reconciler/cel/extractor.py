"""Texts that a driver takes from opaque configurations, for sharing affinity. Source: KEP-5981 (AFF-2)."""

from functools import lru_cache
from typing import Any

from reconciler.cel.check import Environment
from reconciler.cel.compiling import KEPT_SELECTORS, emitted
from reconciler.cel.errors import CelError, Exhausted, Fatal
from reconciler.cel.evaluation import Frame
from reconciler.cel.types import DYN, STRING
from reconciler.cel.values import INT_MAX, INT_MIN, Value, name_of

_OBJECT = Environment((("object", DYN),), (STRING, DYN), "a string", "convert it, for example by string()")


class Extractor:
    """A compiled expression over `object`. Threads may share it."""

    def __init__(self, expression: str) -> None:
        """Raises CelRefused."""
        _, self._run, self._names = emitted(expression, _OBJECT)

    def text(self, configuration: Any) -> str:
        """The text for a configuration, decoded from JSON. Raises CelError."""
        try:
            found = self._run(Frame(_value(configuration), self._names))
        except (Exhausted, Fatal) as exc:
            raise CelError(str(exc)) from None
        if type(found) is not str:
            raise CelError(f"the value is a {name_of(found)}, but must be a string")
        return found


def _value(json: Any) -> Value:
    if isinstance(json, dict):
        return {key: _value(part) for key, part in json.items()}
    if type(json) is int and not INT_MIN <= json <= INT_MAX:
        raise CelError(f"a number in the configuration has {json.bit_length()} bits; at most 64 are possible")
    return tuple(map(_value, json)) if isinstance(json, list) else json


@lru_cache(KEPT_SELECTORS)
def compile_extractor(expression: str) -> Extractor:
    """Compile an expression, once per text. Raises CelRefused."""
    return Extractor(expression)
