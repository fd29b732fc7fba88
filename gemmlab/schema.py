"""The form of JSON data: which fields, of which kinds, and what is said of one that is missing, unknown or wrong.

A schema is a type (float: any finite number) or Count, a dict of fields, a list of one schema for its items, or
Nullable.
"""

import sys
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from gemmlab.quoting import shown


class Count:
    """An integer that counts something: at least 0."""


class Nullable(NamedTuple):
    """A field that may be null."""

    schema: Any


def check(value: Any, schema: Any, where: str = "") -> None:
    """Raise ValueError, with the field's place, its value and what is expected, unless `value` has the schema's form.

    `where` is the place of `value` itself, which its fields are named after: 'environment.date', 'rungs[0].shape'.
    """
    match schema:
        case Nullable():
            if value is not None:
                check(value, schema.schema, where)
        case dict():
            _check_fields(value, schema, where)
        case list():
            _check_type(value, list, where)
            for index, item in enumerate(value):
                check(item, schema[0], f"{where}[{index}]")
        case _:
            _check_type(value, schema, where)


def _check_fields(value: Any, schema: Mapping[str, Any], where: str) -> None:
    _check_type(value, dict, where)
    for problem, fields in (("lacks", schema.keys() - value.keys()), ("has unknown", value.keys() - schema.keys())):
        if fields:
            raise ValueError(f"{where or 'the data'} {problem} {', '.join(sorted(fields))}")
    for name, field in schema.items():
        check(value[name], field, f"{where}.{name}" if where else name)


def _check_type(value: Any, expected: type, where: str) -> None:
    if expected is float:
        right = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    elif expected in (int, Count):
        right = isinstance(value, int) and not isinstance(value, bool) and (expected is int or value >= 0)
    else:
        right = isinstance(value, expected)
    if not right:
        raise ValueError(f"{where or 'the data'} is {shown(value)}, but must be {_TYPE_NAMES[expected]}")


def check_date(text: str, where: str) -> None:
    """Raise ValueError unless `text` is a day, written year-month-day."""
    try:
        date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{where} is {text!r}, but must be year-month-day") from None


_TYPE_NAMES = {
    str: "a string",
    int: "an integer",
    Count: "an integer of at least 0",
    float: "a finite number",
    bool: "true or false",
    dict: "an object",
    list: "an array",
}
