"""Every metric: name, help text, labels and their values. docs/metrics.md is generated from it.

Names end with the unit, names of counters with `_total`. No label holds the name of a claim, a pod, a node or
a device: the number of series must not grow with the cluster.
"""

from collections.abc import Iterable
from functools import partial

from reconciler.control.decisions.declaration import COARSE, FINE, Decision, MetricSpec, metric
from reconciler.control.decisions.every import DECISIONS

MAX_DRIVERS = 64
"""Drivers with their own series, those with most devices. All others are summed up as `_other`."""
MAX_COUNTERS = 64
"""Counters of one driver that have series: the first ones by name. Other counters have none."""
MAX_NAMESPACES = 32
"""Namespaces with their own series, those with most pending claims. All others are summed up as `_other`."""
OTHER = "_other"


def metrics_of(kinds: Iterable[type[Decision]]) -> tuple[MetricSpec, ...]:
    """The metrics that decisions are counted in. The classes of decisions declare them."""
    return tuple(dict.fromkeys(counted.metric for kind in kinds for counted in kind.METRICS))


leaders = partial(metric, by_leader=True)
"""A metric of which only the leader has series"""

DECISION = metric(
    "decision_duration_seconds",
    "Time of a decision, without its write.",
    result="granted, refused or gave_up",
    buckets=FINE,
)
REFUSALS = metric(
    "refusals_total", "Decisions that claims cannot be allocated now.", reason="as in docs/reasons.md"
)
PENDING = leaders("pending_claims", "Pending claims by reason.", reason="as in docs/reasons.md")
PENDING_IN = leaders(
    "pending_claims_by_namespace",
    "Pending claims by namespace.",
    claim_namespace="namespace of the claims, for the 32 with most pending claims; or _other",
)
HELD_ROOM = leaders(
    "held_room_devices",
    "Devices of held room, by what it is held for.",
    nominee="claim, pod, gang, workload or replacement",
)
ROOM_ADVICE = leaders(
    "room_advice",
    "Pending pods and gangs that may preempt, by the latest plan.",
    result="possible; advice_only if only a person may evict; none",
)
MOVES_GAIN = leaders(
    "moves_gain", "How much more fits after the advised moves.", goal="as in the setting rebalance_goals"
)
MOVES_ADVISED = leaders(
    "moves_advised", "Pods that are advised to be moved.", goal="as in the setting rebalance_goals"
)
DOCTOR = metric(
    "doctor_findings",
    "Findings of the last doctor run.",
    check="id of the check, as in docs/doctor.md",
    severity="error, warning or info",
)
DOCTOR_ROUNDS = metric("doctor_rounds_total", "Completed doctor runs.")
POLICY_CHOICES = metric(
    "policy_comparisons_total",
    "Sampled decisions that were repeated with every placement policy.",
    policy="policy",
    choice="same, other devices (on the same node) or other node",
)
POLICY_PLACES_LOST = metric(
    "policy_places_lost_total",
    "Places for claims of the demand, as a weighted mean, that a policy would have cost.",
    policy="policy",
)
DEMAND_SHAPES = metric("demand_shapes", "Shapes of claims for which policies keep room.")
TURNS = metric("turns_total", "Completed reconciles of claims and pods, successful or not.")
FAILURES = metric("turn_failures_total", "Reconciles that failed with an internal error (please report).")

QUEUE = metric(
    "queue_depth",
    "Claims and pods in the queue.",
    state="due, or backing_off until the back-off ends or the object changes",
)
QUEUE_AGE = metric(
    "queue_oldest_age_seconds", "Time since the oldest due claim or pod could have been reconciled."
)
RETRIES = metric("queue_retries_total", "Times that a claim or pod was requeued with back-off.")

