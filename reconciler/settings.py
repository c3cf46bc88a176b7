"""All settings: what each does, its unit, and the reason for its default.

Flags override the environment (`DRA_RECONCILER_` and the field's name), which overrides the file.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from reconciler.errors import Rejected

MAX_LENGTH = 2**20
"""Characters of a settings file."""
PREFIX = "DRA_RECONCILER_"
"""Of variables in the environment."""

PolicyName = Literal["first-fit", "best-fit", "spread", "least-loss", "fgd", "expected-fill"]

ConfigMapName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
]
"""`NAMESPACE/NAME`"""


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[frozenset[str], BeforeValidator(_split)]
"""Names, separated by commas in the environment."""


def _pairs(value: Any, everything: str = "") -> Any:
    """`NAME=VALUE`, several as a list or separated by commas. A value alone has the name `everything`."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        return value
    pairs = (str(text).strip().rpartition("=") for text in texts)
    return {name or everything: chosen for name, _, chosen in pairs}


T = TypeVar("T")
Pairs = Annotated[dict[str, T], BeforeValidator(_pairs)]
Policies = Annotated[dict[str, PolicyName], BeforeValidator(lambda value: _pairs(value, "*"))]


class Flag(NamedTuple):
    """A flag of `run` for a setting. Its help is the first sentence of the setting's text."""

    name: str = ""
    """Such as `--own-driver`; by default that of the setting"""
    metavar: str = "NAME"
    """What the value is, if it is text"""
    help: str = ""
    """Instead of the first sentence"""
    advanced: bool = False
    """Few need it: the help shows it only with `--help-all`"""


FLAG = Flag()
ADVANCED = Flag(advanced=True)


class Fixed(NamedTuple):
    """What no deployment needs to change, with the reason for each value."""

    shadow_pending_seconds: float = 30.0
    """In shadow mode: after how long a pending pod is reported whose claims we could have allocated. A
    shorter time would report the normal latency of the scheduler."""

    audit_seconds: float = 1.0
    """Minimum interval between two audits of held devices. An audit runs only after changes; a device that
    two claims hold is reported immediately."""

    demand_half_life_hours: float = 168.0
    """After how long a claim counts half in the learnt demand. A week: fleets often have a weekly rhythm."""

    policy_compare_seconds: float = 30.0
    """Minimum interval between two decisions that are repeated with every policy, to compare them. At most
    2 % of the time is spent on it. Only if a policy is not `first-fit`, or a demand is given."""

    rebalance_most_moves: int = 10
    """Most moves of one plan."""

    rebalance_moves_per_gain: int = 3
    """Most moves for one more of what is to fit. More is not worth the restarts."""

    rebalance_calm_seconds: float = 60.0
    """How long nothing must have changed before moves are planned. In a fleet that never rests, advice is
    renewed after ten times as long, and no pod is moved."""

    rebalance_max_priority: int = 0
    """Pods of a higher priority are never moved."""

    eviction_cooldown_seconds: float = 600.0
    """How long a pod is left alone after its start, so that what replaces an evicted pod stays."""

    nomination_seconds: float = 300.0
    """How long room is held for a pod after the latest eviction for it. Must exceed the time in which pods
    terminate. What replaces a moved pod may then take as long again until it runs."""

    hand_over_seconds: float = 60.0
    """How long a node is held for a pod with extended resources until kube-scheduler makes its claim."""

    writers: int = 32
    """Maximum number of parallel writes. A server needs about two milliseconds for a write, mostly for its
    disk; more parallel writes only queue up there."""

    backoff_base_seconds: float = 0.1
    """First back-off of a unit that failed or is pending. It doubles each time, less a jitter of up to half.
    Short, because most failures are conflicts, which are resolved once they are noticed."""

    backoff_cap_seconds: float = 60.0
    """Maximum back-off. Changes requeue pending units at once; this retry is only a safety net."""

    kueue_retry_seconds: float = 600.0
    """How long a Workload without room keeps its quota. Then it is given back, so that others may use it."""

    kueue_requeue_seconds: int = 60
    """How long Kueue waits then, before it reserves quota for the Workload again."""

    kueue_hold_seconds: float = 300.0
    """How long room is held for the pods of a Workload that was found to fit."""

    provisioning_patience_seconds: float = 60.0
    """How long pods must have waited before nodes are requested for them."""

    event_delay_seconds: float = 10.0
    """How long a claim or pod must be pending before an Event says so. Shorter delays are normal: controllers
    create claims from templates, and other claims are being written."""

    renew_seconds: float = 0.0
    retry_seconds: float = 0.0
    write_seconds: float = 0.0
    """0: they follow from the duration of the Lease."""

    drain_seconds: float = 25.0
    """How long writes in progress may take after SIGTERM. Up to 7 s for Events and the Lease follow. The pod
    must end within its grace period, which is 40 s in our manifests."""

    stalled_seconds: float = 60.0
    """/livez fails if work is queued and none of it was done for this time. It counts from the last answer of
    the server, so at least twice `write_seconds` is used."""


