"""`dra-reconciler top --demand`: the learnt demand, and what each placement policy would have done."""

from typing import Any

import click

from reconciler.analysis.policy_comparison import shares
from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.cli.cluster import Connection, connected, from_cluster
from reconciler.cli.exits import NoAnswer
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, echo_value, print_table, remark
from reconciler.cluster.kinds import config_map
from reconciler.control.demand import COMPARED, DEMAND, Kept, read_kept
from reconciler.errors import Gone
from reconciler.operations.page.sources import PolicyRow
from reconciler.operations.policy_comparison import read_comparison


def show_demand(
    name: str, files: tuple[str, ...], connection: Connection, console: Console, output: str
) -> None:
    """Print what a ConfigMap holds, once.

    Raises NoAnswer if there is nothing, ReconcilerError and OSError if it cannot be read.
    """
    namespace, slash, last = name.partition("/")
    if files or not slash or not namespace or not last:
        raise click.UsageError(
            "--demand needs NAMESPACE/NAME of a ConfigMap, and a cluster instead of files."
        )
    key = ObjectKey(namespace, last)
    found = from_cluster(_read(key, connection))
    if DEMAND not in found.data:
        raise NoAnswer(f"ConfigMap {key} holds no demand yet: the leader writes it once a minute")
    kept, refused = read_kept(found.data, f"ConfigMap {key}")
    for problem in refused:
        remark(f"warning: {problem}")
    samples, rows = _compared(found)
    if output in FOR_PEOPLE:
        _print(kept, samples, rows, console, wide=output == "wide")
    else:
        echo_value(_as_json(kept, samples, rows), output)


def _compared(found: ConfigMap) -> tuple[int, tuple[PolicyRow, ...]]:
    if COMPARED not in found.data:
        return 0, ()
    try:
        return read_comparison(found.data[COMPARED])
    except ValueError as exc:
        remark(f"warning: ConfigMap {found.key}: {COMPARED}: {exc}")
        return 0, ()


def _print(kept: Kept, samples: int, rows: tuple[PolicyRow, ...], console: Console, *, wide: bool) -> None:
    demand = Table(("DEMAND", "SHARE"), right=("SHARE",))
    for words, share in shares(kept.demand):
        demand.add((words, f"{100 * share:.1f}%"))
    print_table(console, demand, wide=wide)
    if rows:
        counts = ("SAME", "OTHER DEVICES", "OTHER NODE", "PLACES LOST")
        policies = Table(("POLICY", "USED", *counts), right=counts)
        for row in rows:
            used = "yes" if row.used else "-"
            numbers = (row.same, row.other_devices, row.other_node, f"{row.lost:.2f}")
            policies.add((row.name, used, *map(str, numbers)))
        console.print()
        print_table(console, policies, wide=wide)
    console.print(f"{samples} sampled decisions were repeated with each policy")


def _as_json(kept: Kept, samples: int, rows: tuple[PolicyRow, ...]) -> dict[str, Any]:
    return {
        "at": kept.at.isoformat() if kept.at is not None else None,
        "demand": [{"shape": words, "share": round(share, 4)} for words, share in shares(kept.demand)],
        "samples": samples,
        "policies": [
            {
                "policy": row.name,
                "used": row.used,
                "same": row.same,
                "otherDevices": row.other_devices,
                "otherNode": row.other_node,
                "placesLost": row.lost,
            }
            for row in rows
        ],
    }


async def _read(key: ObjectKey, connection: Connection) -> ConfigMap:
    async with connected(connection) as client:
        try:
            return validated(ConfigMap, await client.get(config_map(key), key))
        except Gone as exc:
            raise NoAnswer(f"there is no ConfigMap {key}; name that of demand_config_map") from exc
