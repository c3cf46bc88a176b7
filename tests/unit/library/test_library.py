"""The public library: it answers what the commands answer, and its interface names only public things."""

import dataclasses
import inspect
import json
import pickle
import re
import subprocess
import sys
import types
import typing
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

import dra_reconciler as dra
from reconciler.cli import main
from tests.tools.patience import PATIENCE

CLASS = dra.device_class("gpu", 'device.driver == "gpu.example.com"')
MIG = dra.device_class("mig", "device.attributes['gpu.nvidia.com'].type == 'mig'")
DEMAND = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "Demand"}
REQUEST = {"apiVersion": "dra-reconciler.io/v1alpha1", "kind": "FitRequest"}
DEMO = Path(__file__).parents[3] / "reconciler" / "cli" / "demo" / "manifests"


def partition(name: str, profile: str, **more: typing.Any) -> dict[str, typing.Any]:
    return dra.claim(name, "mig", f"device.attributes['gpu.nvidia.com'].profile == '{profile}'", **more)


def fleet(*claims: dict[str, typing.Any], nodes: int = 2, each: int = 2) -> dra.Fleet:
    names = [f"n{number}" for number in range(nodes)]
    return dra.Fleet(CLASS, [[dra.node(name), dra.devices(name, each)] for name in names], claims)


def test_devices_are_granted_and_what_is_left_is_pending_with_its_reason():
    found = fleet(*(dra.claim(f"c{number}", "gpu") for number in range(5))).allocate()
    assert [(one.claim, one.node, one.device) for one in found.grants] == [
        ("default/c0", "n0", "device-0"),
        ("default/c1", "n0", "device-1"),
        ("default/c2", "n1", "device-0"),
        ("default/c3", "n1", "device-1"),
    ]
    assert [(one.claims, one.reason) for one in found.pending] == [(("default/c4",), "DevicesInUse")]


def test_an_allocation_is_a_fleet_for_further_questions_and_leaves_the_first_as_it_was():
    before = fleet(dra.claim("a", "gpu"))
    after = before.allocate().fleet
    assert (before.usage()[0].held, after.usage()[0].held) == (0, 1)
    assert after.allocate().grants == ()
    assert after.explain("a").allocated
    assert after.what_if(dra.claim("more", "gpu")).copies == 3


def test_what_is_allocated_is_what_the_command_writes(tmp_path: Path):
    found = dra.Fleet.load(DEMO).allocate()
    done = CliRunner().invoke(main, ["allocate", "-f", str(DEMO), "-o", "json"])
    written = {
        one["metadata"]["name"]: one["status"]["allocation"] for one in json.loads(done.stdout)["items"]
    }
    for one in found.claims:
        ours = {**one["status"]["allocation"], "allocationTimestamp": ""}
        assert ours == {**written.pop(one["metadata"]["name"]), "allocationTimestamp": ""}
    assert not written


def test_policies_choose_by_driver_or_for_all():
    many = [partition(f"s{number}", "1g.5gb") for number in range(3)]
    room = dra.Fleet(MIG, dra.mig_gpus("n0", 3), many)

    def gpus(policy: dra.Policy) -> set[str]:
        return {one.device[:5] for one in room.allocate(policy).grants}

    assert gpus("first-fit") == {"gpu-0"}
    assert gpus({"gpu.nvidia.com": "spread"}) == gpus("spread") == {"gpu-0", "gpu-1", "gpu-2"}
    with pytest.raises(dra.Rejected, match="did you mean spread"):
        room.allocate("spred")


def test_an_explanation_has_the_gates_and_what_to_do():
    found = fleet(dra.claim("big", "gpu", count=3)).explain("big")
    assert (found.allocatable, found.reason) == (False, "NeverFits")
    assert found.gates[0].left == 4
    assert found.remedy
    assert any("n0" in miss for miss in found.nearest)


def test_the_reason_of_a_pod_without_gates_is_a_name_also_if_its_message_has_colons():
    pod = dra.pod("p", ["one"])
    pod["metadata"]["annotations"] = {"dra-reconciler.io/gang": "g", "dra-reconciler.io/gang-size": "many"}
    pod["spec"]["schedulingGates"] = [{"name": "dra-reconciler.io/allocation"}]
    found = fleet(dra.claim("one", "gpu"), pod).explain("p", pod=True)
    assert (found.allocatable, found.reason) == (False, "GangInvalid")
    assert found.message.startswith("Pod default/p: metadata.annotations[dra-reconciler.io/gang-size]: ")


