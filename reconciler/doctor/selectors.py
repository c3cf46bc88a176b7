"""Expressions of classes, claims and templates, run over all devices that were read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask
from reconciler.cel.inlining import inline
from reconciler.cel.program import CelRefused, Selector, compile_selector
from reconciler.cel.reading import read
from reconciler.cel.reads import Part, reads
from reconciler.doctor import rules
from reconciler.doctor.findings import Finding, nearest, some
from reconciler.doctor.picture import Picture
from reconciler.manifests.bundle import Entry
from reconciler.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.objects.requests import DeviceRequest, DeviceSelector, DeviceSubRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """A class, or one alternative of a request."""

    entry: Entry
    path: str
    """Of what holds the selectors"""
    selectors: Sequence[DeviceSelector]
    class_name: str | None
    """None where this is a class itself"""


def asked(picture: Picture) -> Iterator[Asked]:
    """Everything that selects devices."""
    for entry, of_class in picture.of(DeviceClass):
        yield Asked(entry, "spec", of_class.spec.selectors, None)
    for entry, claim in picture.of(ResourceClaim):
        yield from _requests(entry, "spec", claim.spec.devices.requests)
    for entry, template in picture.of(ResourceClaimTemplate):
        yield from _requests(entry, "spec.spec", template.spec.spec.devices.requests)


def _requests(entry: Entry, path: str, requests: Sequence[DeviceRequest]) -> Iterator[Asked]:
    for number, request in enumerate(requests):
        where = f"{path}.devices.requests[{number}]"
        if request.exactly is not None:
            yield _asked(entry, f"{where}.exactly", request.exactly)
        for at, alternative in enumerate(request.first_available):
            yield _asked(entry, f"{where}.firstAvailable[{at}]", alternative)


def _asked(entry: Entry, path: str, request: DeviceSubRequest) -> Asked:
    return Asked(entry, path, request.selectors, request.device_class_name)


def missing_class(picture: Picture) -> Iterator[Finding]:
    """Classes that are named and not there."""
    classes = picture.world.classes
    for one in asked(picture):
        if one.class_name and one.class_name not in classes:
            what = f"there is no DeviceClass {one.class_name} among the objects read"
            hint = nearest(one.class_name, classes)
            yield rules.MISSING_CLASS.found(one.entry, f"{one.path}.deviceClassName", what + hint)


def refused(picture: Picture) -> Iterator[Finding]:
    """Expressions that do not compile, and selectors without one."""
    for one in asked(picture):
        for path, expression in _expressions(one):
            try:
                compile_selector(expression)
            except CelRefused as exc:
                yield rules.SELECTOR_REFUSED.found(one.entry, path, str(exc))


def raising(picture: Picture) -> Iterator[Finding]:
    """Expressions that fail on devices which the ones before them have let through."""
    fleet = picture.world.fleet
    for one in asked(picture):
        alive = _of_class(picture, one)
        for path, expression in _expressions(one):
            selector = _compiled(expression)
            if alive is None or selector is None:
                break
            masks = selector.masks(fleet.cel)
            failing = np.flatnonzero(alive & masks.error).tolist()
            if failing:
                names = some(str(fleet.id_of(row)) for row in failing)
                why = selector.explain(fleet.cel, failing[0])
                yield rules.SELECTOR_RAISES.found(one.entry, path, f"fails on {names}: {why}")
            alive = alive & masks.true


def matching_nothing(picture: Picture) -> Iterator[Finding]:
    """Classes that no device is of; requests that no device of their class meets."""
    if not picture.world.fleet.size:
        return
    for one in asked(picture):
        of_class = _of_class(picture, one)
        alive = _alive(picture, one.selectors, of_class) if of_class is not None else None
        # A class without devices is told once, at the class.
        if of_class is None or alive is None or not of_class.any() or alive.any():
            continue
        of = (
            f" of class {one.class_name}"
            if one.class_name and one.class_name in picture.world.classes
            else ""
        )
        what = f"none of {int(of_class.sum())} devices{of} is selected"
        yield rules.MATCHES_NOTHING.found(one.entry, f"{one.path}.selectors", what)


def foreign_domain(picture: Picture) -> Iterator[Finding]:
    """Domains that are read and that no device has anything in."""
    fleet = picture.world.fleet
    known = {Part.ATTRIBUTES: fleet.cel.attributes, Part.CAPACITY: fleet.cel.capacity}
    drivers = {pool.id.driver for pool in fleet.pools}
    if not drivers:
        return
    for one in asked(picture):
        for path, expression in _expressions(one):
            if _compiled(expression) is None:
                continue
            for which, domain in _domains(expression):
                domains = {of_device for of_device, _ in known[which]} | drivers
                if domain not in domains:
                    hint = nearest(domain, domains) or f"; the devices have {some(sorted(domains))}"
                    what = f"no device has {which} in domain {domain}{hint}"
                    yield rules.FOREIGN_DOMAIN.found(one.entry, path, what)


def _domains(expression: str) -> list[tuple[Part, str]]:
    """Domains that are read. Where one is also tested for, devices may well do without it."""
    found = reads(inline(read(expression)))
    tested = {(one.part, one.domain) for one in found if one.name is None}
    return sorted(
        {
            (one.part, one.domain)
            for one in found
            if one.domain is not None and (one.part, one.domain) not in tested
        }
    )


def _expressions(one: Asked) -> Iterator[tuple[str, str]]:
    for number, selector in enumerate(one.selectors):
        if selector.cel is not None:
            yield f"{one.path}.selectors[{number}].cel.expression", selector.cel.expression


def _compiled(expression: str) -> Selector | None:
    try:
        return compile_selector(expression)
    except CelRefused:
        return None


def _of_class(picture: Picture, one: Asked) -> Mask | None:
    """(D,) devices of the class of a request; all if there is no such class, None if it cannot be run."""
    everything = np.ones(picture.world.fleet.size, dtype=np.bool_)
    known = picture.world.classes.get(one.class_name) if one.class_name else None
    return everything if known is None else _alive(picture, known.spec.selectors, everything)


def _alive(picture: Picture, selectors: Sequence[DeviceSelector], alive: Mask) -> Mask | None:
    """(D,) which of some devices all selectors hold for. None if one of them cannot be run."""
    for selector in selectors:
        compiled = _compiled(selector.cel.expression) if selector.cel is not None else None
        if compiled is None:
            return None
        alive = alive & compiled.masks(picture.world.fleet.cel).true
    return alive
