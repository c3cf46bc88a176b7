"""Our histograms are scraped as those of the Prometheus client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Twin
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics

from reconciler.control.decisions.metric import FINE, MetricSpec
from reconciler.operations.metrics.histogram import Histogram
from tests.tools.examples import examples

PLAIN = MetricSpec("waits_seconds", "histogram", "Times.", buckets=FINE)
LABELLED = MetricSpec("waits_seconds", "histogram", "Times.", (("verb", "any"), ("of", "any")), buckets=FINE)
VALUES = st.one_of(st.sampled_from([0.0, *FINE, 3.0]), st.floats(0.0, 4.0))


def samples(registry: CollectorRegistry) -> list[object]:
    """All samples but the moments at which series were made, which we leave out."""
    return [
        sample
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    ]


def twin(spec: MetricSpec, registry: CollectorRegistry) -> Twin:
    return Twin(spec.full_name, spec.help, spec.label_names, buckets=spec.buckets, registry=registry)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), VALUES), max_size=30))
@examples(60)
def test_samples_are_those_of_the_client(observed: list[tuple[str, str, float]]):
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    labelled, of_client = Histogram(LABELLED, ours), twin(LABELLED, theirs)
    for verb, of, value in observed:
        labelled.labels(verb, of).observe(value)
        of_client.labels(verb, of).observe(value)
    assert samples(ours) == samples(theirs)


@pytest.mark.parametrize("encode", [generate_latest, openmetrics], ids=["text", "OpenMetrics"])
def test_the_text_of_a_scrape_is_that_of_the_client(encode: object):
    assert callable(encode)
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    plain, of_client = Histogram(PLAIN, ours), twin(PLAIN, theirs)
    for value in (0.0001, 0.2, 9.0):
        plain.labels().observe(value)
        of_client.observe(value)
    lines = [line for line in encode(theirs).splitlines() if b"_created" not in line]
    assert encode(ours).splitlines() == lines


def test_a_metric_is_declared_once():
    registry = CollectorRegistry()
    Histogram(PLAIN, registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Histogram(PLAIN, registry)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"verb.*of"):
        Histogram(LABELLED, CollectorRegistry()).labels("get")
