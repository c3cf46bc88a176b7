"""The steps of expressions at worst, as Kubernetes estimates them (CEL-19)."""

import pytest

from reconciler.api.validation.devices import MAX_COST
from reconciler.cel.estimate import NO_BOUND, worst_cost

A, C = 'device.attributes["d.io"]', 'device.capacity["d.io"]'
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
DEEP = "int('1'.find('[0-9]*')) < 100"
for name in ("z5", "z4", "z3", "z2", "z", "y", "x"):
    DEEP = f"{TEN}.all({name}, {DEEP})"

# The expectations of Kubernetes' own table of costs.
KUBERNETES = {
    "true": 0,
    f'{A}.no.isGreaterThan(quantity("0"))': 6,
    '"d.io" in device.attributes': 3,
    'device.driver == ""': 2,
    'device.driver == "dra.example.com"': 4,
    f"{A}.name": 4,
    f'{A}["name"]': 4,
    f"cel.bind(dra, {A}, dra.name)": 15,
    f"{A}.name > 0": 5,
    f'{A}.name == "fish"': 5,
    f"{A}.name.exists(x, x > 0)": 5 + 6 * 64,
    f'{A}.name.exists(x, x == "fish")': 5 + 6 * 64,
    f'{A}.name.includes("fish")': 52,
    f'{A}.name.includes(semver("1.0.0"))': 53,
    f"{A}.names.size() == 2": 6,
    f'{A}.names.all(x, x != "")': 5 + 4 * 64,
    f'{A}.names.all(x, x.isGreaterThan(semver("0.0.1")))': 5 + 6 * 64,
    f"1 in {A}.names": 68,
    f'{A}.name.isGreaterThan(semver("v0.0.1", true)) && isSemver("v1.0.0", true)': 7,
    f'"name" in {C} && {C}.name.isGreaterThan(quantity("1Ki"))': 10,
    f'!("name" in {C}) || {C}.name.isGreaterThan(quantity("1Ki"))': 11,
    'device.attributes.exists_one(x, x == "dra.example.com")': 164,
    f'{A}.exists_one(x, x == "services")': 133,
    f'{A}.services.split("example").size() >= 2': 19,
    f'{A}.services.matches("[^a]?sym")': 18,
    'device.capacity.exists_one(x, x == "dra.example.com")': 164,
    f'{C}.exists_one(x, x == "memory")': 133,
    "device.allowMultipleAllocations == true": 3,
    DEEP: 85555551,
}


@pytest.mark.parametrize(("expression", "cost"), KUBERNETES.items())
def test_kubernetes_estimates_the_same(expression, cost):
    assert worst_cost(expression) == cost


# By the sources of the estimator: what has no bound, and what has one though it may seem to have none.
UNBOUNDED = [
    f'{A}.address.split(":")[0] + "x" == ""',
    f'{A}.?address.orValue("").matches("a")',
    f'{C}.memory != quantity("1Gi")',
    "string(1) + string(2)",
    'device.driver.split("").map(x, x.lowerAscii())',
    'device.driver.split("").join("-")',
]
BOUNDED = {
    f'{A}.address.split(":")[0] == "x"': 19,
    f"{A}.address.lowerAscii().substring(0, 5)": 4 + 7 + 7,
    f"{A}.address.replace('a', 'bb') + 'x'": 4 + 13 + 13,
    f"has({A}.address) ? {A}.address : ''": 3 + 4,
    f"string({A}.n) + 'a'": 4 + 7 + 7,
    f'{C}["memory"] == quantity("1Gi")': 4 + 1 + 1,
    "[device.driver, 'a']": 12,
    f"{A}.names.filter(x, x != '')": 4 + 10 + 64 * 14 + 1,
    f"{A}.?n.optMap(x, [x]).orValue([])": 2 * 4 + 2 + 1 + 10 + 11 + 10 + 1,
    "[3, 1, 2].sort()[0]": 10 + 18 + 11 + 1,
    "[1, 2].sortBy(x, -x)[0]": 10 + 10 + 1 + (12 + 2 * 14) + (8 + 11) + 1,
}


@pytest.mark.parametrize("expression", UNBOUNDED)
def test_work_on_texts_of_unknown_length_costs_more_than_any_limit(expression):
    assert worst_cost(expression) > NO_BOUND // 100 > MAX_COST


@pytest.mark.parametrize(("expression", "cost"), BOUNDED.items())
def test_attributes_and_what_is_made_of_them_have_bounds(expression, cost):
    assert worst_cost(expression) == cost
