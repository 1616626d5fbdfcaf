"""Credentials from a Secret of a management cluster."""

from capvco.cli.unusable import Unusable
from capvco.controllers.kinds import SECRET
from capvco.runtime.errors import KubeError
from capvco.runtime.kube import Kube
from capvco.vco.credentials import BadCredentials, Credentials


async def credentials_of(kube: Kube, secret: str) -> Credentials:
    """Read credentials from a Secret, given as namespace/name. Raises Unusable."""
    namespace, _, name = secret.partition("/")
    try:
        found = await kube.get(SECRET, namespace, name)
        return Credentials.from_secret(found.data)
    except (KubeError, BadCredentials) as error:
        raise Unusable(f"the Secret {secret} of {kube.server} cannot be used: {error}") from error


def named(secret: str) -> bool:
    """Tell whether a text is namespace/name."""
    namespace, _, name = secret.partition("/")
    return bool(namespace and name and "/" not in name)
