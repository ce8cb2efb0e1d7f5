"""Fixtures of the golden files: the shop's service, and commands."""

from tests.cli.conftest import command, start_command
from tests.http.conftest import served, shop

__all__ = ["command", "served", "shop", "start_command"]
