"""Every metric by name: what it says, its labels and what those can be. docs/metrics.md is made from this.

Names end in their unit, counters in `_total`. No label holds the name of a claim, a pod, a node or a
device: the number of series must not grow with the cluster.
"""

from collections.abc import Iterable

from reconciler.analysis.capacity.profiles import MAX_PROFILES
from reconciler.control.decisions.decisions import DECISIONS, Decision
from reconciler.control.decisions.metric import COARSE, FINE, MetricSpec

MAX_DRIVERS = 64
"""Drivers with series of their own, those with most devices; the others are added up under `_other`."""
MAX_COUNTERS = 64
"""Counters of one driver that have series, the first by name; there are no series for others."""
OTHER = "_other"

_KIND = ("kind", "Kubernetes kind that is watched")


def metrics_of(kinds: Iterable[type[Decision]]) -> tuple[MetricSpec, ...]:
    """The metrics that decisions count in. They are declared where the decisions are."""
    return tuple(dict.fromkeys(counted.metric for kind in kinds for counted in kind.METRICS))


DECISION = MetricSpec(
    "decision_duration_seconds",
    "histogram",
    "Time to answer which devices claims get, without writing the answer. Exemplars name the decision.",
    (("result", "granted, refused, or gave_up where the bound on the search ended it"),),
    FINE,
)
REFUSALS = MetricSpec(
    "refusals_total",
    "counter",
    "Answers that claims cannot be met now.",
    (("reason", "reason of the refusal, as in logs"),),
)
PENDING = MetricSpec(
    "pending_claims",
    "gauge",
    "Claims that wait, by what they wait for.",
    (("reason", "reason of the refusal, as in logs"),),
)
DOCTOR = MetricSpec(
    "doctor_findings",
    "gauge",
    "What the doctor found in its last round, as `dra-reconciler doctor --cluster` shows it.",
    (("check", "id of the check, as in docs/doctor.md"), ("severity", "error, warning or info")),
)
DOCTOR_ROUNDS = MetricSpec("doctor_rounds_total", "counter", "Rounds of the doctor that came to an end.")
TURNS = MetricSpec("turns_total", "counter", "Turns of claims and pods that ended, however they did.")
FAILURES = MetricSpec(
    "turn_failures_total", "counter", "Turns that ended in an error nobody expected: a defect."
)

QUEUE = MetricSpec(
    "queue_depth",
    "gauge",
    "Claims and pods in the queue.",
    (("state", "due, or backing_off until a pause is over or something changes"),),
)
QUEUE_AGE = MetricSpec(
    "queue_oldest_age_seconds", "gauge", "For how long the first of the due ones could have begun."
)
RETRIES = MetricSpec(
    "queue_retries_total",
    "counter",
    "Times that a claim or pod was put back to be tried again after a pause.",
)

REQUESTS = MetricSpec(
    "api_requests_total",
    "counter",
    "Requests to the API server that ended, watches excepted.",
    (
        ("verb", "get, list, create, update, patch or delete"),
        ("resource", "resource, with its subresource, such as resourceclaims/status"),
        (
            "result",
            "ok, conflict, not_found, expired, denied, busy, rejected, server_error, unreachable where it "
            "was never sent, unanswered where nobody knows whether it was applied, or cancelled",
        ),
    ),
)
REQUEST_SECONDS = MetricSpec(
    "api_request_duration_seconds",
    "histogram",
    "Duration of requests to the API server, watches excepted.",
    (("verb", "as for api_requests_total"), ("resource", "as for api_requests_total")),
    COARSE,
)
WATCH_RESTARTS = MetricSpec(
    "watch_restarts_total",
    "counter",
    "Watches that were begun after another of the same kind.",
    (_KIND, ("reason", "how the one before ended: ended as asked, or failed")),
)
LISTINGS = MetricSpec("listings_total", "counter", "Times that all objects of a kind were listed.", (_KIND,))
CACHE_AGE = MetricSpec(
    "cache_age_seconds",
    "gauge",
    "Time since the API server last told anything about a kind; it sends a bookmark about every minute.",
    (_KIND,),
)
REFUSED_OBJECTS = MetricSpec(
    "refused_objects", "gauge", "Objects on the server that cannot be read and are left out.", (_KIND,)
)
DROPPED_FIELDS = MetricSpec(
    "dropped_fields", "gauge", "Different fields that the server dropped from allocations written to it."
)