REQUESTS = metric(
    "api_requests_total",
    "Completed requests to the API server, without watches.",
    verb="get, list, create, update, patch or delete",
    resource="with its subresource, such as resourceclaims/status",
    result="ok, conflict, not_found, expired, denied, busy, rejected, server_error, unreachable (not sent), "
    "unanswered (may be applied) or cancelled",
)
REQUEST_SECONDS = metric(
    "api_request_duration_seconds",
    "Duration of requests to the API server, without watches.",
    verb="verb",
    resource="resource",
    buckets=COARSE,
)
WATCH_RESTARTS = metric(
    "watch_restarts_total", "Restarts of watches.", kind="kind", reason="ended by its timeout, or failed"
)
LISTINGS = metric("listings_total", "Lists of all objects of a kind.", kind="kind")
CACHE_AGE = metric(
    "cache_age_seconds",
    "Time since the last event of a kind. Bookmarks come about every minute.",
    kind="kind",
)
REFUSED_OBJECTS = metric(
    "refused_objects", "Objects on the API server that cannot be read and are ignored.", kind="kind"
)
DROPPED_FIELDS = metric(
    "dropped_fields", "Distinct fields that the API server dropped from written allocations."
)

LOOP_LAG = metric("loop_lag_seconds", "Delay of a timer of the event loop.", buckets=FINE)
PROOF_STATES = metric(
    "proof_states",
    "States of GPUs whose fitting partitions are kept for proofs.",
    part="kept, or limit: how many are kept at most",
)
LEADER = metric(
    "leader",
    "1 if this process may write, otherwise 0.",
    lease="the Lease of the shard; empty without leader election",
)
RIVALS = metric("shard_rivals", "Live Leases of overlapping shards; this process allocates only at 0.")
DEVICES = leaders(
    "devices",
    "Devices of complete pools.",
    driver="driver; for Koordinator's devices the type, such as koordinator.sh/gpu",
    state="held, shared, allocatable, tainted or blocked, as in docs/capacity.md",
)
PHYSICAL = leaders(
    "physical_devices",
    "Physical devices: counter sets, and devices without counters.",
    driver="driver",
    state="full if nothing more fits, or open",
)
USE = leaders("use_ratio", "Share of physical devices that claims hold, as on the page.", driver="driver")
COUNTER_CAPACITY = leaders(
    "counters_capacity", "Total of a counter of a driver, in its unit.", driver="driver", counter="counter"
)
COUNTER_AVAILABLE = leaders(
    "counters_available",
    "Available part of counters_capacity. Negative if a slice changed while its devices were held.",
    driver="driver",
    counter="counter",
)
PROFILE_FITS = leaders(
    "profile_fits",
    "How many more devices of a profile fit at the same time (docs/capacity.md), or a lower bound.",
    driver="driver",
    profile="profile",
)
PROFILE_FRAGMENTATION = leaders(
    "profile_fragmentation_ratio",
    "Part of the available counters that a profile cannot use.",
    driver="driver",
    profile="profile",
)
STRANDED = leaders(
    "counters_stranded_ratio",
    "Part of an available counter that no device can use: the driver's highest.",
    driver="driver",
)
CLAIMS = leaders(
    "claims", "ResourceClaims of this shard, of any allocator.", state="allocated or unallocated"
)
OLDEST_PENDING = leaders(
    "oldest_pending_claim_timestamp_seconds",
    "When the oldest claim that is ours to allocate was created, in seconds since 1970.",
)
SLICES = leaders(
    "slices",
    "ResourceSlices of this shard.",
    node_selection="node_name, node_selector, all_nodes, per_device if each device selects its own nodes, "
    "or none",
)
BUILD = metric(
    "build_info",
    "Constant 1; the labels describe the build.",
    version="version of dra-reconciler",
    python="version of Python",
    semantics="Kubernetes release whose allocation rules apply",
)

CATALOGUE = (
    DECISION,
    *metrics_of(DECISIONS),
    *(spec for spec in list(globals().values()) if isinstance(spec, MetricSpec) and spec is not DECISION),
)
