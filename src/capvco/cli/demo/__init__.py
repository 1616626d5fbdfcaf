"""``capvco demo``: a GPU pool comes up and goes down, everything but the cloud real."""

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from capvco.cli.demo import stage
from capvco.cli.demo.objects import Access, Wish
from capvco.cli.demo.screen import Screen
from capvco.cli.demo.story import Failed, Story
from kubelocal import KubelocalError, LocalCluster, Options, for_console

app = App(
    name="capvco demo",
    help="Bring a pool of GPU workers up and down on a simulated VCO cloud, through a real"
    " Kubernetes API and the real Cluster API managers, and print the cloud's ledger.",
)
_MACHINES, _LEFT = 3, 1


@app.default
def demo(
    *,
    keep: Annotated[bool, Parameter(negative="")] = False,
    show_user_data: Annotated[bool, Parameter(negative="")] = False,
    directory: Path | None = None,
    gpu_type: str = "NVIDIA A100",
) -> int:
    """Run the demo; exit 0 only if every reservation was released in the end.

    Parameters
    ----------
    keep
        Leave everything running once the pool is up, and print the KUBECONFIG.
    show_user_data
        Print the user data of a GPU worker as its VM received it. It is the demo's own, with a
        made-up token: nothing is masked.
    directory
        Where the state of the demo lies (default: ~/.local/state/capvco/demo).
    gpu_type
        The GPU type that the pool asks for.
    """
    console = Console(highlight=False)
    where = (directory or default_directory()).absolute()
    options = Options(directory=where, keep=keep, progress=for_console(console))
    with ExitStack() as stack:
        _orderly(stack)
        screen = stack.enter_context(Screen(console))
        try:
            wish = Wish(gpu_type=gpu_type, machines=_MACHINES)
            return _play(stack, options, screen, wish, show_user_data=show_user_data)
        except (KubelocalError, Failed) as error:
            console.print(f"[red]demo failed:[/red] {error}")
            return 1


def _play(
    stack: ExitStack, options: Options, screen: Screen, wish: Wish, *, show_user_data: bool
) -> int:
    cluster = LocalCluster(options)
    screen.title("Control plane, Cluster API, CAPVCO, and a simulated VCO cloud")
    stack.callback(cluster.stop)
    cluster.start()
    stage.install(cluster)
    said = stage.start_cloud(cluster)
    stage.start_manager(cluster)
    screen.say("the manager runs with its ServiceAccount's rights")
    story = Story(cluster, said["control_url"], screen)
    access = Access(
        api_url=said["url"],
        iam_url=said["iam_url"],
        customer_id=said["customer_id"],
        client_id=said["client_id"],
        client_secret=said["client_secret"],
    )
    story.ask(wish, access)
    if show_user_data:
        story.user_data(cluster.directory / "user-data.yaml")
    if options.keep:
        return _leave(stack, cluster, screen, said["control_url"])
    story.scale(_LEFT)
    story.delete()
    story.settle()
    return 0


def _leave(stack: ExitStack, cluster: LocalCluster, screen: Screen, control_url: str) -> int:
    where, kubeconfig = cluster.directory, cluster.kubeconfig
    cluster.leave()
    stack.pop_all()
    screen.title("All of it is left running")
    screen.say(f"export KUBECONFIG={kubeconfig}")
    screen.say(f"the cloud's ledger: {control_url}/ledger")
    screen.say(f"end it: {sys.executable} -m kubelocal down --directory {where}")
    return 0


def default_directory() -> Path:
    """Return where the demo keeps its state."""
    return Path.home() / ".local" / "state" / "capvco" / "demo"


def _orderly(stack: ExitStack) -> None:
    """Turn every polite request to end into an unwinding that nothing interrupts."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        _ignore()
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    stack.callback(_ignore)


def _ignore() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    sys.exit(app(list(arguments), result_action="return_value") or 0)
