"""Every metric: name, help text, labels and their values. docs/metrics.md is generated from it.

Names end with the unit, names of counters with `_total`. No label holds the name of a claim, a pod, a node or
a device: the number of series must not grow with the cluster.
"""

from collections.abc import Iterable

from reconciler.control.decisions.declaration import COARSE, FINE, Decision, MetricSpec
from reconciler.control.decisions.every import DECISIONS

MAX_DRIVERS = 64
"""Drivers with their own series, those with most devices. All others are summed up as `_other`."""
MAX_COUNTERS = 64
"""Counters of one driver that have series: the first ones by name. Other counters have none."""
MAX_NAMESPACES = 32
"""Namespaces with their own series, those with most pending claims. All others are summed up as `_other`."""
OTHER = "_other"

_KIND = ("kind", "kind")


def metrics_of(kinds: Iterable[type[Decision]]) -> tuple[MetricSpec, ...]:
    """The metrics that decisions are counted in. The classes of decisions declare them."""
    return tuple(dict.fromkeys(counted.metric for kind in kinds for counted in kind.METRICS))


DECISION = MetricSpec(
    "decision_duration_seconds",
    "Time of a decision, without its write.",
    (("result", "granted, refused or gave_up"),),
    FINE,
)
REFUSALS = MetricSpec(
    "refusals_total", "Decisions that claims cannot be allocated now.", (("reason", "as in docs/reasons.md"),)
)
PENDING = MetricSpec(
    "pending_claims", "Pending claims by reason.", (("reason", "as in docs/reasons.md"),), by_leader=True
)
PENDING_IN = MetricSpec(
    "pending_claims_by_namespace",
    "Pending claims by namespace.",
    (("claim_namespace", "namespace of the claims, for the 32 with most pending claims; or _other"),),
    by_leader=True,
)
HELD_ROOM = MetricSpec(
    "held_room_devices",
    "Devices of held room, by what it is held for.",
    (("nominee", "claim, pod, gang, workload or replacement"),),
    by_leader=True,
)
ROOM_ADVICE = MetricSpec(
    "room_advice",
    "Pending pods and gangs that may preempt, by the latest plan.",
    (("result", "possible; advice_only if only a person may evict; none"),),
    by_leader=True,
)
MOVES_GAIN = MetricSpec(
    "moves_gain",
    "How much more fits after the advised moves.",
    (("goal", "as in the setting rebalance_goals"),),
    by_leader=True,
)
MOVES_ADVISED = MetricSpec(
    "moves_advised",
    "Pods that are advised to be moved.",
    (("goal", "as in the setting rebalance_goals"),),
    by_leader=True,
)
DOCTOR = MetricSpec(
    "doctor_findings",
    "Findings of the last doctor run.",
    (("check", "id of the check, as in docs/doctor.md"), ("severity", "error, warning or info")),
)
DOCTOR_ROUNDS = MetricSpec("doctor_rounds_total", "Completed doctor runs.")
POLICY_CHOICES = MetricSpec(
    "policy_comparisons_total",
    "Sampled decisions that were repeated with every placement policy.",
    (("policy", "policy"), ("choice", "same, other devices (on the same node) or other node")),
)
POLICY_PLACES_LOST = MetricSpec(
    "policy_places_lost_total",
    "Places for claims of the demand, as a weighted mean, that a policy would have cost.",
    (("policy", "policy"),),
)
DEMAND_SHAPES = MetricSpec("demand_shapes", "Shapes of claims for which policies keep room.")
TURNS = MetricSpec("turns_total", "Completed reconciles of claims and pods, successful or not.")
FAILURES = MetricSpec("turn_failures_total", "Reconciles that failed with an internal error (please report).")

QUEUE = MetricSpec(
    "queue_depth",
    "Claims and pods in the queue.",
    (("state", "due, or backing_off until the back-off ends or the object changes"),),
)
QUEUE_AGE = MetricSpec(
    "queue_oldest_age_seconds", "Time since the oldest due claim or pod could have been reconciled."
)
RETRIES = MetricSpec("queue_retries_total", "Times that a claim or pod was requeued with back-off.")

REQUESTS = MetricSpec(
    "api_requests_total",
    "Completed requests to the API server, without watches.",
    (
        ("verb", "get, list, create, update, patch or delete"),
        ("resource", "with its subresource, such as resourceclaims/status"),
        (
            "result",
            "ok, conflict, not_found, expired, denied, busy, rejected, server_error, unreachable (not sent), "
            "unanswered (may be applied) or cancelled",
        ),
    ),
)
REQUEST_SECONDS = MetricSpec(
    "api_request_duration_seconds",
    "Duration of requests to the API server, without watches.",
    (("verb", "verb"), ("resource", "resource")),
    COARSE,
)
WATCH_RESTARTS = MetricSpec(
    "watch_restarts_total", "Restarts of watches.", (_KIND, ("reason", "ended by its timeout, or failed"))
)
LISTINGS = MetricSpec("listings_total", "Lists of all objects of a kind.", (_KIND,))
CACHE_AGE = MetricSpec(
    "cache_age_seconds", "Time since the last event of a kind. Bookmarks come about every minute.", (_KIND,)
)
REFUSED_OBJECTS = MetricSpec(
    "refused_objects", "Objects on the API server that cannot be read and are ignored.", (_KIND,)
)
DROPPED_FIELDS = MetricSpec(
    "dropped_fields", "Distinct fields that the API server dropped from written allocations."
)

