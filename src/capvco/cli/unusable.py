"""What a person gave and no run can begin with."""


class Unusable(Exception):  # noqa: N818 - reads as what was given
    """Flags, files, credentials or a kubeconfig cannot be used; the message says what to do."""