class Settings(BaseModel):
    """How the reconciler runs. Frozen; an unknown name is an error."""

    fixed: ClassVar[Fixed] = Fixed()
    """What is not a setting."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    server: str | None = None
    """URL of an API server that needs no credentials, such as `kubectl proxy`. None: use a kubeconfig."""

    kubeconfig: str | None = None
    """Path of a kubeconfig. None: the files of KUBECONFIG, as kubectl merges them; else ~/.kube/config; else
    the service account of the pod."""

    context: str | None = None
    """Context of the kubeconfig. None: its current one."""

    embedded: Annotated[bool, FLAG] = False
    """Start an API server in this process and reconcile against it. No other allocator uses it, so all its
    devices and claims are ours. Its port is that of `--port`, a free one by default."""

    mode: Annotated[Literal["allocate", "shadow"], FLAG] = "allocate"
    """`shadow` writes nothing: it compares its own decisions with those of the cluster's scheduler."""

    pause: Annotated[bool, ADVANCED] = False
    """Write nothing until the next start without it. Decisions continue; their writes are held back."""

    pause_config_map: Annotated[ConfigMapName | None, Flag(metavar="NAMESPACE/NAME", advanced=True)] = None
    """ConfigMap that stops all writes while its data contains `pause: "true"`. It is watched, and nothing is
    written before the first read. It need not exist."""

    all_claims: Annotated[bool, FLAG] = False
    """Allocate every claim. Otherwise only claims with the label `dra-reconciler.io/managed: "true"` and
    claims of pods with our scheduling gate; kube-scheduler allocates all others."""

    own_drivers: Annotated[Names, Flag("--own-driver")] = frozenset()
    """Drivers whose devices no other allocator allocates. The API protects a claim against two writers, but
    not a device; so without an owned driver or class nothing is written to a live cluster."""

    own_classes: Annotated[Names, Flag("--own-class")] = frozenset()
    """Device classes whose devices no other allocator allocates."""

    semantics: Literal["1.36", "1.37"] = "1.37"
    """The Kubernetes release whose rules apply, where releases differ."""

    group_modes: Pairs[Literal["kep-5963", "pairwise"]] = Field(default_factory=dict)
    """How compatibility groups are compared, by driver; `*` stands for all others. `kep-5963` is what
    Kubernetes does; `pairwise` is what the proposal of `compatibleOnlyWith` describes. Unset: `pairwise`
    for drivers whose devices say `compatibleOnlyWith`, `kep-5963` for all others."""

    exclusion_scopes: Pairs[Literal["counter-set", "pool"]] = Field(default_factory=dict)
    """Which pairs of devices `compatibleOnlyWith` judges, by driver; `*` stands for all others. `counter-set`
    (the default): pairs that share a counter set, and pairs of which one draws from none. `pool`: all
    pairs. Both apply within a pool and a node."""

    feature_gates: Annotated[str, Flag(metavar="A=BOOL,...", advanced=True)] = ""
    """Feature gates, as `A=true,B=false`. All others are on, unless they are previews, or off by default in
    the server's release: a server drops the fields of features that are off."""

    koordinator: Annotated[bool, FLAG] = False
    """Also allocate Koordinator's devices, from its Device objects, to gated pods that request them. Then no
    scheduler with Koordinator's DeviceShare plugin may allocate devices of the same nodes."""

    koordinator_semantics: Literal["proposal", "upstream"] = "proposal"
    """Whose rules apply where Koordinator's proposals and its release differ."""

    without_volumes: Annotated[bool, ADVANCED] = False
    """Do not look at the volumes of pods, and read no storage objects. For accounts without the right to read
    them: kube-scheduler may then refuse the node of a pod with volumes, and take its devices back."""

    make_templates: Annotated[bool, ADVANCED] = False
    """Make the templates that rewritten pods name, such as `gpu.nvidia.com-2`, in labelled namespaces. The
    label is `dra-reconciler.io/rewrite-resources: "true"`. Templates are never changed or deleted. Needs
    the right to create them; see docs/from-device-plugins.md."""

    hand_over_calm_seconds: float = Field(default=5.0, ge=0, le=300)
    """How old our last allocation on a node must be before a pod with extended resources goes there without
    its gate: kube-scheduler has seen it then. Longer where its watches lag."""

    resource_map: Path | None = None
    """File that says what extended resources stand for, as `--map` of `dra-reconciler migrate`. For
    `make_templates`; docs/from-device-plugins.md shows it."""

    policy: Policies = Field(default_factory=dict)
    """Which nodes and devices to prefer among those that fit, by driver, or by class as `class:NAME`; `*`
    stands for all others. A name alone, as `least-loss`, applies to all. `first-fit`, the default, is what
    Kubernetes does. docs/placement.md says which policy pays when."""

    preferences: Literal["first", "last", "off"] | None = None
    """When preferences of pods count: `first` before the policy, `last` between nodes that it finds equal.
    None: `last`, and `off` for claims that `first-fit` decides. See docs/placement.md."""

    demand: Path | None = None
    """File with the demand for which policies keep room, as JSON (docs/placement.md). None: it is learnt from
    the claims that this process sees, unless every policy is `first-fit`."""

    demand_config_map: ConfigMapName | None = None
    """Existing ConfigMap that keeps the learnt demand across restarts. The leader writes it, at most once a
    minute. None: a restart starts to learn anew."""

    search_steps: Annotated[int, Flag("--steps", advanced=True)] = Field(default=10_000, ge=1)
    """Devices that a decision tries on one node before it gives up there; ten times as many on all nodes
    together. It also bounds the work and memory of proofs that nothing fits. Steps instead of time: the
    result does not depend on the speed of the machine."""

    preemption: Annotated[Literal["off", "advise", "evict"], FLAG] = "off"
    """Whether pods of lower priority are evicted so that pending ones fit. `advise` shows plans; `evict`
    carries them out, by the Eviction API only. Off, because pods lose what they did. See
    docs/rebalancing.md."""

    preempting_classes: Annotated[Names, Flag("--preempting-class", advanced=True)] = frozenset()
    """PriorityClasses whose pods may have others evicted. None: nobody may."""

    rebalance: Annotated[Literal["off", "advise", "evict"], ADVANCED] = "advise"
    """Whether pods are moved so that more of the large devices fit. `advise` shows which moves would help, as
    `dra-reconciler defragment` does; `evict` moves pods that are opted in. Advice costs less than 1 % of a
    core, and nothing while nothing changes. See docs/rebalancing.md."""

    rebalance_goals: Annotated[str, Flag(metavar="GOAL,...", advanced=True)] = Field(
        default="90%", min_length=1
    )
    """What is to fit, separated by commas; the first goal that some moves reach comes first. `90%`: of the
    most that any moves could reach, for each kind of room that the fleet can strand; `7g.40gb=90%`: of
    this profile; `7g.40gb=4` or `node=2`: at least so many, `node` for nodes of which no device is held."""

    rebalance_namespaces: Names = frozenset()
    """Namespaces whose pods may be moved, but for pods with the label `dra-reconciler.io/movable: "false"`.
    In all other namespaces only pods with the label `dra-reconciler.io/movable: "true"` are moved."""

    evictions_per_minute: int = Field(default=6, ge=1)
    """Most evictions in a minute, and ten times as many in an hour."""

    eviction_request_seconds: Annotated[float, ADVANCED] = Field(default=0.0, ge=0, lt=300)
    """How long others get to end a pod gracefully before it is evicted, by EvictionRequests: a preview.
    0 asks nobody."""

    held_room_config_map: ConfigMapName | None = None
    """Existing ConfigMap in which the leader writes which room is held for what. Commands such as `explain`
    read it, and the next leader takes the room over. With shards, each needs its own. None: held room is
    known to the leader only, and ends with it."""

    kueue_check: Annotated[str, Flag(metavar="NAME", advanced=True)] = ""
    """Name of an AdmissionCheck of Kueue to answer: its Workloads are admitted once their pods have room.
    Empty: none. See docs/with-kueue.md."""

    provisioning_requests: Annotated[str, Flag(metavar="CLASS", advanced=True)] = ""
    """Class of ProvisioningRequests, such as `best-effort-atomic-scale-up.autoscaling.x-k8s.io`, to make for
    gated pods that no present node can serve, but a new node of a present kind could. Empty: none are
    made. See docs/with-autoscalers.md."""

    events: Annotated[bool, Flag("--no-events", help="Write no Events.", advanced=True)] = True
    """Write Events on claims and pods. At most ten a second, in the background; off saves the server these
    writes."""

    leader_elect: Annotated[bool, ADVANCED] = False
    """Elect a leader with a Lease: of several replicas only the leader writes. Off, because a single process
    needs no rights on Leases; deploy/ turns it on."""

    lease_namespace: Annotated[str, Flag(metavar="NAME", advanced=True)] = Field(
        default="kube-system", min_length=1
    )
    """Namespace of the Lease. All replicas and shards must use the same one."""

    lease_seconds: Annotated[float, Flag(name="--lease-duration", advanced=True)] = Field(default=15.0, gt=0)
    """Duration of the Lease after a renewal. The default is that of the components of Kubernetes. Shorter: a
    successor waits less; longer: leaders survive longer failures of the API server."""

    shard: Annotated[str, Flag(metavar="driver=NAME,pool-prefix=TEXT", advanced=True)] = ""
    """`driver=NAME,pool-prefix=TEXT`: the devices that this process allocates. For clusters that are too
    large for one process; each shard elects its own leader, and shards must not overlap."""

    status_address: Annotated[str, Flag(metavar="ADDRESS", advanced=True)] = "127.0.0.1"
    """Address that serves health, metrics and status. Other than on a loopback address, all paths except
    /livez and /readyz need a token, and TLS is on: with a temporary certificate unless files are set."""

    status_port: Annotated[int, FLAG] = Field(default=0, ge=0, le=65535)
    """Port of the status server. 0: any free port, which is logged, so that several processes can run on one
    machine."""

    status_token_file: Path | None = None
    """File with the token that clients must send. Reloaded when it changes."""

    status_token_review: bool = False
    """Let the cluster authorize clients, by TokenReview and by SubjectAccessReview for `get` on the path as a
    non-resource URL. Needs the rights of the cluster role system:auth-delegator."""

    status_tls_cert: Path | None = None
    """Certificate chain of the status server, PEM. Reloaded with the key when it changes."""

    status_tls_key: Path | None = None
    """Private key of the certificate, PEM."""

    status_what_if: bool = False
    """Serve what-if analysis, `POST /whatif`, and `POST /fit` (docs/how-many-fit.md) on the status port. Off,
    because a request needs memory and CPU time, most when it contains slices. It never writes."""

    doctor_seconds: float = Field(default=300.0, ge=0)
    """Interval between two runs of the doctor. Its findings become metrics; those about pools also become
    Events. It runs as a separate process, which needs a few hundred MiB for ten thousand devices. 0: off."""

    journal: Annotated[str | None, Flag(metavar="DIR")] = None
    """Directory of a journal with all decisions and their input: `dra-reconciler replay` repeats them. At
    most 16 files of about 64 MiB before compression. None: no journal."""

    keep_hard_questions: Annotated[str | None, Flag(metavar="DIR", advanced=True)] = None
    """Folder for questions that a search gave up (`SearchGaveUp`). At most 64 files with the claims, one
    node, its slices and held devices: `dra-reconciler allocate -f FILE` asks them again. None: none kept."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], FLAG] = "info"
    """Minimum level of log lines. Decisions are `info`, requests to the server are `debug`."""

    @property
    def renew_seconds(self) -> float:
        """The leader steps down if it could not renew the Lease for this time."""
        return self.fixed.renew_seconds or self.lease_seconds * 2 / 3

    @property
    def retry_seconds(self) -> float:
        """Interval between two attempts to renew the Lease; a standby looks twice as often."""
        return self.fixed.retry_seconds or self.lease_seconds / (10 if self.lease_seconds < 15 else 7.5)

    @property
    def write_seconds(self) -> float:
        """Timeout of a write. A successor waits for it, too, so a shorter Lease shortens it."""
        return self.fixed.write_seconds or (self.lease_seconds / 2 if self.lease_seconds < 15 else 10.0)


REMOVED: dict[str, str] = {
    **{name: f"it is always {value:g}" for name, value in Fixed()._asdict().items() if "hand" not in name},
    **dict.fromkeys(("renew_seconds", "retry_seconds", "write_seconds"), "it follows from --lease-duration"),
    "embedded_port": "give --port to `run --embedded`",
    "eviction_dry_run": "set preemption and rebalance to advise",
    "evictions_per_hour": "it is ten times evictions_per_minute",
    "insecure_skip_tls_verify": "write insecure-skip-tls-verify into the kubeconfig",
    "log_format": "lines are text on a terminal, JSON elsewhere; dra-reconciler logs shows JSON as text",
    "no_earlier_leader": "the first leader waits once, for 25.5 seconds by default",
    "policy_seed": "it is always 0",
    "status_fit": "status_what_if covers it",
    "traces": "traces are on where OTEL_EXPORTER_OTLP_ENDPOINT is set",
}
"""Settings of 0.3.0 -> what to do without them"""


def load(flags: Mapping[str, Any], file: Path | None, variables: Mapping[str, str] | None = None) -> Settings:
    """Settings from flags, the environment and a YAML file. `variables` stand for another environment.

    Raises Rejected with a line for each wrong one, which names it as the user wrote it.
    """
    from_file = _read(file) if file is not None else {}
    given = {name.upper(): value for name, value in (os.environ if variables is None else variables).items()}
    spellings = {name: f"{PREFIX}{name.upper()}" for name in (*Settings.model_fields, *REMOVED)}
    from_environment = {name: given[key] for name, key in spellings.items() if key in given}
    try:
        return Settings(**{**from_file, **from_environment, **flags})
    except ValidationError as exc:
        problems = []
        for problem in exc.errors(include_url=False, include_context=False):
            name, *below = map(str, problem["loc"])
            if name in flags:
                spelled = flag_of(name)
            elif name in from_environment:
                spelled = spellings[name]
            else:
                spelled = f"{name} in {file}"
            where = ".".join([spelled, *below])
            if name in REMOVED:
                problems.append(f"setting {where} was removed in 0.4.0: {REMOVED[name]}")
            elif problem["type"] == "extra_forbidden":
                close = get_close_matches(name, Settings.model_fields, n=1)
                problems.append(f"unknown setting {where}" + (f"; did you mean {close[0]}?" if close else ""))
            else:
                problems.append(f"setting {where}: {problem['msg']}, got {problem['input']!r}")
        raise Rejected("\n".join(problems)) from exc


def flag_of(name: str) -> str:
    """The flag of `run` for a setting, such as `--own-driver`."""
    plain = f"--{name.replace('_', '-')}"
    own = next((one for one in Settings.model_fields[name].metadata if isinstance(one, Flag)), None)
    if own is None:  # an option of several commands, singular if it can be repeated
        return plain.removesuffix("s")
    return own.name or plain


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open(encoding="utf-8") as text:
            content = text.read(MAX_LENGTH + 1)
        values = yaml.safe_load(content) if len(content) <= MAX_LENGTH else None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as exc:
        raise Rejected(f"settings file {file}: {exc}") from exc
    if len(content) > MAX_LENGTH:
        raise Rejected(f"settings file {file}: is longer than {MAX_LENGTH} characters")
    if not isinstance(values, dict | None):
        raise Rejected(f"settings file {file}: must be a mapping of names to values")
    return values or {}
