"""docs/metrics.md, made from the catalogue: `python -m reconciler.operations.metrics.document`."""

import sys
from collections.abc import Iterator

from reconciler.control.decisions.decisions import DECISIONS
from reconciler.control.decisions.metric import MetricSpec
from reconciler.operations.metrics.catalogue import CATALOGUE

_HEAD = """\
# Metrics

Served at `/metrics` of the status port, as OpenMetrics with exemplars to who asks for it, otherwise in
Prometheus' older text. This page is made from `reconciler/operations/metrics/catalogue.py` and
`reconciler/control/decisions/decisions.py` by `python -m reconciler.operations.metrics.document`.

All are ALPHA in Kubernetes' sense: names and labels may still change. No label holds the name of a claim, a
pod, a node or a device, so that the number of series does not grow with the cluster. Gauges are read when
somebody scrapes. Besides these there are `process_*` and `python_*` of Prometheus' client.

The exemplars of the two histograms of decisions hold `decision_id`, which is also in the log line of the
decision.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for spec in CATALOGUE for line in _section(spec))])


def _section(spec: MetricSpec) -> Iterator[str]:
    yield f"## {spec.full_name}"
    yield f"{spec.kind.capitalize()}. {spec.help}"
    yield ""
    if spec.labels:
        yield "| label | what it can be |"
        yield "|---|---|"
        found = list(_from_decisions(spec))
        for place, (name, values) in enumerate(spec.labels):
            yield f"| `{name}` | {'<br>'.join([values, *(row[place] for row in found)])} |"
        yield ""
    if spec.buckets:
        yield f"Buckets: {', '.join(f'{bucket:g}' for bucket in spec.buckets)} seconds."
        yield ""


def _from_decisions(spec: MetricSpec) -> Iterator[list[str]]:
    """The label values with which decisions count in a metric, each with what it stands for."""
    for kind in DECISIONS:
        for counted in kind.METRICS:
            if counted.metric is spec and counted.labels:
                yield [f"`{value}`: {kind.meaning()}" for value in counted.labels]


if __name__ == "__main__":
    sys.stdout.write(page())
