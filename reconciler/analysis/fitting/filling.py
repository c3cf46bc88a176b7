"""Alike pods whose devices belong to one node each fill node after node: the first fit, by columns.

No pod is decided on its own, and nothing is placed in the trial: `settle` does that, for sets that need the
search. As many pods get a place as if each was decided alone after those before it.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.bounds import per_domain, room_for
from kernels.fit import Shelf, take_in_order
from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.request_options import MAX_RESULTS, RequestKey, RequestOption
from reconciler.allocation.dra.result import pinned_to_node
from reconciler.allocation.gangs.deciding import too_few
from reconciler.allocation.gangs.domains import Grouping, Tiers, spread_last
from reconciler.allocation.gangs.kinds import UNPLACED, Kind
from reconciler.allocation.gangs.limits import lack, needs_of
from reconciler.allocation.gangs.places import left_out
from reconciler.allocation.placement.placing import Placement
from reconciler.analysis.fitting.question import PodSet, Seat, Short
from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.plan import Plan
from reconciler.errors import Rejected
from reconciler.state.devices.pool import Usable
from reconciler.state.devices.snapshot import Snapshot, View
from reconciler.state.trial import Trial


class Best(NamedTuple):
    """The domain of the required tiers in which most pods fit."""

    met: tuple[tuple[Tier, str], ...]
    inside: Mask
    """(N,)"""
    domains: int
    """How many there are"""


NOWHERE = Best((), np.zeros(0, dtype=np.bool_), 0)
"""No domain"""


class Level(Struct, frozen=True, eq=False):
    """The G domains of some tiers, all of which are labels of nodes."""

    grouping: Grouping
    ranks: Rows
    """(G,) of their names"""

    @classmethod
    def of(cls, grouping: Grouping) -> "Level":
        """Rank the domains by name, once for all sets."""
        names = grouping.names
        ranks = np.empty(len(names), dtype=np.intp)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return cls(grouping, ranks)

    def domains(self, free: Amounts, each: Amounts, count: int) -> tuple[Rows, Amounts]:
        """The domains in the order in which they are tried, and how many pods fit into each at most.

        Small domains are tried first.

        free  (N,)  devices that a pod could use
        each  (N,)  pods that fit, at most `count`
        ->    (G,)  numbers of domains; and (G,) pods, by number, at most `count`
        """
        size = len(self.ranks)
        sizes = per_domain(free, self.grouping.codes, size)
        most = np.minimum(per_domain(each, self.grouping.codes, size), count)
        return np.lexsort((self.ranks, sizes)), most

    def best(self, order: Rows, most: Amounts) -> Best:
        """The domain with the most pods, the first of equals; without inside if there is none."""
        if not len(order):
            return NOWHERE
        number = int(order[most[order].argmax()])
        return Best(self.met(number), self.grouping.codes == number, len(order))

    def met(self, number: int) -> tuple[tuple[Tier, str], ...]:
        """The tiers of a domain, each with the value that all its nodes share."""
        return tuple(zip(self.grouping.met, self.grouping.names[number], strict=True))


Place = tuple[int, tuple[int, ...]]
"""Position of a node, and rows of the devices that a pod takes there, request by request"""


class NeedsSearch(Exception):
    """The set is not of the kind that columns can place."""


class Filled(Struct, frozen=True, eq=False):
    """Places of one set, and what they leave."""

    places: list[Place]
    domain: tuple[tuple[Tier, str], ...]
    shelf: Shelf
    bound: int
    """No more pods fit, as counting shows; where devices are cut up, fewer may"""
    best: Best
    """`NOWHERE` if counting does not show that some have no place"""


class Form(Struct, frozen=True, eq=False):
    """What every pod of a set takes."""

    options: tuple[RequestOption, ...]
    """One for each request of its claims, in order"""
    masks: dict[RequestKey, Mask]
    """(D,) what each option could take before the batch"""
    wanted: Amounts
    """(R,)"""
    waived: frozenset[str]
    greedy: bool
    """Whether a node takes as many pods as the counts say, or as its devices in order allow one by one"""

    @property
    def needs(self) -> dict[RequestKey, int]:
        """Devices that a pod takes by each key."""
        return needs_of(self.options)


class Filling:
    """What a batch of sets takes of one state. Of no use once others have changed the trial."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._snapshot = trial, trial.snapshot
        fleet, occupancy = self._snapshot.fleet, self._snapshot.occupancy
        self._shelf = Shelf(
            occupancy.free, occupancy.left, fleet.table, fleet.sets, fleet.draws, fleet.by_set
        )
        self._placement = Placement(trial.nodes, supposed=trial.supposed)
        self._order = self._snapshot.topology.order
        self._place: Rows = self._snapshot.topology.place_of[fleet.codes["node"]]
        self._free: dict[frozenset[str], Amounts] = {}
        self._used: Amounts = np.zeros((0, 0), dtype=np.int64)
        self._taken: list[tuple[PodSet, Form, list[Place]]] = []
        self._plain: dict[RequestKey, bool] = {}
        self._suiting: dict[Hashable, Mask] = {}
        self._left_out: dict[Kind, str] = {}
        self._own: dict[tuple[int, RequestKey], Rows] = {}
        self._levels: dict[Tiers, list[Level]] = {}

    def form_of(self, kind: Kind) -> Form:
        """What a pod takes. Raises NeedsSearch."""
        return _form(kind, self._snapshot, self._trial, self._plain)

    def fill(self, asked: PodSet, kind: Kind, form: Form, tiers: Tiers | None) -> Filled:
        """Places for as many pods of a set as fit, which are not taken yet. Raises NeedsSearch, and Rejected
        for a pod whose affinity cannot be read.

        `tiers` are None if the set has no topology.
        """
        counts = {key: self._devices_at(mask) for key, mask in form.masks.items()}
        each = self._each(kind, form, counts)
        if tiers is None:
            places, shelf = self._along(asked.count, form, each, np.flatnonzero(each))
            bound = min(asked.count, int(np.minimum(each, asked.count).sum()))
            return Filled(places, (), shelf, bound, Best((), np.ones(len(each), dtype=np.bool_), 1))
        if not form.greedy or len(tiers.labels(tiers.tiers)) < len(tiers.tiers):
            raise NeedsSearch
        free = next(iter(counts.values())) if len(counts) == 1 else self._free_devices(form)
        return self._in_domains(asked, form, each, free, tiers)

    def take(self, asked: PodSet, form: Form, filled: Filled) -> list[Seat]:
        """Let later sets see what this one takes."""
        self._shelf = filled.shelf
        at = np.bincount([place for place, _ in filled.places], minlength=len(self._order))
        if not self._used.size:
            self._used = np.zeros((len(form.wanted), len(self._order)), dtype=np.int64)
        self._used += form.wanted[:, None] * at
        self._taken.append((asked, form, filled.places))
        id_of = self._snapshot.fleet.id_of
        return [Seat(self._order[place], tuple(map(id_of, rows))) for place, rows in filled.places]

    def settle(self) -> None:
        """Place everything in the trial. Ends the use of this object."""
        trial, topology = self._trial, self._snapshot.topology
        for asked, form, places in self._taken:
            for number, (place, rows) in enumerate(places):
                view = topology.view(self._order[place])
                for plan in self._plans(asked, form, number, rows, view):
                    trial.assume(plan)
                trial.host(asked.pod_at(number), view.node.name)
        self._taken.clear()

    def _plans(
        self, asked: PodSet, form: Form, number: int, rows: Sequence[int], view: View
    ) -> Iterator[Plan]:
        fleet, given = self._snapshot.fleet, iter(rows)
        results: list[list[dict[str, object]]] = [[] for _ in asked.claims]
        for option in form.options:
            for _ in range(option.source.wanted):
                device = fleet.id_of(next(given))._asdict()
                results[option.claim].append({"request": option.name, **device})
        for at, (claim, own) in enumerate(zip(asked.claims, results, strict=True)):
            fields = {"devices": {"results": own}, "node_selector": pinned_to_node(view)}
            allocation = Allocation.model_validate(fields)
            yield Plan(claim.key, asked.uid_at(number, at), "", view.node.name, allocation)

    def _each(self, kind: Kind, form: Form, counts: Mapping[RequestKey, Amounts]) -> Amounts:
        """(N,) how many pods each node has room and devices for, each device judged on its own.

        `counts` (N,) are the devices that each node has left for a request.
        """
        each = room_for(self._free_room(form), form.wanted, self._suits(kind))
        for key, need in form.needs.items():
            np.minimum(each, counts[key] // need, out=each)
        return each

    def _suits(self, kind: Kind) -> Mask:
        """(N,) nodes on which its pods can run, if they have room; the same for pods that ask the same."""
        if kind in self._suiting:
            return self._suiting[kind]
        pod, spec = kind.pod, kind.pod.spec
        key: Hashable = (
            tuple(kind.wanted.items()),
            kind.waived,
            tuple(sorted(spec.node_selector.items())),
            spec.tolerations,
            (spec.host_network, spec.host_users),
            tuple(self._trial.nodes.residents.against(pod)),
        )
        rules = any(one.restart_policy_rules for one in (*spec.containers, *spec.init_containers))
        if spec.affinity is not None or spec.topology_spread_constraints or spec.volumes or rules:
            key = pod.key
        if key not in self._suiting:
            nodes = self._placement.before_binding(pod, (), self._snapshot).nodes
            self._suiting[key] = np.ones(len(self._order), dtype=np.bool_) if nodes is None else nodes.mask
        self._suiting[kind] = self._suiting[key]
        return self._suiting[kind]

    def _free_room(self, form: Form) -> Amounts:
        """(R, N) what the batch leaves of the resources of each node."""
        if form.waived not in self._free:
            room = self._trial.nodes.room.free(form.waived, but=())
            self._free[form.waived] = self._trial.nodes.in_order(room.T, self._order).T
        free = self._free[form.waived]
        return free - self._used if self._used.size else free

    def _devices_at(self, mask: Mask) -> Amounts:
        """(N,) devices of a mask (D,) that the batch leaves on each node."""
        places = self._place[np.flatnonzero(mask & self._shelf.open)]
        return np.bincount(places[places >= 0], minlength=len(self._order)).astype(np.int64)

    def _along(self, count: int, form: Form, each: Amounts, places: Rows) -> tuple[list[Place], Shelf]:
        """Up to `count` pods on nodes in this order, and what they leave."""
        shelf, found = self._shelf.copy(), list[Place]()
        for place in places.tolist():
            if len(found) >= count:
                break
            number = min(int(each[place]), count - len(found))
            found += [(place, rows) for rows in self._on(place, number, form, shelf)]
        return found, shelf

    def _on(self, place: int, most: int, form: Form, shelf: Shelf) -> Iterator[tuple[int, ...]]:
        """Devices for pods on one node, which are taken off the shelf, for at most so many."""
        if not form.options:
            yield from [()] * most
            return
        rows = {key: self._own_rows(place, key, mask) for key, mask in form.masks.items()}
        if len(form.options) == 1 and form.greedy:
            (option,) = form.options
            wanted = option.source.wanted
            taken = take_in_order(shelf, rows[option.key], most * wanted)
            for at in range(0, len(taken), wanted):
                yield tuple(taken[at : at + wanted])
            return
        for _ in range(most):
            chosen: list[int] = []
            for option in form.options:
                chosen += take_in_order(shelf, rows[option.key], option.source.wanted)
            if len(chosen) < sum(option.source.wanted for option in form.options):
                raise NeedsSearch  # other devices might do
            yield tuple(chosen)

    def _own_rows(self, place: int, key: RequestKey, mask: Mask) -> Rows:
        """(n,) the devices of a node that a request could take before the batch. Raises NeedsSearch."""
        if (place, key) not in self._own:
            view = self._view(place)
            self._own[place, key] = view.rows[view.of(mask)]
        return self._own[place, key]

    def _view(self, place: int) -> View:
        """What a node reaches. Raises NeedsSearch unless all of it is its own and in order."""
        try:
            view = self._snapshot.topology.view(self._order[place])
        except Rejected:
            raise NeedsSearch from None
        if not view.here.all() or any(pool.usable is not Usable.YES for pool in view.pools):
            raise NeedsSearch
        return view

    def _in_domains(self, asked: PodSet, form: Form, each: Amounts, free: Amounts, tiers: Tiers) -> Filled:
        """The most pods; then the tightest tiers; then the smallest domain (GANG-6, GANG-7).

        each (N,)  pods that fit
        free (N,)  devices that a pod could use
        """
        levels = self._levels_of(tiers)
        upto = np.minimum(each, asked.count)
        known = [(level, *level.domains(free, upto, asked.count)) for level in levels]
        required, first, most = known[-1]  # `levels` ends with the fewest tiers
        bound = target = int(most.max(initial=0))
        best = required.best(first, most) if bound < asked.count else NOWHERE
        while target >= asked.least:
            for level, order, held in known:
                for number in order[held[order] >= target].tolist():
                    inside = np.flatnonzero(level.grouping.codes == number)
                    places = np.concatenate(spread_last(inside, each, level.grouping.met, tiers))
                    found, shelf = self._along(target, form, each, places)
                    if len(found) >= target:
                        return Filled(found, level.met(number), shelf, bound, best)
                    held[number] = len(found)
            target = min(target - 1, int(most.max(initial=0)))
        return Filled([], (), self._shelf, bound, best)

    def _levels_of(self, tiers: Tiers) -> list[Level]:
        if tiers not in self._levels:
            self._levels[tiers] = [
                Level.of(grouping) for met in tiers.levels() for grouping in tiers.groupings(met)
            ]
        return self._levels[tiers]

    def short(self, asked: PodSet, kind: Kind, form: Form, filled: Filled) -> Short | None:
        """Why no more pods fit than `fill` found; None if that is not proved."""
        proved = filled.bound == len(filled.places) or filled.bound < asked.least
        if not proved or not filled.best.domains:
            return None
        inside, lacks = filled.best.inside, dict[str, int]()
        for key, need in form.needs.items():
            missing = lack(self._devices_at(form.masks[key])[inside], [need], [asked.count])
            if missing:
                option = next(option for option in form.options if option.key == key)
                name = f"devices of class {option.device_class.key.name}"
                lacks[name] = lacks.get(name, 0) + missing
        for resource, need in kind.wanted.items():
            column = self._trial.nodes.room.vector({resource: 1})
            if column.any():
                free = self._free_room(form)[int(column.argmax())][inside]
                if missing := lack(free, [need], [asked.count]):
                    lacks[resource] = missing
        found = tuple(lacks.items())
        best = filled.best
        message = too_few(
            filled.bound, asked.count, asked.count, met=best.met, domains=best.domains, short=found
        )
        if kind not in self._left_out:
            self._left_out[kind] = left_out(kind, self._placement, self._snapshot)
        why = self._left_out[kind]
        return Short(UNPLACED, f"{message}. {why}" if why else message, found)

    def _free_devices(self, form: Form) -> Amounts:
        """(N,) devices of each node that a pod could use; 1 for each node if it uses none."""
        if not form.options:
            return np.ones(len(self._order), dtype=np.int64)
        return self._devices_at(np.logical_or.reduce(list(form.masks.values())))


def _form(kind: Kind, snapshot: Snapshot, trial: Trial, plain: dict[RequestKey, bool]) -> Form:
    """`plain` keeps which options are."""
    if kind.error is not None or kind.shared or kind.held or kind.prefers or kind.has_alternatives:
        raise NeedsSearch
    if trial.store.supply.counts_device_shares and kind.pod.spec.resource_claims:
        raise NeedsSearch  # what its devices take of nodes differs
    if kind.pod.spec.volumes and trial.nodes.volumes.considered:
        raise NeedsSearch
    if kind.shape is not None and kind.shape.overspent(snapshot):
        raise NeedsSearch
    slots = kind.shape.parsed.slots if kind.shape is not None else ()
    options = tuple(slot.options[0] for slot in slots)
    if any(len(slot.options) > 1 for slot in slots) or any(one.constraints for one in options):
        raise NeedsSearch
    for option in options:
        if option.key not in plain:
            plain[option.key] = _plain(option, snapshot)
        if option.all or not option.source.wanted or not plain[option.key]:
            raise NeedsSearch
    of_claim: dict[int, int] = {}
    for option in options:
        of_claim[option.claim] = of_claim.get(option.claim, 0) + option.source.wanted
    if any(devices > MAX_RESULTS for devices in of_claim.values()):
        raise NeedsSearch
    masks = {option.key: available(option, snapshot).mask for option in options}
    return Form(
        options,
        masks,
        trial.nodes.room.vector(kind.wanted),
        kind.waived,
        _greedy(options, masks, snapshot),
    )


def _plain(option: RequestOption, snapshot: Snapshot) -> bool:
    """Whether taking a device for an option changes nothing but counters, on one node."""
    if option.admin:
        return False
    current, fleet = available(option, snapshot), snapshot.fleet
    if not current.local or current.fails or current.static.skips:
        return False
    if (current.concerned & fleet.shared).any():
        return False
    return fleet.exclusion is None or not (current.concerned & fleet.exclusion.bound).any()


def _greedy(options: Sequence[RequestOption], masks: dict[RequestKey, Mask], snapshot: Snapshot) -> bool:
    """Whether taking devices in order needs no second thought: one device a pod, or devices that take
    nothing from one another.
    """
    if sum(option.source.wanted for option in options) <= 1:
        return True
    number = sum((mask.astype(np.int8) for mask in masks.values()), np.zeros(1, dtype=np.int8))
    return bool((number <= 1).all()) and not (snapshot.fleet.sets[number > 0] >= 0).any()
