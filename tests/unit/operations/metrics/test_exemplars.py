"""Exemplars connect buckets of histograms with decisions."""

from reconciler.operations.metrics.meters import EXEMPLARS, Meters


def exemplars(meters: Meters) -> dict[str, str]:
    """Bound of a bucket -> the decision that its exemplar names."""
    return {
        sample.labels["le"]: sample.exemplar.labels["decision_id"]
        for metric in meters.registry.collect()
        for sample in metric.samples
        if sample.exemplar
    }


def test_the_first_of_each_bucket_and_then_every_sixteenth_is_named():
    meters = Meters(process=False)
    for number in range(EXEMPLARS):
        meters.answered("", 0.0002, f"fast-{number}")
    meters.answered("", 0.2, "slow-0")
    assert exemplars(meters) == {"0.00025": "fast-0", "0.25": "slow-0"}
    meters.answered("", 0.0002, "fast-16")
    meters.answered("", 0.2, "slow-1")
    assert exemplars(meters) == {"0.00025": "fast-16", "0.25": "slow-0"}


def test_every_observation_counts():
    meters = Meters(process=False)
    for number in range(40):
        meters.answered("", 0.0002, f"d-{number}")
    name = "dra_reconciler_decision_duration_seconds_count"
    assert meters.registry.get_sample_value(name, {"result": "granted"}) == 40
