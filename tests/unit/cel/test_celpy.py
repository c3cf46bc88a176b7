"""The interpreter of cel-python, written by others, answers as the masks do: for all that it supports.

It is a slow twin of the whole way: parser, evaluator and columns. Left out are expressions of the dialect of
Kubernetes, comparisons of different types of numbers, which it refuses, `x in []`, where Kubernetes does not
look at `x`, and errors within `map`, `filter` and `exists_one`, which it raises past `&&`.
"""

import sys
from functools import cache
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from reconciler.cel.program import compile_selector
from reconciler.cel.values import DeviceView
from tests.tools.cel_rows import masked, rows_of
from tests.tools.examples import examples


@cache
def environment() -> Any:
    """Of cel-python. Making one raises the recursion limit of the process."""
    import celpy  # noqa: PLC0415

    before = sys.getrecursionlimit()
    made = celpy.Environment()
    sys.setrecursionlimit(before)
    return made


def shaped(form: str, *fillings: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A template with its gaps filled."""
    return st.tuples(*fillings).map(lambda filled: form.format(*filled))


number: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.integers(-3, 9).map(str),
        st.sampled_from(
            ['device.attributes["d.io"].n', 'device.attributes["d.io"]["m"]', "9223372036854775807"]
        ),
        shaped("({} {} {})", number, st.sampled_from("+-*/%"), number),
        shaped("-({})", number),
        shaped("size({})", text),
        shaped("{}.size()", numbers),
        shaped("({} ? {} : {})", truth, number, number),
    )
)
text: st.SearchStrategy[str] = st.sampled_from(
    ['""', "'x'", '"xy"', "r'é'", "device.driver", 'device.attributes["d.io"].s']
)
literals = st.lists(st.integers(-3, 9), min_size=1, max_size=3).map(str)
numbers: st.SearchStrategy[str] = st.one_of(
    # One by one: Kubernetes does not compile a list of a literal and an attribute, which may be anything.
    st.lists(number, min_size=1, max_size=3).map(
        lambda items: f"({' + '.join(f'[{each}]' for each in items)})"
    ),
    shaped("{}.filter(i, i {} {})", literals, st.sampled_from(["<", "!="]), st.integers(-3, 9).map(str)),
    shaped("{}.map(i, i * {})", literals, st.integers(-3, 9).map(str)),
)
truth: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.sampled_from(
            [
                *("true", "false", 'device.attributes["d.io"].b', 'has(device.attributes["d.io"].n)'),
                *('"d.io" in device.attributes', '"n" in device.attributes["d.io"]'),
            ]
        ),
        shaped("{} {} {}", number, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), number),
        shaped("{} + {} {} {}", text, text, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), text),
        shaped("({} && {})", truth, truth),
        shaped("({} || {})", truth, truth),
        shaped("!({})", truth),
        shaped("({} ? {} : {})", truth, truth, truth),
        shaped("{} in {}", number, numbers),
        shaped("{}.{}({})", text, st.sampled_from(["startsWith", "endsWith", "contains"]), text),
        shaped("{}.matches('^x+y?$')", text),
        shaped("{}.exists_one(i, i > {})", literals, st.integers(-3, 9).map(str)),
        shaped("{}.{}(i, i > {})", numbers, st.sampled_from(["all", "exists"]), number),
    )
)
devices = st.builds(
    lambda driver, attributes: DeviceView(driver=driver, attributes={"d.io": attributes}),
    st.sampled_from(["d.io", "xy"]),
    st.fixed_dictionaries(
        {"s": st.sampled_from(["", "x", "xxy"])},
        optional={"n": st.integers(-2, 5), "m": st.integers(0, 3), "b": st.booleans()},
    ),
)


def interpreted(expression: str, device: DeviceView) -> bool | str:
    """The answer of cel-python: a bool, or "error"."""
    from celpy.adapter import json_to_cel  # noqa: PLC0415
    from celpy.evaluation import CELEvalError  # noqa: PLC0415

    seen: dict[str, Any] = {"driver": device.driver, "attributes": device.attributes}
    program = environment().program(environment().compile(expression))
    try:
        return bool(program.evaluate({"device": json_to_cel(seen)}))
    except CELEvalError:
        return "error"


@examples(150)
@given(truth, st.lists(devices, min_size=1, max_size=4))
def test_the_interpreter_of_cel_python_answers_as_the_masks(expression: str, some: list[DeviceView]):
    answers = masked(compile_selector(expression), rows_of(some))
    assert answers == [interpreted(expression, device) for device in some], expression
