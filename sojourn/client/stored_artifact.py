"""Stored artifact: an artifact of a run, with its data from the history or from external storage."""

import temporalio.client
from pydantic_core import from_json

from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact
from sojourn.errors import ArtifactNotFound, InvalidInput
from sojourn.events.one_run import events_of
from sojourn.storage import StorageDriver, codec_for, load

__all__ = ["artifact_at", "whole_artifact"]


async def artifact_at(
    temporal: temporalio.client.Client, storage: StorageDriver | None, ref: str
) -> Artifact:
    """The artifact of a reference, with its data, read from the events of its run.

    Args:
        temporal: The client, with the codec that decrypts what runs store.
        storage: Where the workers keep what is too large for a history.
        ref: `<run id>#<tool_call_id>/<kind>`.

    Raises:
        InvalidInput: The text is not a reference, or the data is in a storage that is not here.
        ArtifactNotFound: The run made no such artifact, or the stored data was removed.
        RunNotFound: There is no such run.
        ServerUnavailable: The server did not answer for a minute.
    """
    run_id, _, rest = ref.partition("#")
    call_id, _, kind = rest.partition("/")
    if not (run_id and call_id and kind):
        raise InvalidInput(
            f"{ref!r} is not an artifact's reference; its form is <run id>#<tool_call_id>/<kind>"
        )
    async for event in events_of(temporal, run_id, storage, follow=False):
        made = event.artifacts if event.type == "tool_end" and event.tool_call_id == call_id else ()
        for artifact in made:
            if artifact.ref == ref:
                return await whole_artifact(temporal, storage, artifact, run_id)
    raise ArtifactNotFound(f"run {run_id} has no artifact {rest!r}", run_id=run_id)


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
