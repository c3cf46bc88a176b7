"""Converts a plan to JSON and to evictions. The field names are stable."""

import json
from collections.abc import Iterable
from typing import Any

from reconciler.analysis.defragment.answer import Answer, Move, Picture
from reconciler.analysis.defragment.picture import Cells
from reconciler.api.objects.meta import DeviceID


def as_json(answer: Answer) -> dict[str, Any]:
    """The whole answer."""
    return {
        "counted": answer.title,
        "before": answer.before,
        "after": answer.before + answer.gain,
        "gain": answer.gain,
        "gainWanted": answer.wanted,
        "gainAtMost": answer.most,
        "reached": answer.reached,
        "gaveUp": answer.gave_up,
        "limitsReached": list(answer.ended),
        "moves": len(answer.moves),
        "movesAtLeast": answer.fewest,
        "optimal": answer.optimal,
        "steps": [
            {"place": step.place, "gain": step.gain, "moves": [_move(move) for move in step.moves]}
            for step in answer.steps
        ],
        "places": [_picture(one) for one in answer.pictures],
        "profiles": [
            {"driver": one.driver, "profile": one.profile, "before": one.before, "after": one.after}
            for one in answer.profiles
        ],
        "evictions": list(evictions(answer)),
    }


def evictions(answer: Answer) -> Iterable[str]:
    """The evictions in order, as kubectl commands. Wait for each replacement before the next one."""
    for move in answer.moves:
        namespace, name = move.pod
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        yield f"echo '{json.dumps(body)}' | kubectl create --raw {path} -f -"


def _move(move: Move) -> dict[str, Any]:
    return {
        "pod": str(move.pod),
        "controller": f"{move.controller.kind}/{move.controller.name}",
        "claims": [str(key) for key in move.claims],
        "from": {"node": move.node or None, "devices": _devices(move.devices)},
        "to": {"node": move.to_node or None, "devices": _devices(move.to_devices)},
    }


def _devices(devices: Iterable[DeviceID]) -> list[dict[str, str]]:
    return [device._asdict() for device in devices]


def _picture(one: Picture) -> dict[str, Any]:
    return {"place": one.place, "before": _cells(one.before), "after": _cells(one.after)}


def _cells(cells: Cells) -> list[str | None]:
    return [str(claim) if claim is not None else None for claim in cells]
