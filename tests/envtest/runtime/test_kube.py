import json
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from capvco.runtime.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    Misconfigured,
    NotFound,
    Undecodable,
    Unreachable,
)
from capvco.runtime.kinds import Kind
from capvco.runtime.kube import Kube
from capvco.runtime.leader import Lease
from kubelocal import LocalCluster

from .world import CONFIG_MAPS, GADGETS, connect, named

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800), pytest.mark.usefixtures("gadgets")]


async def test_an_apply_never_resurrects_what_was_deleted(kube: Kube, namespace: str) -> None:
    """Every write to a deleted object is Gone, and leaves nothing behind."""
    obj = await kube.create(GADGETS, namespace, named("a", spec={"x": 1}))
    await kube.delete(GADGETS, obj)
    with pytest.raises(Gone):
        await kube.apply(GADGETS, obj, {"spec": {"y": 2}})
    with pytest.raises(Gone):
        await kube.apply_status(GADGETS, obj, {"phase": "Ready"})
    with pytest.raises(Gone):
        await kube.finalize(GADGETS, obj, ["test.capvco.io/f"])
    with pytest.raises(NotFound):
        await kube.get(GADGETS, namespace, "a")


async def test_a_write_never_hits_another_object_of_the_same_name(
    kube: Kube, namespace: str
) -> None:
    """After a deletion and a new creation the old object's writes are Gone, status included."""
    old = await kube.create(GADGETS, namespace, named("a"))
    await kube.delete(GADGETS, old)
    new = await kube.create(GADGETS, namespace, named("a"))
    with pytest.raises(Gone):
        await kube.apply(GADGETS, old, {"spec": {"y": 2}})
    with pytest.raises(Gone):
        await kube.apply_status(GADGETS, old, {"phase": "Ready"})
    await kube.delete(GADGETS, old)  # idempotent: it is gone
    assert await kube.get(GADGETS, namespace, "a") == new
    await kube.delete(GADGETS, old, precondition_uid=False)
    with pytest.raises(NotFound):
        await kube.get(GADGETS, namespace, "a")


async def test_a_status_is_written_from_an_older_version_too(kube: Kube, namespace: str) -> None:
    """Whoever else writes to the object in between does not make a status write fail."""
    obj = await kube.create(GADGETS, namespace, named("a"))
    await kube.apply(GADGETS, obj, {"spec": {"x": 1}}, manager="other")
    now = await kube.apply_status(GADGETS, obj, {"phase": "Ready"})
    assert (now.spec, now.status) == ({"x": 1}, {"phase": "Ready"})
    assert await kube.apply_status(GADGETS, obj, {"phase": "Ready"}) == now


async def test_each_manager_owns_its_part(kube: Kube, namespace: str) -> None:
    """Finalizers, spec and status do not disturb each other; what is not repeated goes."""
    obj = await kube.create(GADGETS, namespace, named("a"))
    await kube.finalize(GADGETS, obj, ["test.capvco.io/f"])
    labelled = {"metadata": {"labels": {"l": "1"}}, "spec": {"x": 1}}
    await kube.apply(GADGETS, obj, labelled)
    await kube.apply_status(GADGETS, obj, {"phase": "Ready", "ip": "1"})
    now = await kube.apply_status(GADGETS, obj, {"phase": "Ready"})
    assert now.metadata.finalizers == ("test.capvco.io/f",)
    assert now.metadata.labels == {"l": "1"}
    assert now.spec == {"x": 1}
    assert now.status == {"phase": "Ready"}
    now = await kube.apply(GADGETS, obj, {"spec": {"z": 1}})
    assert now.metadata.labels == {}
    assert now.spec == {"z": 1}
    assert now.metadata.finalizers == ("test.capvco.io/f",)
    now = await kube.finalize(GADGETS, obj, [])
    assert now.metadata.finalizers == ()
    assert now.status == {"phase": "Ready"}


async def test_an_apply_without_news_is_no_write(kube: Kube, namespace: str) -> None:
    """The resourceVersion stays, so that status writes cannot spin a controller."""
    obj = await kube.create(GADGETS, namespace, named("a"))
    for _ in range(2):
        one = await kube.apply(GADGETS, obj, {"spec": {"x": 1}})
        two = await kube.apply_status(GADGETS, obj, {"phase": "Ready"})
        three = await kube.finalize(GADGETS, obj, ["test.capvco.io/f"])
    again = [
        await kube.apply(GADGETS, obj, {"spec": {"x": 1}}),
        await kube.apply_status(GADGETS, obj, {"phase": "Ready"}),
        await kube.finalize(GADGETS, obj, ["test.capvco.io/f"]),
    ]
    assert {one.metadata.resource_version, two.metadata.resource_version} == {
        three.metadata.resource_version
    }
    assert again == [three, three, three]


