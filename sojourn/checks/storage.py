"""Check that the app's external storage returns what is stored in it."""

from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverRetrieveContext, StorageDriverStoreContext

from sojourn.authoring.app import App
from sojourn.checks import Check
from sojourn.contracts.tool_error import ToolError

__all__ = ["check_storage"]

_PROBE = Payload(metadata={"encoding": b"json/plain"}, data=b'"sojourn doctor"')
"""The object to store. It is the same each time, so the storage has it once."""


async def check_storage(app: App) -> Check:
    """Store an object of a few bytes in the app's storage, and read it."""
    driver = app.storage
    if driver is None:
        return Check(
            "storage",
            None,
            "App(storage=...) is not set: only workers beside a development server keep large results",
        )
    name = f"{type(driver).__name__} {driver.name()!r}"
    try:
        claims = await driver.store(StorageDriverStoreContext(), [_PROBE])
        (read,) = await driver.retrieve(StorageDriverRetrieveContext(), claims)
    except Exception as error:  # noqa: BLE001 - a storage driver may raise anything
        why = ToolError.from_error(error).message
        mend = "correct that; meanwhile calls with large results are answered with an error"
        return Check("storage", False, f"{name}: {why}", mend)
    is_same = read == _PROBE
    return Check("storage", is_same, f"{name} {'keeps' if is_same else 'changes'} what it is given")
