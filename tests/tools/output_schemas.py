"""The schemas of docs/schemas, for tests that have the output of a command."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from tests.tools.checkout import DOCS

FOLDER = DOCS / "schemas"


@cache
def schema(name: str) -> Draft202012Validator:
    found = json.loads((FOLDER / f"{name}.json").read_text())
    Draft202012Validator.check_schema(found)
    return Draft202012Validator(found)


def fitting(name: str, text: str) -> Any:
    """The value of a JSON text. Raises jsonschema.ValidationError if it does not fit the schema."""
    value = json.loads(text)
    schema(name).validate(value)
    return value