async def test_a_field_of_another_manager_is_a_conflict_without_force(
    kube: Kube, namespace: str
) -> None:
    """Force is the default; without it a disagreement is told, and is not Gone."""
    obj = await kube.create(GADGETS, namespace, named("a", spec={"x": 1}), manager="other")
    with pytest.raises(Conflict) as caught:
        await kube.apply(GADGETS, obj, {"spec": {"x": 2}}, force=False)
    assert "other" in caught.value.message
    assert (await kube.apply(GADGETS, obj, {"spec": {"x": 2}})).spec == {"x": 2}


async def test_a_kind_without_status_is_not_a_deleted_object(kube: Kube, namespace: str) -> None:
    """A missing endpoint is NotFound, but must not be mistaken for Gone."""
    obj = await kube.create(CONFIG_MAPS, namespace, named("a"))
    with pytest.raises(NotFound) as caught:
        await kube.apply_status(CONFIG_MAPS, obj, {})
    assert not isinstance(caught.value, Gone)


async def test_refusals_tell_what_and_where(kube: Kube, namespace: str) -> None:
    """Each refusal has its class, and a message that names request and reason."""
    await kube.create(CONFIG_MAPS, namespace, named("a"))
    with pytest.raises(AlreadyExists):
        await kube.create(CONFIG_MAPS, namespace, named("a"))
    with pytest.raises(Invalid, match=r"POST .*configmaps: .*Invalid value.*422"):
        await kube.create(CONFIG_MAPS, namespace, named("A"))
    with pytest.raises(NotFound, match="namespaces"):
        await kube.create(CONFIG_MAPS, "no-such-namespace", named("a"))
    wrong = Kind("", "v1", "ConfigMap", "configmaps", Lease)
    await kube.create(CONFIG_MAPS, namespace, named("b", data={"spec": "x"}))
    odd: Kind[Lease] = Kind("", "v1", "Pod", "pods", Lease)
    assert await kube.list(odd, namespace) == []
    assert len(await kube.list(wrong, namespace)) == 3  # with kube-root-ca.crt: nothing clashes


async def test_replace_is_for_the_version_that_was_read(kube: Kube, namespace: str) -> None:
    """A replace after somebody else's write is a Conflict: the ground of the election."""
    first = await kube.create(CONFIG_MAPS, namespace, named("a", data={"x": "1"}))
    second = await kube.replace(CONFIG_MAPS, first, {"data": {"x": "2"}})
    assert second.data == {"x": "2"}
    with pytest.raises(Conflict) as caught:
        await kube.replace(CONFIG_MAPS, first, {"data": {"x": "3"}})
    assert not isinstance(caught.value, AlreadyExists)


async def test_lists_are_complete_and_selected(kube: Kube, namespace: str) -> None:
    """More than one page is one list; labels select; other namespaces stay out."""
    for number in range(505):
        labels = {"odd": str(number % 2)}
        await kube.create(
            GADGETS, namespace, {"metadata": {"name": f"g{number}", "labels": labels}}
        )
    everything = await kube.list(GADGETS, namespace)
    assert {obj.metadata.name for obj in everything} == {f"g{n}" for n in range(505)}
    assert len(await kube.list(GADGETS, namespace, {"odd": "1"})) == 252
    assert len(await kube.list(GADGETS, namespace, "odd in (0)")) == 253
    assert len(await kube.list(GADGETS, labels="odd")) >= 505


async def test_what_is_not_its_kind_is_said(kube: Kube, namespace: str) -> None:
    """An object that does not decode is an error with its place, not a half-read object."""
    strict: Kind[Lease] = Kind("test.capvco.io", "v1", "Gadget", "gadgets", Lease)
    await kube.create(GADGETS, namespace, named("a", spec={"leaseTransitions": 1}))
    assert (await kube.get(strict, namespace, "a")).spec.lease_transitions == 1
    await kube.create(GADGETS, namespace, named("b", spec={"holderIdentity": 1}))
    with pytest.raises(Undecodable, match=r"holderIdentity|Expected `str`"):
        await kube.get(strict, namespace, "b")
    with pytest.raises(Undecodable, match=r"gadgets\.test.capvco.io"):
        await kube.list(strict, namespace)


async def test_an_account_without_rights_is_forbidden(
    control_plane: LocalCluster, namespace: str, tmp_path: Path
) -> None:
    """RBAC is on, and its refusal names the account."""
    control_plane.kubectl("create", "serviceaccount", "nobody", "-n", namespace)
    path = control_plane.service_account_kubeconfig(namespace, "nobody", tmp_path / "kubeconfig")
    async with connect(path) as kube:
        with pytest.raises(Forbidden, match=f"{namespace}:nobody"):
            await kube.list(CONFIG_MAPS, namespace)


