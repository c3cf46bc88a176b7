"""The base of every API object: frozen, camelCase outside; and of objects that are created for every
claim: immutable by convention, five times as fast to make.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Self, TypeVar, dataclass_transform

from pydantic import (
    BaseModel,
    ConfigDict,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from typing_extensions import is_typeddict

Made = TypeVar("Made")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(*, eq: bool = True, weakref_slot: bool = False) -> Callable[[type[Made]], type[Made]]:
    """A class with slots. The type checker reports an assignment to a field.

    `frozen=True` also checks at run time, which costs a call for each field of each new instance. `eq`
    compares and hashes by fields.
    """
    return dataclass(slots=True, eq=eq, unsafe_hash=eq, weakref_slot=weakref_slot)


T = TypeVar("T")

ON_USE = ConfigDict(defer_build=True)
"""Has pydantic build a validator, with those of all parts, when it is first used: there are over a hundred
models, and a command reads objects of a few of them."""
LEAN = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True, **ON_USE)
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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but without cached properties, which may not fit the copy."""
        copied = super().model_copy(update=update, deep=deep)
        values = copied.__dict__
        if len(values) > len(self.__pydantic_fields__):
            for name in values.keys() - self.__pydantic_fields__.keys():
                del values[name]
        return copied

    def to_json(self) -> dict[str, Any]:
        """The object as the API spells it, without what is unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def misplaced(reasons: Mapping[str, str]) -> Any:
    """A part of a model that refuses fields that belong elsewhere, each with the reason.

    A server would drop them, and store an object with another meaning.
    """

    def check(value: Any) -> Any:
        if isinstance(value, dict):
            for field, reason in reasons.items():
                if field in value:
                    raise PydanticCustomError(MISPLACED, reason, {"field": field})
        return value

    return model_validator(mode="before")(check)


MISPLACED = "misplaced"
"""The type of that error"""


def fields_of(model: type) -> Mapping[str, FieldInfo]:
    """The fields of a `Model`, a lean part or a plain dict, by name; none for any other type."""
    if is_typeddict(model):
        return {name: FieldInfo.from_annotation(kind) for name, kind in model.__annotations__.items()}
    return getattr(model, "__pydantic_fields__", {})


@cache
def aliases_of(model: type) -> tuple[str, ...]:
    """The names of the fields as the API spells them."""
    return tuple(field.alias or to_camel(name) for name, field in fields_of(model).items())


Tuple = tuple[T, ...]
Map = dict[str, T]
Str = StrictStr
Int = StrictInt
Bool = StrictBool