@pytest.mark.parametrize(
    ("ask", "wrong", "said"),
    [
        (dra.Fleet, "manifests/", "'manifests/' is not an object; Fleet.load reads files"),
        (dra.Fleet, [Path("manifests")], "'manifests' is not an object; Fleet.load reads files"),
        (lambda release: dra.Fleet(release=release), "1.35", "no release '1.35'; known: 1.36, 1.37"),
        (lambda by: fleet().usage(by), "model", "no part 'model'; known: driver, pool, node"),
        (lambda by: fleet().profiles(by), "model", "no part 'model'; known: driver, pool, node"),
    ],
)
def test_a_mistake_is_named(ask: Callable[[typing.Any], object], wrong: object, said: str):
    with pytest.raises(dra.Rejected, match=re.escape(said)):
        ask(wrong)


def test_a_pod_is_explained_with_all_its_claims_and_an_unknown_name_is_an_error():
    room = fleet(dra.claim("only-one", "gpu"), dra.pod("p", ["only-one"], cpu="1"))
    assert room.explain("p", pod=True).allocatable
    with pytest.raises(dra.Rejected, match="no claim default/only-own; did you mean default/only-one"):
        room.explain("only-own")


def test_claims_of_a_drained_node_go_elsewhere_or_are_lost():
    full = fleet(*(dra.claim(f"c{number}", "gpu") for number in range(3))).allocate().fleet
    lost = full.what_if(drain=["n0"]).lost
    found = [(one.claims, one.node, bool(one.reason)) for one in lost]
    assert found == [(("default/c0",), "n1", False), (("default/c1",), "", True)]


def test_pods_of_a_set_fit_as_often_as_there_are_devices():
    spec = {"spec": dra.claim("one", "gpu")["spec"]}
    template = {**dra.claim("one", "gpu"), "kind": "ResourceClaimTemplate", "spec": spec}
    pod = {
        "containers": [{"name": "main"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
    }
    request = {**REQUEST, "podSets": [{"name": "workers", "count": 6, "template": {"spec": pod}}]}
    (found,) = fleet().fit(request, template)
    assert (found.fits, found.nodes, found.reason) == (4, ("n0", "n0", "n1", "n1"), "GangUnplaced")


def test_a_demand_beyond_the_fleet_needs_new_nodes():
    demand = {**DEMAND, "items": [{"name": "jobs", "count": 9, "spec": dra.claim("job", "gpu")["spec"]}]}
    found = fleet().nodes_for(demand)
    assert (found.items[0].fit_now, found.options[0].nodes) == (4, {"n0": 3})
    assert not found.fits_now
    with pytest.raises(dra.Rejected, match="there is no node n7"):
        fleet().nodes_for(demand, shapes=["n7"])


def test_mig_partitions_share_their_gpu():
    found = dra.Fleet(MIG, dra.mig_gpus("n0", 1), partition("a", "3g.20gb")).allocate().fleet
    fits = {one.profile: one.fits for one in found.profiles()}
    assert (fits["7g.40gb"], fits["3g.20gb"], fits["1g.5gb"]) == (0, 1, 3)
    assert found.usage()[0].use == 0.5


def test_invalid_objects_and_unknown_fields_are_named_and_nothing_else_is_lost():
    wrong = dra.claim("wrong", "gpu")
    wrong["spec"]["devices"]["requests"][0]["exactly"]["cuont"] = 2
    broken = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "Broken"}}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = fleet(wrong, {**broken, "spec": {"devices": 7}})
    assert found.problems == tuple(str(one.message) for one in warned)
    invalid, unknown = found.problems
    assert "must be an object" in invalid
    assert "did you mean count" in unknown
    assert len(found.allocate().grants) == 1
    with pytest.raises(dra.Rejected, match="did you mean count"):
        found.what_if(wrong)
    with pytest.raises(FileNotFoundError):
        dra.Fleet.load("no-such-file.yaml")


def test_a_later_object_replaces_one_of_the_same_name():
    found = fleet(dra.claim("a", "gpu", count=9)).add(dra.claim("a", "gpu", count=2)).allocate()
    assert len(found.grants) == 2


