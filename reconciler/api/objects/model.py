"""The base of every API object: frozen, camelCase outside, lists and maps that may be null."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, StrictBool, StrictInt, StrictStr
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

T = TypeVar("T")
M = TypeVar("M", bound="Model")

LEAN = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)
"""For parts of objects that exist in millions: pydantic dataclasses with slots, parsed like a `Model`."""


class kept(cached_property[T]):  # noqa: N801 - a decorator
    """A property that is computed once. The lock of Python 3.11 would cost more than most values."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


class Model(BaseModel):
    """A frozen API object of which we hold the fields that we read; others are ignored."""

    model_config = ConfigDict(frozen=True, ignored_types=(kept,), **LEAN)

    def to_json(self) -> dict[str, Any]:
        """The object as the API spells it, without what is unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def built(model: type[M], fields: dict[str, Any]) -> M:
    """An object of fields that are validated already; others have their defaults. Nothing is checked.

    Several times as fast and half as large as what pydantic makes.
    """
    defaults, given = _frame(model, tuple(fields))
    made = _new(model)
    _set(made, "__dict__", {**defaults, **fields})
    _set(made, "__pydantic_fields_set__", given)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


@lru_cache
def _frame(model: type[Model], fields: tuple[str, ...]) -> tuple[Mapping[str, Any], set[str]]:
    """The fields of a model in order, with their defaults, and the names of those that are given. Both are
    shared.
    """
    defaults = {
        name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()
    }
    return defaults, set(fields)


_new: Any = object.__new__
_set: Any = object.__setattr__


def fields_of(model: type) -> Mapping[str, FieldInfo]:
    """The fields of a `Model` or of a lean part, by name; none for any other type."""
    return getattr(model, "__pydantic_fields__", {})


def _null_is_empty_list(value: Any) -> Any:
    return () if value is None else value


def _null_is_empty_map(value: Any) -> Any:
    return {} if value is None else value


# The API treats null like absent; pydantic would refuse it where a list or a map is declared.
Tuple = Annotated[tuple[T, ...], BeforeValidator(_null_is_empty_list)]
Map = Annotated[dict[str, T], BeforeValidator(_null_is_empty_map)]
Str = StrictStr
Int = StrictInt
Bool = StrictBool
