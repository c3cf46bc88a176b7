"""All settings: what each does, its unit, and the reason for its default.

Flags override the environment (`DRA_RECONCILER_` and the field's name), which overrides the file.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import yaml
from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from reconciler.errors import Rejected

MAX_LENGTH = 2**20
"""Characters of a settings file."""

PolicyName = Literal["first-fit", "best-fit", "spread", "least-loss", "fgd", "expected-fill"]

ConfigMapName = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")
]
"""`NAMESPACE/NAME`"""


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Names = Annotated[frozenset[str], NoDecode, BeforeValidator(_split)]
"""Names, separated by commas in the environment."""


def _pairs(value: Any, everything: str = "") -> Any:
    """`NAME=VALUE`, several as a list or separated by commas. A value alone has the name `everything`."""
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        return value
    pairs = (str(text).strip().rpartition("=") for text in texts)
    return {name or everything: chosen for name, _, chosen in pairs}


T = TypeVar("T")
Pairs = Annotated[dict[str, T], NoDecode, BeforeValidator(_pairs)]
Policies = Annotated[dict[str, PolicyName], NoDecode, BeforeValidator(lambda value: _pairs(value, "*"))]


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


class Settings(BaseSettings):
    """How the reconciler runs. Frozen; an unknown name is an error."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="DRA_RECONCILER_", use_attribute_docstrings=True
    )

    server: str | None = None
    """URL of an API server that needs no credentials, such as `kubectl proxy`. None: use a kubeconfig."""

    kubeconfig: str | None = None
    """Path of a kubeconfig. None: the files of KUBECONFIG, as kubectl merges them; else ~/.kube/config; else
    the service account of the pod."""

    context: str | None = None
    """Context of the kubeconfig. None: its current one."""

    insecure_skip_tls_verify: bool = False
    """Accept any certificate of the API server. Without this setting, a kubeconfig that disables the check is
    an error: a line in a copied file must not be enough to allow a man in the middle."""

    embedded: Annotated[bool, FLAG] = False
    """Start an API server in this process and reconcile against it. No other allocator uses it, so all its
    devices and claims are ours."""

    mode: Annotated[Literal["allocate", "shadow"], FLAG] = "allocate"
    """`shadow` writes nothing: it compares its own decisions with those of the cluster's scheduler."""

    shadow_pending_seconds: float = Field(default=30.0, gt=0)
    """In shadow mode: after how long a pending pod is reported whose claims we could have allocated. A
    shorter time would report the normal latency of the scheduler."""

    pause: Annotated[bool, ADVANCED] = False
    """Write nothing until the next start without it. Decisions continue; their writes are held back."""

    pause_config_map: Annotated[ConfigMapName | None, Flag(metavar="NAMESPACE/NAME", advanced=True)] = None
    """ConfigMap that stops all writes while its data contains `pause: "true"`. It is watched, and nothing is
    written before the first read. It need not exist."""

    audit_seconds: float = Field(default=1.0, gt=0)
    """Minimum interval between two audits of held devices. An audit runs only after changes; a device that
    two claims hold is reported immediately."""

    embedded_port: Annotated[int, Flag("--port", advanced=True)] = Field(default=0, ge=0, le=65535)
    """Port of the embedded server. 0: any free port, which is printed. It is not called `port`, because
    Kubernetes sets DRA_RECONCILER_PORT in every pod next to a Service named dra-reconciler."""

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
    """Feature gates, as `A=true,B=false`. All others are on, unless they are off by default in the server's
    release: a server drops the fields of features that are off."""

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

    policy_seed: int = Field(default=0, ge=0)
    """Start of the random numbers of `expected-fill`. Equal seeds give equal decisions."""

    demand: Path | None = None
    """File with the demand for which policies keep room, as JSON (docs/placement.md). None: it is learnt from
    the claims that this process sees, unless every policy is `first-fit`."""

    demand_half_life_hours: float = Field(default=168.0, gt=0)
    """After how long a claim counts half in the learnt demand. A week: fleets often have a weekly rhythm."""

    demand_config_map: ConfigMapName | None = None
    """Existing ConfigMap that keeps the learnt demand across restarts. The leader writes it, at most once a
    minute. None: a restart starts to learn anew."""

    policy_compare_seconds: float = Field(default=30.0, ge=0)
    """Minimum interval between two decisions that are repeated with every policy, to compare them. At most
    2 % of the time is spent on it. Only if a policy is not `first-fit`, or a demand is given. 0: off."""

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

    rebalance_max_priority: int = 0
    """Pods of a higher priority are never moved."""

    rebalance_most_moves: int = Field(default=10, ge=1, le=1000)
    """Most moves of one plan."""

    rebalance_moves_per_gain: int = Field(default=3, ge=1)
    """Most moves for one more of what is to fit. More is not worth the restarts."""

    rebalance_calm_seconds: float = Field(default=60.0, gt=0)
    """How long nothing must have changed before moves are planned. In a fleet that never rests, advice is
    renewed after ten times as long, and no pod is moved."""

    evictions_per_minute: int = Field(default=6, ge=1)
    """Most evictions in a minute: a mistake in a PriorityClass should not empty a cluster."""

    evictions_per_hour: int = Field(default=60, ge=1)
    """Most evictions in an hour, for both."""

    eviction_cooldown_seconds: float = Field(default=600.0, ge=0)
    """How long a pod is left alone after its start, so that what replaces an evicted pod stays."""

    eviction_dry_run: Annotated[bool, ADVANCED] = False
    """Record plans in log and journal, but evict nothing and hold no room."""

    nomination_seconds: float = Field(default=300.0, gt=0)
    """How long room is held for a pod after the latest eviction for it. Must exceed the time in which pods
    terminate. What replaces a moved pod may then take as long again until it runs."""

    held_room_config_map: ConfigMapName | None = None
    """Existing ConfigMap in which the leader writes which room is held for what. Commands such as `explain`
    read it, and the next leader takes the room over. With shards, each needs its own. None: held room is
    known to the leader only, and ends with it."""

    hand_over_seconds: float = Field(default=60.0, gt=0)
    """How long a node is held for a pod with extended resources until kube-scheduler makes its claim."""

    hand_over_calm_seconds: float = Field(default=5.0, ge=0)
    """How old our last allocation there must be before its gate goes: kube-scheduler has seen it then."""

    writers: int = Field(default=32, ge=1)
    """Maximum number of parallel writes. A server needs about two milliseconds for a write, mostly for its
    disk; more parallel writes only queue up there."""

    write_seconds: float = Field(default=10.0, gt=0)
    """Timeout of a write."""

    backoff_base_seconds: float = Field(default=0.1, gt=0)
    """First back-off of a unit that failed or is pending. It doubles each time, less a jitter of up to half.
    Short, because most failures are conflicts, which are resolved once they are noticed."""

    backoff_cap_seconds: float = Field(default=60.0, gt=0)
    """Maximum back-off. Changes requeue pending units at once; this retry is only a safety net."""

    kueue_check: Annotated[str, Flag(metavar="NAME", advanced=True)] = ""
    """Name of an AdmissionCheck of Kueue to answer: its Workloads are admitted once their pods have room.
    Empty: none. See docs/with-kueue.md."""

    kueue_retry_seconds: float = Field(default=600.0, gt=0)
    """How long a Workload without room keeps its quota. Then it is given back, so that others may use it."""

    kueue_requeue_seconds: int = Field(default=60, ge=0)
    """How long Kueue waits then, before it reserves quota for the Workload again."""

    kueue_hold_seconds: float = Field(default=300.0, gt=0)
    """How long room is held for the pods of a Workload that was found to fit."""

    provisioning_requests: Annotated[str, Flag(metavar="CLASS", advanced=True)] = ""
    """Class of ProvisioningRequests, such as `best-effort-atomic-scale-up.autoscaling.x-k8s.io`, to make for
    gated pods that no present node can serve, but a new node of a present kind could. Empty: none are
    made. See docs/with-autoscalers.md."""

    provisioning_patience_seconds: float = Field(default=60.0, ge=0)
    """How long pods must have waited before nodes are requested for them."""

    events: Annotated[bool, Flag("--no-events", help="Write no Events.", advanced=True)] = True
    """Write Events on claims and pods. At most ten a second, in the background; off saves the server these
    writes."""

    event_delay_seconds: float = Field(default=10.0, ge=0)
    """How long a claim or pod must be pending before an Event says so. Shorter delays are normal: controllers
    create claims from templates, and other claims are being written."""

    leader_elect: Annotated[bool, ADVANCED] = False
    """Elect a leader with a Lease: of several replicas only the leader writes. Off, because a single process
    needs no rights on Leases; deploy/ turns it on."""

    lease_namespace: Annotated[str, Flag(metavar="NAME", advanced=True)] = Field(
        default="kube-system", min_length=1
    )
    """Namespace of the Lease. All replicas and shards must use the same one."""

    lease_seconds: Annotated[float, Flag(name="--lease-duration", advanced=True)] = Field(default=15.0, gt=0)
    """Duration of the Lease after a renewal. This default and the next two are those of the components of
    Kubernetes. A shorter one shortens the next two and `write_seconds` unless they are set."""

    renew_seconds: float = Field(default=10.0, gt=0)
    """The leader steps down if it could not renew the Lease for this time."""

    retry_seconds: float = Field(default=2.0, gt=0)
    """Interval between two attempts to renew the Lease; a standby looks twice as often."""

    no_earlier_leader: Annotated[bool, ADVANCED] = False
    """Lead at once if the Lease does not exist at the start, instead of after `lease_seconds` and
    `write_seconds`. For one start in a new cluster. Do not set it permanently: if the Lease of a living
    leader is deleted, two processes then allocate the same devices."""

    shard: Annotated[str, Flag(metavar="driver=NAME,pool-prefix=TEXT", advanced=True)] = ""
    """`driver=NAME,pool-prefix=TEXT`: the devices that this process allocates. For clusters that are too
    large for one process; each shard elects its own leader, and shards must not overlap."""

    drain_seconds: float = Field(default=25.0, ge=0)
    """How long writes in progress may take after SIGTERM. Up to 7 s for Events and the Lease follow. The pod
    must end within its grace period, which is 40 s in our manifests."""

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
    """Serve what-if analysis, `POST /whatif`, on the status port. Off, because a request needs memory and CPU
    time, most when it contains slices. It never writes."""

    status_fit: bool = False
    """Answer how many pods of some sets fit, `POST /fit`, on the status port. Off, because a request needs
    CPU time. It never writes. See docs/how-many-fit.md."""

    stalled_seconds: float = Field(default=60.0, gt=0)
    """/livez fails if work is queued and none of it was done for this time. It counts from the last answer of
    the server, so at least twice `write_seconds` is used."""

    doctor_seconds: float = Field(default=300.0, ge=0)
    """Interval between two runs of the doctor. Its findings become metrics; those about pools also become
    Events. It runs as a separate process, which needs a few hundred MiB for ten thousand devices. 0: off."""

    journal: Annotated[str | None, Flag(metavar="DIR")] = None
    """Directory of a journal with all decisions and their input: `dra-reconciler replay` repeats them. At
    most 16 files of about 64 MiB before compression. None: no journal."""

    keep_hard_questions: Annotated[str | None, Flag(metavar="FOLDER", advanced=True)] = None
    """Folder for questions that a search gave up (`SearchGaveUp`). At most 64 files with the claims, one
    node, its slices and held devices: `dra-reconciler allocate -f FILE` asks them again. None: none kept."""

    traces: Annotated[bool, ADVANCED] = False
    """OpenTelemetry traces of reconciles, decisions and requests, over OTLP. Needs dra-reconciler[otel]; set
    the destination with OTEL_EXPORTER_OTLP_ENDPOINT and the other variables of the SDK."""

    log_format: Annotated[Literal["auto", "json", "text"], ADVANCED] = "auto"
    """JSON lines or plain text. `auto` is text on a terminal and JSON elsewhere."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], FLAG] = "info"
    """Minimum level of log lines. Decisions are `info`, requests to the server are `debug`."""

    @model_validator(mode="before")
    @classmethod
    def _follow_lease(cls, values: Any) -> Any:
        """What has to fit into a Lease shorter than the default, and is not set."""
        try:
            lease = float(values["lease_seconds"])
        except (KeyError, TypeError, ValueError):  # not set, or refused later
            return values
        parts = {"renew_seconds": lease * 2 / 3, "retry_seconds": lease / 10, "write_seconds": lease / 2}
        return {**parts, **values} if 0 < lease < cls.model_fields["lease_seconds"].default else values


def first_sentence(text: str) -> str:
    """The first sentence of a setting's text, with its period, in one line."""
    return re.split(r"(?<=\.)\s", text + " ", maxsplit=1)[0].replace("\n", " ")


def load(flags: Mapping[str, Any], file: Path | None) -> Settings:
    """Settings from flags, the environment and a YAML file.

    Raises Rejected with a line for each wrong one, which names it as the user wrote it.
    """
    from_file = _read(file) if file is not None else {}
    from_environment = EnvSettingsSource(Settings)()
    try:
        return Settings(**{**from_file, **from_environment, **flags})
    except ValidationError as exc:
        problems = []
        for problem in exc.errors(include_url=False, include_context=False):
            name, *below = map(str, problem["loc"])
            if name in flags:
                spelled = flag_of(name)
            elif name in from_environment:
                spelled = f"DRA_RECONCILER_{name.upper()}"
            else:
                spelled = f"{name} in {file}"
            where = ".".join([spelled, *below])
            if problem["type"] == "extra_forbidden":
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
