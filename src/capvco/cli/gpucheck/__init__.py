"""``capvco-gpucheck``: what GPU types a location offers, and what a customer holds there.

Needs no Kubernetes but for telling whose a reservation is. Ownership is decided as the controllers
decide it (docs/adr/0001-ownership.md), types are resolved by their own module.
"""

from capvco.cli.gpucheck.command import main

__all__ = ["main"]