LOOP_LAG = MetricSpec("loop_lag_seconds", "Delay of a timer of the event loop.", buckets=FINE)
PROOF_STATES = MetricSpec(
    "proof_states",
    "States of GPUs whose fitting partitions are kept for proofs.",
    (("part", "kept, or limit: how many are kept at most"),),
)
LEADER = MetricSpec(
    "leader",
    "1 if this process may write, otherwise 0.",
    (("lease", "the Lease of the shard; empty without leader election"),),
)
RIVALS = MetricSpec("shard_rivals", "Live Leases of overlapping shards; this process allocates only at 0.")
DEVICES = MetricSpec(
    "devices",
    "Devices of complete pools.",
    (
        ("driver", "driver; for Koordinator's devices the type, such as koordinator.sh/gpu"),
        ("state", "held, shared, allocatable, tainted or blocked, as in docs/capacity.md"),
    ),
    by_leader=True,
)
PHYSICAL = MetricSpec(
    "physical_devices",
    "Physical devices: counter sets, and devices without counters.",
    (("driver", "driver"), ("state", "full if nothing more fits, or open")),
    by_leader=True,
)
USE = MetricSpec(
    "use_ratio",
    "Share of physical devices that claims hold, as on the page.",
    (("driver", "driver"),),
    by_leader=True,
)
COUNTER_CAPACITY = MetricSpec(
    "counters_capacity",
    "Total of a counter of a driver, in its unit.",
    (("driver", "driver"), ("counter", "counter")),
    by_leader=True,
)
COUNTER_AVAILABLE = MetricSpec(
    "counters_available",
    "Available part of counters_capacity. Negative if a slice changed while its devices were held.",
    COUNTER_CAPACITY.labels,
    by_leader=True,
)
PROFILE_FITS = MetricSpec(
    "profile_fits",
    "How many more devices of a profile fit at the same time (docs/capacity.md), or a lower bound.",
    (("driver", "driver"), ("profile", "profile")),
    by_leader=True,
)
PROFILE_FRAGMENTATION = MetricSpec(
    "profile_fragmentation_ratio",
    "Part of the available counters that a profile cannot use.",
    PROFILE_FITS.labels,
    by_leader=True,
)
STRANDED = MetricSpec(
    "counters_stranded_ratio",
    "Part of an available counter that no device can use: the driver's highest.",
    PROFILE_FITS.labels[:1],
    by_leader=True,
)
CLAIMS = MetricSpec(
    "claims",
    "ResourceClaims of this shard, of any allocator.",
    (("state", "allocated or unallocated"),),
    by_leader=True,
)
OLDEST_PENDING = MetricSpec(
    "oldest_pending_claim_timestamp_seconds",
    "When the oldest claim that is ours to allocate was created, in seconds since 1970.",
    by_leader=True,
)
SLICES = MetricSpec(
    "slices",
    "ResourceSlices of this shard.",
    (
        (
            "node_selection",
            "node_name, node_selector, all_nodes, per_device if each device selects its own nodes, or none",
        ),
    ),
    by_leader=True,
)
BUILD = MetricSpec(
    "build_info",
    "Constant 1; the labels describe the build.",
    (
        ("version", "version of dra-reconciler"),
        ("python", "version of Python"),
        ("semantics", "Kubernetes release whose allocation rules apply"),
    ),
)

CATALOGUE = (
    DECISION, *metrics_of(DECISIONS), REFUSALS, PENDING, PENDING_IN, HELD_ROOM, ROOM_ADVICE,
    MOVES_GAIN, MOVES_ADVISED,
    DOCTOR, DOCTOR_ROUNDS, POLICY_CHOICES,
    POLICY_PLACES_LOST, DEMAND_SHAPES, TURNS,
    FAILURES, QUEUE, QUEUE_AGE, RETRIES, REQUESTS, REQUEST_SECONDS, WATCH_RESTARTS, LISTINGS, CACHE_AGE,
    REFUSED_OBJECTS, DROPPED_FIELDS, LOOP_LAG, PROOF_STATES, LEADER, RIVALS, DEVICES, PHYSICAL, USE,
    COUNTER_CAPACITY, COUNTER_AVAILABLE,
    PROFILE_FITS, PROFILE_FRAGMENTATION, STRANDED, CLAIMS, OLDEST_PENDING, SLICES, BUILD,
)  # fmt: skip
