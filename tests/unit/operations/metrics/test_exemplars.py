"""Exemplars connect buckets of histograms with decisions."""

from reconciler.operations.metrics.meters import Meters


def test_the_latest_decision_of_each_bucket_is_named_and_every_one_counts():
    meters = Meters(process=False)
    for number in range(40):
        meters.answered("", 0.0002, f"fast-{number}")
    meters.answered("", 0.2, "slow-0")
    named = {
        sample.labels["le"]: sample.exemplar.labels["decision_id"]
        for metric in meters.registry.collect()
        for sample in metric.samples
        if sample.exemplar
    }
    assert named == {"0.00025": "fast-39", "0.25": "slow-0"}
    name = "dra_reconciler_decision_duration_seconds_count"
    assert meters.registry.get_sample_value(name, {"result": "granted"}) == 41
