"""Build the principal of a command from `--as`, `--role` and `--tenant`."""

from typing import TYPE_CHECKING

from sojourn.cli.failure import USAGE, CommandError
from sojourn.cli.screen.text import plain

if TYPE_CHECKING:
    from sojourn.client.client import Client
    from sojourn.contracts.principal import Principal

__all__ = ["answerer", "own_role", "principal_of"]


def principal_of(
    subject: str | None, roles: list[str] | None = None, tenant: str | None = None
) -> "Principal | None":
    """Return the principal that the options name, or None without `--as`.

    Raises:
        CommandError: `--role` or `--tenant` is given without `--as`, or the subject is no valid name of a principal.
    """
    from sojourn.contracts.principal import Principal, principal_fault

    if subject is None:
        if roles or tenant is not None:
            raise CommandError("--role and --tenant say more of --as SUBJECT; give that too", exit_code=USAGE)
        return None
    principal = Principal(subject=subject, tenant=tenant or "", roles=roles or [])
    if fault := principal_fault(principal):
        raise CommandError(f"--as: {fault}", exit_code=USAGE)
    return principal


def own_role(role: str) -> str:
    """Return a note about a role that is none of the service's own."""
    return f"the role {plain(role)} opens no part of the service; tools, policies and lists of approvers may name it"


async def answerer(client: "Client", run_id: str, named: "Principal | None") -> "Principal | None":
    """Return the principal that answers, in the run's own tenant."""
    if named is None:
        return None
    status = await client.get_run(run_id).status()
    acts_for = status.acts_for or status.principal
    return named.model_copy(update={"tenant": acts_for.tenant}) if acts_for else named
