"""A server on which the admission policy that announces claims is in force, most of the time."""

from random import Random
from typing import Any

from reconciler.api.objects.claims import ANNOUNCED
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import CLAIM
from reconciler.embedded import ApiServer
from reconciler.embedded.routing import Target
from tests.tools.admission_policies import Policy, Review
from tests.tools.deployed_rights import documents

LABELS = {"dra-reconciler.io/announce-claims": "true"}
NAME = "dra-reconciler-announce-claims"
IN_FORCE = 0.8
"""Probability that a claim is announced: policies and labels come and go"""


def policy() -> Policy:
    """The policy as it is deployed."""
    (found,) = (
        one
        for one in documents("admission")
        if one["kind"] == "MutatingAdmissionPolicy" and one["metadata"]["name"] == NAME
    )
    return Policy(found)


def announce(api: ApiServer, random: Random, in_force: float = IN_FORCE) -> None:
    """Let claims be announced as they are created, whoever creates them."""
    announcing = policy()

    def admit(target: Target, new: Object | None, old: Object | None) -> None:
        if target.kind is CLAIM and new is not None and old is None and random.random() < in_force:
            new.update(announcing.mutated(Review("CREATE", new=new, labels=LABELS)))

    api._writer.admit = admit


def announced(claim: Any) -> Any:
    """A claim as the policy makes it."""
    made = policy().mutated(Review("CREATE", new=claim, labels=LABELS))
    assert ANNOUNCED in made["metadata"]["annotations"].values()
    return made
