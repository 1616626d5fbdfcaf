"""Ports that are free, different, and out of the way of outgoing connections."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kubelocal import ports
from kubelocal.errors import StartFailed
from kubelocal.ports import free_ports


def test_ports_are_different_and_can_be_bound() -> None:
    """All of them at once."""
    found = free_ports(20)
    assert len(set(found)) == 20
    sockets = [socket.socket() for _ in found]
    try:
        for sock, port in zip(sockets, found, strict=True):
            sock.bind(("127.0.0.1", port))
    finally:
        for sock in sockets:
            sock.close()


def test_ports_lie_below_those_of_outgoing_connections() -> None:
    """So a stopped API server finds its port again."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(port < first for port in free_ports(50)) or first < 16_000


def test_a_port_in_use_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one port in the range and that one taken there is none, and that is said."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_candidates", lambda: range(port, port + 1))
        with pytest.raises(StartFailed, match="only 0 of 1 TCP ports are free"):
            free_ports(1)
