"""The options and the help of `dra-reconciler logs`."""

import re

import click

from reconciler.cli.common.clock import pass_clock
from reconciler.cli.common.options import (
    output_option,
)
from reconciler.cli.common.running import runs

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Duration(click.ParamType[float]):
    """A duration such as `50ms`, `10m` or `1h30m`, as seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds; fail if the value is not a duration."""
        if isinstance(value, float):
            return value
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", str(value))
        if not parts or "".join(number + unit for number, unit in parts) != value:
            self.fail(f"{value!r} is not a duration; write for example 50ms, 10m or 1h30m", param, ctx)
        return sum(float(number) * _UNITS[unit] for number, unit in parts)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="FILE|-")
@click.option("--claim", metavar="[NAMESPACE/]CLAIM", help="Show only lines about this claim.")
@click.option("--reason", metavar="REASON", help="Show only decisions with this reason.")
@click.option(
    "--slow",
    type=Duration(),
    metavar="DURATION",
    help="Show only decisions that took at least this long: 50ms.",
)
@click.option(
    "--since", type=Duration(), metavar="DURATION", help="Use only lines that are not older than this: 10m."
)
@click.option("--follow", is_flag=True, help="Print new lines until interrupted.")
@output_option("table", "json", "yaml")
@pass_clock
@runs("reconciler.cli.logs:logs")
def logs() -> None:
    """Summarize or filter the JSON log lines of `run --log-format json`; - is standard input.

    Without --claim, --reason, --slow or --follow, prints a summary: counts by reason, latencies, the
    slowest decisions, conflicts and retries, warnings. With one of them, prints the matching lines.

    \b
      kubectl logs -n dra-reconciler deploy/dra-reconciler > run.log
      dra-reconciler logs run.log
      dra-reconciler logs run.log --claim training/c
    """
