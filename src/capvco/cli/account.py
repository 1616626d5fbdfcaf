"""The flags that all commands share: who one is at the platform."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from capvco.cli.access import Given

_CREDENTIALS = Group("Credentials of the platform", sort_key=5)


def flag(group: Group, text: str, *names: str) -> Parameter:
    """Describe a flag as all commands do."""
    return Parameter(
        name=names or None, group=group, help=text, show_default=False, consume_multiple=False
    )


@dataclass(frozen=True, kw_only=True)
class Account:
    """The flags about credentials."""

    api_url: Annotated[str, flag(_CREDENTIALS, "API of the platform (VCO_API_URL).")] = ""
    customer_id: Annotated[str, flag(_CREDENTIALS, "Customer (VCO_CUSTOMER_ID).")] = ""
    jwt: Annotated[
        str, flag(_CREDENTIALS, "Token; better VCO_JWT, since others can see flags.")
    ] = ""
    client_id: Annotated[str, flag(_CREDENTIALS, "API key (VCO_CLIENT_ID).")] = ""
    client_secret: Annotated[
        str, flag(_CREDENTIALS, "Its secret; better VCO_CLIENT_SECRET, since others see flags.")
    ] = ""
    iam_url: Annotated[
        str, flag(_CREDENTIALS, "Issuer of tokens, for --client-id (VCO_IAM_URL).")
    ] = ""
    ca_bundle: Annotated[
        Path | None, flag(_CREDENTIALS, "PEM file of the CAs to trust (VCO_CA_BUNDLE).")
    ] = None

    @property
    def given(self) -> Given:
        """The credentials among the flags."""
        return Given(
            api_url=self.api_url,
            customer_id=self.customer_id,
            jwt=self.jwt,
            client_id=self.client_id,
            client_secret=self.client_secret,
            iam_url=self.iam_url,
            ca_bundle=self.ca_bundle,
        )
