"""The command ``vcosim``: a VCO cloud on this machine."""

import asyncio
import logging
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import cyclopts
import msgspec
from cyclopts import Parameter

from vcosim.clock import Mode
from vcosim.server import Options, Running, database
from vcosim.switches import HELP, Switches, parsed

app = cyclopts.App(name="vcosim", help_format="plaintext", version=lambda: version("capvco"))


def _switch_help() -> str:
    defaults = msgspec.structs.asdict(Switches())
    lines = (f"  {name}={defaults[name]}: {text}" for name, text in HELP.items())
    return "Switches and their defaults:\n" + "\n".join(lines)


@app.default
def serve(  # noqa: PLR0913 - the options of a command
    *,
    db: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    iam_port: int = 0,
    control_port: int = 0,
    world: str = "stock",
    clock: Mode = "real",
    set_: Annotated[
        list[str] | None, Parameter(name="--set", consume_multiple=False, negative="")
    ] = None,
    switches: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Simulate a VCO cloud on this machine.

    Prints one line of JSON with the URLs of the API, the IAM and the control port, a client id and
    secret, and a ready token, and then serves until SIGTERM or SIGINT.

    Parameters
    ----------
    db
        File that holds the cloud; it survives kills and restarts. Without it all is in memory.
    host
        Address to listen on.
    port
        Port of the API; 0 takes a free one.
    iam_port
        Port of the identity provider; 0 takes a free one.
    control_port
        Port for seeds, faults, clock, ledger and logs, without authentication; 0 takes a free one.
    world
        What is there at the start: stock, empty, or a JSON or YAML file. A cloud that exists
        already (--db) is not touched.
    clock
        real, or manual: time stands still until the control port advances it.
    set_
        Switch a behaviour, name=value; may be given more than once.
    switches
        List the switches and exit.
    """
    if switches:
        print(_switch_help())  # noqa: T201 - the answer of a command
        return 0
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        options = Options(
            db=database(db) if db else ":memory:",
            host=host,
            port=port,
            iam_port=iam_port,
            control_port=control_port,
            world=world,
            clock=clock,
            switches=parsed(set_ or []),
        )
        running = Running(options)
    except (ValueError, OSError) as error:
        print(f"vcosim: {error}", file=sys.stderr)  # noqa: T201 - the answer of a command
        return 1
    asyncio.run(_until_signalled(running))
    return 0


async def _until_signalled(running: Running) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.stop)
    print(msgspec.json.encode(running.address).decode(), flush=True)  # noqa: T201 - how a caller learns the ports
    await running.serve()


def main() -> None:
    """Run the command."""
    sys.exit(app())


if __name__ == "__main__":
    main()