async def test_the_kubeconfig_of_a_secret_works(
    control_plane: LocalCluster, namespace: str
) -> None:
    """A client can be made from text, as for workload clusters."""
    text = control_plane.kubeconfig.read_bytes()
    async with Kube.parse(text, user_agent="t", registry=CollectorRegistry()) as kube:
        assert await kube.list(GADGETS, namespace) == []
        assert kube.server == control_plane.url


async def test_every_request_is_counted(control_plane: LocalCluster, namespace: str) -> None:
    """rest_client_requests_total has code, method and host, as in Go controllers."""
    registry = CollectorRegistry()
    async with connect(control_plane.kubeconfig, registry) as kube:
        await kube.list(GADGETS, namespace)
        with pytest.raises(KubeError):
            await kube.get(GADGETS, namespace, "none")
    host = control_plane.url.removeprefix("https://")
    for code in ("200", "404"):
        labels = {"code": code, "method": "GET", "host": host}
        assert registry.get_sample_value("rest_client_requests_total", labels) == 1


async def test_an_apiserver_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    """No answer is an error of its own class, and is counted as <error>."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    registry = CollectorRegistry()
    async with connect(path, registry) as kube:
        with pytest.raises(Unreachable, match=r"GET .* no answer from 127\.0\.0\.1:9"):
            await kube.list(GADGETS)
    labels = {"code": "<error>", "method": "GET", "host": "127.0.0.1:9"}
    assert registry.get_sample_value("rest_client_requests_total", labels) == 1


def test_an_unusable_kubeconfig_is_told_without_its_content(tmp_path: Path) -> None:
    """What is wrong is said for a file by its path, and for a secret without its text."""
    with pytest.raises(Misconfigured, match="nowhere"):
        Kube.connect(tmp_path / "nowhere", user_agent="t")
    broken = tmp_path / "broken"
    broken.write_text("current-context: x\nclusters: []\ncontexts: []")
    with pytest.raises(Misconfigured, match="'x' not found"):
        Kube.connect(broken, user_agent="t")
    with pytest.raises(Misconfigured) as caught:
        Kube.parse(b"users: [{user: {token: hush}}]", user_agent="t")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "named"),
    [
        ({"exec": {"apiVersion": "v1", "command": "true"}}, {}, "exec"),
        ({"tokenFile": "/var/run/token"}, {}, "tokenFile"),
        ({"client-certificate": "/c", "client-key": "/k"}, {}, "client-certificate, client-key"),
        ({"auth-provider": {"name": "gcp"}}, {}, "auth-provider"),
        ({"token": "t"}, {"certificate-authority": "/ca"}, "certificate-authority"),
    ],
)
def test_a_kubeconfig_from_a_secret_holds_everything_itself(
    user: dict[str, object], cluster: dict[str, object], named: str
) -> None:
    """Who writes it must not make this process run a program or send a file's content away."""
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"} | cluster}],
        "users": [{"name": "u", "user": user}],
    }
    with pytest.raises(Misconfigured, match=f"the kubeconfig has {named}: only one that holds"):
        Kube.parse(json.dumps(config).encode(), user_agent="t")


@pytest.mark.parametrize("text", [b"", b"text", b"[]", b"clusters: 5", b"a: {b", b"\xff\xfe\x00"])
def test_a_secret_that_is_no_kubeconfig(text: bytes) -> None:
    """Whatever it is, it is one kind of problem."""
    with pytest.raises(Misconfigured, match="not a usable kubeconfig"):
        Kube.parse(text, user_agent="t")


async def test_a_merge_touches_what_it_names(kube: Kube, namespace: str) -> None:
    """Fields of others stay, the same again is no write, and another object is not meant."""
    old = await kube.create(GADGETS, namespace, named("a", spec={"x": 1, "y": 1}))
    first = await kube.merge(GADGETS, old, {"metadata": {"labels": {"l": "1"}}}, manager="m")
    assert (first.spec, first.metadata.labels) == ({"x": 1, "y": 1}, {"l": "1"})
    second = await kube.merge(GADGETS, old, {"spec": {"y": 2}}, manager="m")
    assert (second.spec, second.metadata.labels) == ({"x": 1, "y": 2}, {"l": "1"})
    assert await kube.merge(GADGETS, old, {"spec": {"y": 2}}, manager="m") == second
    await kube.delete(GADGETS, old)
    with pytest.raises(Gone):
        await kube.merge(GADGETS, old, {"spec": {"y": 3}})
    new = await kube.create(GADGETS, namespace, named("a"))
    with pytest.raises(Gone):
        await kube.merge(GADGETS, old, {"spec": {"y": 3}})
    assert await kube.get(GADGETS, namespace, "a") == new
