"""Stored artifact: an artifact of an event, with its data from external storage."""

import temporalio.client
from pydantic_core import from_json

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.tool_error import ToolError
from sojourn.errors import ArtifactNotFound, InvalidInput
from sojourn.storage import StorageDriver, codec_for, load

__all__ = ["whole_artifact"]


async def whole_artifact(
    temporal: temporalio.client.Client, storage: StorageDriver | None, artifact: Artifact, run_id: str
) -> Artifact:
    """The artifact with its data.

    Args:
        temporal: The client, with the codec that decrypts what runs store.
        storage: Where the workers keep what is too large for a history.
        artifact: The artifact as an event of its run has it, with its data or its claim.
        run_id: The run that made it.

    Raises:
        InvalidInput: The data is in a storage that is not here.
        ArtifactNotFound: The stored data was removed, or cannot be read.
    """
    if artifact.claim is None:
        return artifact
    if storage is None:
        raise InvalidInput(
            f"{artifact.ref} is in external storage; give this client the storage of its workers: "
            "Client.connect(..., storage=...)",
            run_id=run_id,
        )
    try:
        codec = codec_for(temporal.data_converter, temporal.namespace, run_id)
        data = await load(storage, artifact.claim, codec)
    except Exception as error:
        why = ToolError.from_error(error).message
        raise ArtifactNotFound(f"{artifact.ref} cannot be read: {why}", run_id=run_id) from error
    return artifact.model_copy(update={"data": from_json(data)})
