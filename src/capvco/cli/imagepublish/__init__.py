"""``capvco-imagepublish``: uploads a disk image and registers it in locations of a VCO cloud."""

from capvco.cli.imagepublish.command import main

__all__ = ["main"]
