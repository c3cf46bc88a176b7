"""Pods that run with their claims, for tests of who has to leave."""

from typing import Any

from reconciler.analysis.relocation.make_room import Advice
from tests.tools.small_fleet import DRIVER, Object, claim, held, pod


def running(name: str, *devices: str, on: str = "n", **fields: Any) -> list[Object]:
    """A pod and its claim with devices of its node."""
    made, one = claim(name), pod(name, name, gates=(), nodeName=on)
    made["metadata"]["uid"] = f"claim-{name}"
    reserved = [{"resource": "pods", "name": name, "uid": name}]
    status = {**held(DRIVER, on, *devices, on=on), "reservedFor": reserved}
    metadata = {"uid": name, "labels": {"app": name}, **fields.pop("metadata", {})}
    one["metadata"] |= metadata
    one["spec"] |= fields
    return [{**made, "status": status}, one]


def names(found: Advice) -> list[str]:
    """The pods that leave."""
    return [key.name for key in found.victims]
