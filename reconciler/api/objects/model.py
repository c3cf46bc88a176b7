"""The base of every API object: frozen, camelCase outside, lists and maps that may be null."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, StrictBool, StrictInt, StrictStr
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

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

    KEPT: ClassVar[tuple[str, ...]] = ()
    """Properties whose values are kept"""

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but without what is kept, which may not fit the copy."""
        copied = super().model_copy(update=update, deep=deep)
        for name in self.KEPT:
            copied.__dict__.pop(name, None)
        return copied

    def to_json(self) -> dict[str, Any]:
        """The object as the API spells it, without what is unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


M = TypeVar("M", bound=Model)


class Maker(Generic[M]):
    """Makes objects of a model from fields that are known to be valid: nothing is checked or converted.

    For what is made for every claim: half the time of pydantic. All objects share the values of fields that
    are not given, and the names of those that are; nobody may change them.
    """

    def __init__(self, model: type[M], common: Mapping[str, Any] | None = None) -> None:
        """`common` are fields that all objects have."""
        self._model = model
        self._common = frozenset(common or ())
        self._names: dict[tuple[str, ...], set[str]] = {}
        """Fields -> these and the common ones: one set for all objects with the same fields"""
        self._values: dict[str, Any] = {**_defaults(model), **(common or {})}

    def __call__(self, fields: Mapping[str, Any]) -> M:
        """The object with these fields, by their names in Python. The required ones must be among them."""
        made: M = _new(self._model)
        _set_values(made, {**self._values, **fields})
        _set_names(made, self._names.get(given := tuple(fields)) or self._named(given))
        _set_extra(made, None)
        _set_private(made, None)
        return made

    def each(self, fields: Mapping[str, Any], name: str, values: Iterable[Any]) -> list[M]:
        """The objects with these fields that differ in one more field, in the order of its values."""
        model, found = self._model, []
        common, given = {**self._values, **fields}, (*fields, name)
        names = self._names.get(given) or self._named(given)
        for value in values:
            own = common.copy()
            own[name] = value
            made = _new(model)
            _set_values(made, own)
            _set_names(made, names)
            _set_extra(made, None)
            _set_private(made, None)
            found.append(made)
        return found

    def _named(self, given: tuple[str, ...]) -> set[str]:
        return self._names.setdefault(given, {*self._common, *given})


def built(model: type[M], fields: Mapping[str, Any]) -> M:
    """One object as a `Maker` makes it."""
    made: M = _maker(model)(fields)
    return made


def blank(model: type[M]) -> M:
    """The object without any field, as the default of a field: `model()` would build the validator."""
    return built(model, {})


def text_of(part: Model, *, without: str | None = None) -> bytes:
    """All fields, but for one, as JSON with their names in Python: equal for equal parts.

    Raises ValueError for text that is not Unicode.
    """
    return part.__pydantic_serializer__.to_json(part, exclude=None if without is None else {without})


def given_text_of(part: Model) -> bytes:
    """The same for all fields that were given: parts of equal texts are equal and say the same.

    Raises ValueError for text that is not Unicode.
    """
    return part.__pydantic_serializer__.to_json(part, exclude_unset=True)


@lru_cache
def _defaults(model: type[Model]) -> Mapping[str, Any]:
    """The value of each field that is not given."""
    return {
        name: None if field.is_required() else field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
    }


@lru_cache
def _maker(model: type[Any]) -> Maker[Any]:
    return Maker(model)


# What `model_construct` sets, without the attribute look-ups of `object.__setattr__`.
_new: Callable[..., Any] = object.__new__
_set_values = BaseModel.__dict__["__dict__"].__set__
_set_names = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


def fields_of(model: type) -> Mapping[str, FieldInfo]:
    """The fields of a `Model` or of a lean part, by name; none for any other type."""
    return getattr(model, "__pydantic_fields__", {})


def _null_is_empty_list(value: Any) -> Any:
    return () if value is None else value


def _null_is_empty_map(value: Any) -> Any:
    return {} if value is None else value


class _Before:
    """As pydantic's `BeforeValidator`, which inspects the signature of its function again for each field."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._change, handler(source))


# The API treats null like absent; pydantic would refuse it where a list or a map is declared.
Tuple = Annotated[tuple[T, ...], _Before(_null_is_empty_list)]
Map = Annotated[dict[str, T], _Before(_null_is_empty_map)]
Str = StrictStr
Int = StrictInt
Bool = StrictBool
