"""Which policy decides which claims."""

import pytest

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import SelectorsNotRun, StepLimit
from reconciler.allocation.dra.selector_masks import evaluate_all_selectors
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import PLAIN, Policies, parse_policies
from reconciler.api.objects.claims import CelSelector, DeviceSelector, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.errors import Rejected
from tests.tools.builders import snapshot, typed
from tests.tools.naive_policies import BOTH
from tests.tools.small_fleet import DRIVER, claim


def wanted(*classes: str) -> list[ResourceClaim]:
    found = [typed(claim(f"c{at}", device_class=name)) for at, name in enumerate(classes)]
    return [one for one in found if isinstance(one, ResourceClaim)]


def name_for(policies: Policies, *classes: str) -> str:
    found = policies.of(wanted(*classes), snapshot(*BOTH))
    return "" if found is None else found.name


def test_texts_name_policies_for_all_for_drivers_and_for_classes():
    found = parse_policies(["spread", f"{DRIVER}=best-fit", "class:gpu=fgd", "least-loss"])
    assert dict(found) == {"*": "least-loss", DRIVER: "best-fit", "class:gpu": "fgd"}


@pytest.mark.parametrize("text", ["", "best", "a=", "=best-fit", "class:=best-fit", "a=b=c"])
def test_other_texts_are_refused(text: str):
    with pytest.raises(Rejected, match="policy"):
        parse_policies([text])


def test_a_refusal_suggests_the_name():
    with pytest.raises(Rejected, match="did you mean least-loss"):
        parse_policies(["gpu.example.com=lest-loss"])


def test_first_fit_is_no_policy():
    assert PLAIN.first_fit
    for texts in ([], ["first-fit"], ["first-fit", f"{DRIVER}=first-fit"]):
        policies = Policies(parse_policies(texts))
        assert policies.first_fit
        assert policies.of(wanted("gpu"), snapshot(*BOTH)) is None


def test_classes_come_before_drivers_and_drivers_before_all_others():
    policies = Policies(parse_policies(["spread", f"{DRIVER}=best-fit"]))
    assert [name_for(policies, one) for one in ("gpu", "nic")] == ["best-fit", "spread"]
    policies = Policies(parse_policies([f"{DRIVER}=best-fit", "class:gpu=first-fit"]))
    assert [name_for(policies, one) for one in ("gpu", "nic")] == ["", ""]


def test_requests_with_different_policies_are_named_in_their_order():
    policies = Policies(parse_policies(["spread", f"{DRIVER}=best-fit"]))
    assert name_for(policies, "gpu", "nic", "gpu") == "best-fit+spread"
    assert name_for(policies, "nic", "gpu") == "spread+best-fit"


def test_each_request_gets_devices_by_its_own_policy():
    """The first policy chooses the node: `spread` takes the one with two GPUs."""
    policies = Policies(parse_policies([f"{DRIVER}=spread", "best-fit"]))
    claims, seen = wanted("gpu", "nic"), snapshot(*BOTH)
    found = allocate(claims, seen, policy=policies.of(claims, seen))
    assert isinstance(found, Granted)
    assert found.node == "a"


def test_an_unknown_class_has_no_policy():
    assert name_for(Policies(parse_policies([f"{DRIVER}=spread"])), "gone") == ""


def test_selectors_that_must_not_run_yet_are_not_run():
    policies = Policies(parse_policies([f"{DRIVER}=spread"]))
    slow = claim("slow")
    text = "device.driver.find('^(a+)+$') == ''" + " || device.driver == 'x'" * 200
    slow["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": text}}]
    asked = typed(slow)
    assert isinstance(asked, ResourceClaim)
    seen = snapshot(*BOTH)
    assert policies.of([asked], seen, StepLimit(1)) is None
    assert policies.of([asked], seen) is not None


def test_equal_seeds_give_equal_policies():
    texts = parse_policies(["expected-fill"])
    one, same, other = (Policies(texts, seed=seed).of(wanted("gpu"), snapshot(*BOTH)) for seed in (1, 1, 2))
    assert one is not None
    assert same is not None
    assert other is not None
    assert (one.name, one.seed, one.digest) == (same.name, same.seed, same.digest)
    assert one.seed != other.seed


def test_every_policy_can_be_selected():
    for name in POLICIES:
        assert name_for(Policies(parse_policies([name])), "gpu") == ("" if name == "first-fit" else name)


def test_the_selectors_of_the_demand_run_before_a_decision_that_may_not_wait():
    """In another thread: as those of claims, they may take long."""
    new = typed(claim("new"))
    assert isinstance(new, ResourceClaim)
    request = new.spec.devices.requests[0]
    assert request.exactly is not None
    text = "device.driver == 'never seen before'"
    selector = DeviceSelector(cel=CelSelector(expression=text))
    exactly = request.exactly.model_copy(update={"selectors": (selector,)})
    requests = (request.model_copy(update={"exactly": exactly}),)
    spec = new.spec.model_copy(update={"devices": new.spec.devices.model_copy(update={"requests": requests})})
    demand = Demand((Shape(spec, 0, 1),))
    policies, seen = Policies(parse_policies(["least-loss"]), demand), snapshot(*BOTH)
    with pytest.raises(SelectorsNotRun):
        policies.of(wanted("gpu"), seen, StepLimit(1))
    assert all(evaluate_all_selectors([one], seen, lambda: True) for one in demand.claims)
    assert policies.of(wanted("gpu"), seen, StepLimit(1)) is not None
