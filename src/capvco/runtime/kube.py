"""The verbs of the Kubernetes API that a controller needs, on typed kinds.

Writes carry the uid of the object they mean: an object deleted a moment ago is never resurrected
as a ghost. Most are server-side applies. Two field managers: whoever owns the finalizer owns
nothing else, since an apply states its manager's whole intent and drops what it does not repeat.
"""

import builtins
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import yaml
from lightkube import ConfigError, KubeConfig
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, SingleConfig
from lightkube.config.models import User
from prometheus_client import REGISTRY, CollectorRegistry

from capvco.runtime import stream
from capvco.runtime.errors import (
    Conflict,
    Gone,
    Invalid,
    KubeError,
    Misconfigured,
    NotFound,
    Undecodable,
)
from capvco.runtime.kinds import Key, Kind, Object, T
from capvco.runtime.stream import Event, Limits, Listing, Scope
from capvco.runtime.transport import Transport

MANAGER = "capvco"
FINALIZER_MANAGER = "capvco-finalizer"

_APPLY = "application/apply-patch+yaml"  # JSON is YAML
_MERGE = "application/merge-patch+json"
_STATUS_TRIES = 4
_NO_ENDPOINT = "the server could not find the requested resource"

# What reading something else as a kubeconfig ends in.
_NO_KUBECONFIG = (ConfigError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

# The apiserver has no reason code for "that uid does not exist", and three ways to say it: an
# apply that met no object, an apply that met another object, a delete that met another object.
_UID_PHRASES = ("uid mismatch", "metadata.uid: Invalid value", "the UID in the precondition")


class Kube:
    """One apiserver. An async context manager; every verb raises KubeError."""

    def __init__(
        self, config: SingleConfig, *, user_agent: str, registry: CollectorRegistry = REGISTRY
    ) -> None:
        try:
            self._transport = Transport(config, user_agent=user_agent, registry=registry)
        except (ConfigError, OSError, ValueError) as error:
            raise Misconfigured(f"cannot connect to {config.cluster.server}: {error}") from error
        self.server = config.cluster.server
        self.namespace = config.namespace

    @classmethod
    def connect(
        cls,
        kubeconfig: Path | None = None,
        *,
        user_agent: str,
        registry: CollectorRegistry = REGISTRY,
    ) -> Self:
        """Connect by a kubeconfig; without one by the pod's own account, else by $KUBECONFIG.

        Sends nothing yet. Raises Misconfigured when there is no usable configuration.
        """
        try:
            config = _find_config(kubeconfig).get()
        except (ConfigError, OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
            where = kubeconfig or "the service account, $KUBECONFIG and ~/.kube/config"
            raise Misconfigured(f"no usable kubeconfig in {where}: {error}") from error
        return cls._of(config, user_agent=user_agent, registry=registry)

    @classmethod
    def parse(
        cls, kubeconfig: bytes, *, user_agent: str, registry: CollectorRegistry = REGISTRY
    ) -> Self:
        """Connect by the text of a kubeconfig, as a Secret holds it; raises Misconfigured.

        Whoever may write that Secret has written it, so it must hold everything itself: it can make
        this process neither run a program nor read a file.
        """
        try:
            config = KubeConfig.from_dict(yaml.safe_load(kubeconfig)).get()
        except (*_NO_KUBECONFIG, yaml.YAMLError) as error:
            # The text is a secret: say what kind of problem it is, not what was read.
            raise Misconfigured(f"not a usable kubeconfig: {type(error).__name__}") from None
        if config is not None and (outside := _outside(config)):
            raise Misconfigured(
                f"the kubeconfig has {', '.join(outside)}: only one that holds its certificates,"
                " keys and tokens itself is used"
            )
        return cls._of(config, user_agent=user_agent, registry=registry)

    @classmethod
    def _of(
        cls, config: SingleConfig | None, *, user_agent: str, registry: CollectorRegistry
    ) -> Self:
        if config is None or config.user is None:
            raise Misconfigured("the kubeconfig's current context has no user")
        return cls(config, user_agent=user_agent, registry=registry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def get(self, kind: Kind[T], namespace: str, name: str) -> T:
        """Return the live object; raises NotFound."""
        path = kind.path(namespace, name)
        return _decode(kind, await self._transport.request("GET", path), path)

    async def list(
        self,
        kind: Kind[T],
        namespace: str | None = None,
        labels: Mapping[str, str] | str | None = None,
    ) -> builtins.list[T]:
        """Return all live objects; raises Undecodable if any is not what the kind says."""
        scope = Scope(namespace, selector(labels))
        listing = await stream.list_latest(self._transport, kind, scope)
        if listing.broken:
            raise Undecodable(200, "Undecodable", listing.broken[0].message)
        return [*listing.items]

    async def create(
        self, kind: Kind[T], namespace: str, body: Mapping[str, object], *, manager: str = MANAGER
    ) -> T:
        """Create an object; raises AlreadyExists. After Unreachable it may exist: look."""
        path = kind.path(namespace)
        content = _body(kind, body, {})
        answer = await self._transport.request(
            "POST", path, params={"fieldManager": manager}, content=content
        )
        return _decode(kind, answer, path)

    async def replace(
        self, kind: Kind[T], obj: T, body: Mapping[str, object], *, manager: str = MANAGER
    ) -> T:
        """Replace exactly the version that was read; raises Conflict if it is not the latest."""
        path = kind.path(obj.metadata.namespace, obj.metadata.name)
        content = _body(
            kind, body, _identity(obj) | {"resourceVersion": obj.metadata.resource_version}
        )
        answer = await self._transport.request(
            "PUT", path, params={"fieldManager": manager}, content=content
        )
        return _decode(kind, answer, path)

    async def apply(
        self,
        kind: Kind[T],
        obj: T,
        body: Mapping[str, object],
        *,
        manager: str = MANAGER,
        force: bool = True,
    ) -> T:
        """State all that a manager wants of an existing object; idempotent.

        An unchanged intent is not a write: the resourceVersion stays. Raises Gone when this
        object (by uid) is deleted, and Conflict if ``force`` is off and another manager owns a
        field with another value.
        """
        return await self._patch(kind, obj, body, _managed(manager, force=force))

    async def merge(
        self, kind: Kind[T], obj: T, body: Mapping[str, object], *, manager: str = MANAGER
    ) -> T:
        """Set the named fields of an existing object, and touch no other; raises Gone.

        For objects that belong to others: nothing that was set before is ever taken back.
        """
        return await self._patch(kind, obj, body, _Way({"fieldManager": manager}, _MERGE))

    async def apply_status(
        self, kind: Kind[T], obj: T, status: Mapping[str, object], *, manager: str = MANAGER
    ) -> T:
        """State the whole status of an existing object; idempotent, raises Gone.

        One request if ``obj`` is the latest version, as the last write returned it; else three.
        """
        # On /status the apiserver does not compare the uid: only the version proves that this is
        # not another object of the same name. The status is ours alone, so a newer version of
        # the same object is as good.
        target = obj
        for _ in range(_STATUS_TRIES):
            exact = {"resourceVersion": target.metadata.resource_version}
            body = {"metadata": exact, "status": status}
            try:
                return await self._patch(kind, obj, body, _managed(manager, subresource="status"))
            except Conflict as error:
                conflict = error
                target = await self._live(kind, obj)
        raise conflict

    async def _live(self, kind: Kind[T], obj: T) -> T:
        """Return the present version of this very object; raises Gone."""
        try:
            live = await self.get(kind, obj.metadata.namespace, obj.metadata.name)
        except NotFound as error:
            raise Gone(error.status, error.reason, error.message) from error
        if live.metadata.uid != obj.metadata.uid:
            where = Key(obj.metadata.namespace, obj.metadata.name)
            raise Gone(409, "Conflict", f"{kind} {where}: another object has this name now")
        return live

    async def finalize(self, kind: Kind[T], obj: T, finalizers: Sequence[str]) -> T:
        """State which finalizers are ours, none included; idempotent, raises Gone."""
        body = {"metadata": {"finalizers": [*finalizers]}}
        return await self._patch(kind, obj, body, _managed(FINALIZER_MANAGER))

    async def delete(self, kind: Kind[T], obj: T, *, precondition_uid: bool = True) -> None:
        """Ask for the deletion of an object; idempotent: one that is gone is fine.

        With the precondition, another object that took the name meanwhile is left alone.
        """
        path = kind.path(obj.metadata.namespace, obj.metadata.name)
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if precondition_uid:
            options["preconditions"] = {"uid": obj.metadata.uid}
        try:
            await self._transport.request("DELETE", path, content=msgspec.json.encode(options))
        except NotFound:
            return
        except Conflict as error:
            if not _means_gone(error):
                raise

    async def _patch(
        self,
        kind: Kind[T],
        obj: T,
        body: Mapping[str, object],
        way: "_Way",
    ) -> T:
        path = kind.path(obj.metadata.namespace, obj.metadata.name, way.subresource)
        content = _body(kind, body, _identity(obj))
        try:
            answer = await self._transport.request(
                "PATCH", path, params=way.params, content=content, content_type=way.content_type
            )
        except NotFound as error:
            if _NO_ENDPOINT in error.message:
                raise  # the kind itself is not served, or has no such subresource
            raise Gone(error.status, error.reason, error.message) from error
        except (Conflict, Invalid) as error:
            if _means_gone(error):
                raise Gone(error.status, error.reason, error.message) from error
            raise
        return _decode(kind, answer, path)

    async def listing(self, kind: Kind[T], scope: Scope, *, latest: bool) -> Listing[T]:
        """List for a cache: the latest state, or the cheaper one the apiserver has in memory."""
        lister = stream.list_latest if latest else stream.list_cached
        return await lister(self._transport, kind, scope)

    def watch(
        self, kind: Kind[T], scope: Scope, *, version: str, limits: Limits
    ) -> AsyncGenerator[Event[T], None]:
        """Watch for a cache: see ``stream.watch``."""
        return stream.watch(self._transport, kind, scope, version=version, limits=limits)


def _outside(config: SingleConfig) -> list[str]:
    """Return what a kubeconfig wants from the machine on which it is read."""
    user = config.user or User()
    wants = {
        "certificate-authority": config.cluster.certificate_auth,
        "client-certificate": user.client_cert,
        "client-key": user.client_key,
        "tokenFile": user.token_file,
        "exec": user.exec,
        "auth-provider": user.auth_provider,
    }
    return [name for name, value in wants.items() if value is not None]


def selector(labels: Mapping[str, str] | str | None) -> str:
    """Return a label selector in the form of a query parameter."""
    if labels is None or isinstance(labels, str):
        return labels or ""
    return ",".join(f"{name}={value}" for name, value in labels.items())


class _Way(NamedTuple):
    """How an object is patched."""

    params: Mapping[str, str]
    content_type: str = _APPLY
    subresource: str = ""


def _managed(manager: str, *, force: bool = True, subresource: str = "") -> _Way:
    """Return the way of an apply; with force it takes fields over from other managers."""
    params = {"fieldManager": manager, "force": "true" if force else "false"}
    return _Way(params, subresource=subresource)


def _find_config(kubeconfig: Path | None) -> KubeConfig:
    if kubeconfig is not None:
        return KubeConfig.from_file(kubeconfig)
    if "KUBERNETES_SERVICE_HOST" in os.environ and Path(SERVICE_ACCOUNT).is_dir():
        return KubeConfig.from_service_account()
    return KubeConfig.from_file(os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG)


def _identity(obj: Object) -> dict[str, object]:
    """Return what makes a write mean this very object."""
    meta = obj.metadata
    if not meta.uid:
        raise ValueError(f"{Key(meta.namespace, meta.name)} has no uid: it was never read")
    identity: dict[str, object] = {"name": meta.name, "uid": meta.uid}
    return identity | ({"namespace": meta.namespace} if meta.namespace else {})


def _body(kind: Kind[T], body: Mapping[str, object], identity: Mapping[str, object]) -> bytes:
    """Return a body as the apiserver wants it, whose metadata cannot name another object."""
    metadata = body.get("metadata", {})
    if not isinstance(metadata, Mapping):
        raise TypeError("metadata must be a mapping")
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    return msgspec.json.encode(whole | {"metadata": {**metadata, **identity}})


def _means_gone(error: KubeError) -> bool:
    """Say whether a refusal is about the uid: there is no such object, or it is another one."""
    return any(phrase in error.message for phrase in _UID_PHRASES)


def _decode(kind: Kind[T], answer: bytes, path: str) -> T:
    try:
        return kind.decoder.decode(answer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(200, "Undecodable", f"{path}: not a {kind.kind}: {error}") from error
