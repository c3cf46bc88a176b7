"""Why a gang gets no places: how many members fit, and what is short in the best domain. Source: GANG-11."""

from collections.abc import Sequence

from reconciler.allocation.gangs.domains import Domain
from reconciler.allocation.gangs.kinds import Kind
from reconciler.allocation.gangs.question import GangQuestion, GangUnsatisfied
from reconciler.allocation.gangs.search import Field
from reconciler.allocation.placement import minds_other_pods
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.plan import Reason
from reconciler.state.pods.ports import ports_of
from reconciler.state.pods.terms import affinity_of, anti_affinity_of

UNPLACED = "GangUnplaced"
NO_TOPOLOGY = "GangTopologyUnknown"


def no_domain(question: GangQuestion, key: str) -> GangUnsatisfied:
    """A required tier names nothing."""
    message = (
        f"gang {question.gang} requires {key}, which is no label of a node and no attribute of a device; "
        "correct the gang's topology, or label the nodes"
    )
    return GangUnsatisfied(NO_TOPOLOGY, message)


def refused(
    question: GangQuestion, field: Field, domains: Sequence[Domain], fits: int, steps: int, *, gave_up: bool
) -> GangUnsatisfied:
    """No domain holds the minimum, as far as the search knows. `domains` meet the required tiers only."""
    if gave_up:
        message = (
            f"gave up after {steps} steps; {fits} of {_pods(question)} were placed together, "
            f"{question.least} are needed. It is unknown whether they fit"
        )
        return GangUnsatisfied(Reason.GAVE_UP, message, fits, steps=steps)
    error = next((kind for kind in field.kinds if kind.error is not None), None)
    if error is not None and error.error is not None:
        text = f"pod {error.pod.key}: {error.error}"
        return GangUnsatisfied(str(error.error.reason), text, steps=steps)
    best = max(domains, key=lambda domain: domain.most, default=None)
    if best is None and not any(tier.required for tier in question.tiers):
        return GangUnsatisfied(UNPLACED, "there are no nodes", steps=steps)
    if best is None:
        message = f"no node has all labels that gang {question.gang} requires: {_keys(question)}"
        if question.nodes:
            message += ", with the values of the nodes on which its other pods are"
        if gone := sorted({*question.nodes} - {*field.order}):
            message += f"; of these, {', '.join(gone)} {'does' if len(gone) == 1 else 'do'} not exist"
        return GangUnsatisfied(UNPLACED, message, steps=steps)
    short = tuple(_short(best, field.kinds, question.least))
    left_out = "; ".join(
        dict.fromkeys(
            filter(None, (field.places.left_out(kind, field.trial.snapshot) for kind in field.kinds))
        )
    )
    message = too_few(
        best.most, len(question.members), question.least, met=best.met, domains=len(domains), short=short
    )
    if not short and (minds := _what_pods_mind(field)):
        message += f". Nodes that have pods of the gang exclude others of it by {' and '.join(minds)}"
    return GangUnsatisfied(
        UNPLACED, f"{message}. {left_out}" if left_out else message, best.most, short, steps
    )


def too_few(
    most: int,
    pods: int,
    least: int,
    *,
    met: Sequence[tuple[Tier, str]],
    domains: int,
    short: Sequence[tuple[str, int]],
) -> str:
    """Says how many of some pods fit in the best of some domains, and what it lacks."""
    where = ", ".join(f"{tier.key}={value}" for tier, value in met)
    message = f"{most} of {_number(pods)} fit together at most{f' in {where}' if where else ''}; "
    message += f"{least} are needed"
    if domains > 1:
        message += f"; {domains} domains were considered"
    if short:
        message += ". Short: " + ", ".join(
            f"{amount}{'m' if name == 'cpu' else ''} {name}" for name, amount in short
        )
    return message


def _short(domain: Domain, kinds: Sequence[Kind], least: int) -> list[tuple[str, int]]:
    """What the domain lacks for the first members of the minimum."""
    first = sorted((position, kind.number) for kind in kinds for position in kind.positions)[:least]
    numbers = [sum(number == kind.number for _, number in first) for kind in kinds]
    return domain.limits.shortages(domain.grouping.codes, domain.number, numbers)


def _what_pods_mind(field: Field) -> list[str]:
    """By what members may exclude one another from nodes, apart from room."""
    pods = [kind.pod for kind in field.kinds]
    found = {
        "affinity": any(affinity_of(pod) or anti_affinity_of(pod) for pod in pods),
        "topology spread": any(pod.spec.topology_spread_constraints for pod in pods),
        "host ports": any(map(ports_of, pods)),
        "volumes": any(minds_other_pods(pod, field.trial.nodes) for pod in pods),
    }
    return [name for name, minds in found.items() if minds]


def _pods(question: GangQuestion) -> str:
    return _number(len(question.members))


def _number(pods: int) -> str:
    return f"{pods} pod{'' if pods == 1 else 's'}"


def _keys(question: GangQuestion) -> str:
    return ", ".join(tier.key for tier in question.tiers if tier.required)