def test_rows_are_tuples_that_know_their_columns():
    rows = fleet(dra.claim("a", "gpu")).allocate().grants
    assert rows.columns == ("claim", "request", "driver", "pool", "device", "node", "pod")
    assert rows.to_dicts()[0]["claim"] == "default/a"
    assert pickle.loads(pickle.dumps(rows)) == rows
    assert dra.Rows(dra.Pending).columns == ("claims", "pod", "reason", "message")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_rows_are_frames_where_such_a_library_is_present(library: str):
    pytest.importorskip(library)
    rows = fleet(dra.claim("a", "gpu")).allocate().grants
    for some in (rows, dra.Rows(dra.Grant)):
        frame = getattr(some, f"to_{library}")()
        assert (list(frame.columns), len(frame)) == (list(rows.columns), len(some))


PUBLIC = {name: getattr(dra, name) for name in dir(dra)}
FRAMES = {name: types.SimpleNamespace(DataFrame=type("DataFrame", (), {})) for name in ("pandas", "polars")}
PLAIN = (
    *(bool, int, float, str, bytes, type, object, type(None), dict, list, tuple, frozenset),
    *(Path, typing.Any, *(frame.DataFrame for frame in FRAMES.values())),
)


def private_in(hint: object, seen: tuple[object, ...] = ()) -> set[str]:
    """The names in an annotation that are neither public nor of the standard library."""
    if hint in seen or isinstance(hint, typing.TypeVar | str | typing.ForwardRef):
        return set()  # a recursive alias names itself, and only public ones are aliases
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return set()
    found = set().union(*(private_in(part, (*seen, hint)) for part in parts)) if parts else set()
    here = typing.get_origin(hint) or hint
    known = any(here is one for one in (*PLAIN, *PUBLIC.values()))
    standard = getattr(here, "__module__", "") in ("collections.abc", "typing", "types")
    return found if known or standard or here is Ellipsis else found | {repr(here)}


def signatures() -> typing.Iterator[tuple[str, object, set[str]]]:
    """Each public function, method and class with fields: its name, itself, its parameters."""
    for name, one in PUBLIC.items():
        if inspect.isfunction(one):
            yield name, one, set(inspect.signature(one).parameters)
        elif inspect.isclass(one) and one.__module__.startswith("reconciler.library"):
            if dataclasses.is_dataclass(one):
                yield name, one, {field.name for field in dataclasses.fields(one)}
            for member, method in vars(one).items():
                inner = getattr(method, "fget", None) or getattr(method, "__func__", method)
                own = member == "__init__" and not dataclasses.is_dataclass(one)
                if inspect.isfunction(inner) and (own or not member.startswith("_")):
                    yield f"{name}.{member}", inner, set(inspect.signature(inner).parameters)


@pytest.mark.parametrize(("name", "one", "names"), [pytest.param(*one, id=one[0]) for one in signatures()])
def test_no_signature_has_a_private_name(name: str, one: typing.Any, names: set[str]):
    hints = typing.get_type_hints(one, localns={**PUBLIC, **FRAMES})
    assert names - {"self", "cls"} <= hints.keys(), f"{name} is not typed"
    assert set().union(*map(private_in, hints.values())) == set()
    assert not any(part.startswith("_") for part in names)
    assert one.__doc__


PAGE = (Path(__file__).parents[3] / "docs" / "library.md").read_text(encoding="utf-8")


def test_each_public_class_and_function_is_in_the_page():
    shown = set(re.findall(r"[A-Za-z_]+", PAGE))
    public = {name for name, one in PUBLIC.items() if inspect.isclass(one) or inspect.isfunction(one)}
    assert public - shown == set()


def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]):
    example = PAGE.partition("```python")[2].partition("```")[0]
    exec(example if find_spec("pandas") else example.replace(".to_frame()", ""))
    assert "nearest miss" in capsys.readouterr().out


def test_the_import_loads_nothing_heavy_and_the_first_name_loads_the_rest():
    code = (
        "import sys, dra_reconciler\n"
        "light = not {'numpy', 'pydantic', 'msgspec', 'reconciler'} & {*sys.modules}\n"
        "threads = 'OPENBLAS_NUM_THREADS' in __import__('os').environ\n"
        "dra_reconciler.Fleet; print(light, threads, 'numpy' in sys.modules, 'aiohttp' in sys.modules)"
    )
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE,
        env=environment,
    )  # fmt: skip
    assert done.stdout.split() == ["True", "False", "True", "False"]
