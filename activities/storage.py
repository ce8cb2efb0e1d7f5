"""The external storage of an activity: the app's, else that of a development server on this machine."""

from temporalio import activity
from temporalio.converter import StorageDriver

from sojourn.authoring.app import App
from sojourn.connection.nearby_storage import nearby_storage

__all__ = ["storage_of"]


def storage_of(app: App) -> StorageDriver | None:
    """Return the storage for the activity that runs; None where there is none."""
    if app.storage is not None:
        return app.storage
    try:
        client = activity.client()
    except RuntimeError:
        return None  # no server knows this activity
    return nearby_storage(client.service_client.config.target_host)