LOOP_LAG = MetricSpec(
    "loop_lag_seconds", "histogram", "By how much a timer of the event loop was late.", buckets=FINE
)
LEADER = MetricSpec("leader", "gauge", "1 while this process may write, 0 while another does.")
RIVALS = MetricSpec(
    "shard_rivals",
    "gauge",
    "Live Leases of shards that overlap with this process's. Unless it is 0 nothing is decided here.",
)
DEVICES = MetricSpec(
    "devices",
    "gauge",
    "Devices of complete pools. They add up to what is published, which is more than fits at once where "
    "devices are partitions of one another.",
    (
        (
            "driver",
            f"driver, at most {MAX_DRIVERS}, the others as {OTHER}; of Koordinator's devices the type, as in "
            "koordinator.sh/gpu",
        ),
        (
            "state",
            "held, shared, allocatable, or blocked: free, but what it draws from or goes with is taken",
        ),
    ),
)
COUNTER_CAPACITY = MetricSpec(
    "counter_capacity",
    "gauge",
    "What the counter sets of a driver publish, in the counter's own unit.",
    (
        ("driver", f"driver, at most {MAX_DRIVERS}, and Koordinator's types"),
        (
            "counter",
            f"name of the counter, at most {MAX_COUNTERS} of a driver; of Koordinator's devices the "
            "resource, or virtual-functions",
        ),
    ),
)
COUNTER_AVAILABLE = MetricSpec(
    "counter_available",
    "gauge",
    "What of that is left; below zero where devices were held before their slice changed.",
    COUNTER_CAPACITY.labels,
)
PROFILE_FITS = MetricSpec(
    "profile_fits",
    "gauge",
    "How many more devices of a profile can be had at once beside all that is held, as docs/capacity.md "
    "says. At least so many, where the search gave up.",
    (
        ("driver", f"driver, at most {MAX_DRIVERS}, those with most devices"),
        ("profile", f"profile, at most {MAX_PROFILES} of a driver, the others as {OTHER}"),
    ),
)
PROFILE_FRAGMENTATION = MetricSpec(
    "profile_fragmentation_ratio",
    "gauge",
    "Part of the free counters that a profile cannot use, of those that limit it most. No series where "
    "nothing is free.",
    PROFILE_FITS.labels,
)
STRANDED = MetricSpec(
    "counter_stranded_ratio",
    "gauge",
    "Part of what is left that no device can use, of the driver's counter where it is largest.",
    PROFILE_FITS.labels[:1],
)
BUILD = MetricSpec(
    "build_info",
    "gauge",
    "Always 1.",
    (
        ("version", "of the program"),
        ("python", "version"),
        ("semantics", "Kubernetes release whose rules apply"),
    ),
)

CATALOGUE = (
    DECISION, *metrics_of(DECISIONS), REFUSALS, PENDING, DOCTOR, DOCTOR_ROUNDS, TURNS,
    FAILURES, QUEUE, QUEUE_AGE, RETRIES, REQUESTS, REQUEST_SECONDS, WATCH_RESTARTS, LISTINGS, CACHE_AGE,
    REFUSED_OBJECTS, DROPPED_FIELDS, LOOP_LAG, LEADER, RIVALS, DEVICES, COUNTER_CAPACITY, COUNTER_AVAILABLE,
    PROFILE_FITS, PROFILE_FRAGMENTATION, STRANDED, BUILD,
)  # fmt: skip
