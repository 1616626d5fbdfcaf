"""The Kubernetes step: kubeadm, kubelet and containerd, where the image has not all of them."""

from capvco.bootstrap.commands import calls_kubeadm
from capvco.bootstrap.document import Document
from capvco.bootstrap.step import Step, with_step

SCRIPTS = ("kubernetes.sh", "lib.sh")


def with_kubernetes_step(document: Document, version: str) -> Document:
    """Install what is missing of a version before kubeadm runs. Raises UserDataError.

    A document that does not call kubeadm stays as it is: its author has another way to a node.
    """
    if not calls_kubeadm(document):
        return document
    step = Step(
        name="kubernetes",
        scripts=SCRIPTS,
        entry=("kubernetes.sh", "boot"),
        settings={"CAPVCO_KUBERNETES_VERSION": version},
    )
    return with_step(document, step)
