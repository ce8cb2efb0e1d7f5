"""A cache of converted messages, so that a turn converts only the new ones."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pydantic_ai.messages import BinaryContent, BinaryImage, ModelMessage

from sojourn.contracts.message import CompactionPart, Message
from sojourn.contracts.plan import Usage
from sojourn.contracts.tool_result import ToolResult
from sojourn.models.attachments import Shown, Takes, load_attachments, with_files_of_result
from sojourn.models.compaction import ResultRead, compact_messages, compaction_of
from sojourn.models.files import load_pictures, picture_refs, with_pictures
from sojourn.models.messages import Converter, is_prefix
from sojourn.models.names import NO_KEYS, Names
from sojourn.models.projection import Keys
from sojourn.serving.run_cache import RunCache
from sojourn.values.wire import size_of

__all__ = ["ModelConversation", "ModelConversations", "ResultText"]

ResultText = Callable[[ToolResult, Names], Any]
MAX_RUNS = 500
MAX_BYTES = 25_000_000


class ModelConversation:
    """A run as its model reads it, derived from the transcript.

    A different transcript is read from the start. Only a compaction that no plan has recorded yet is known
    here alone: a repeated attempt need not ask for its summary again.
    """

    def __init__(self, text: ResultText) -> None:
        self._text = text
        self._begin()

    def _begin(self) -> None:
        self.size = 0
        self.names = Names(())
        self.messages: list[Message] = []
        self.unrecorded: tuple[CompactionPart, Usage] | None = None
        """The compaction that the plan has to record, and what its summary has used of a model."""
        self._recorded: CompactionPart | None = None
        self._source: list[Message] = []
        self._tools: list[str] = []
        self._keys: Mapping[str, Keys] = NO_KEYS
        self._deferred: Collection[str] = ()
        self._reads: set[str] = set()
        self._called: set[str] = set()
        self.pictures: dict[str, BinaryImage | None] = {}
        """The pictures that the model sees, by reference; None for one that cannot be sent."""
        self._picture_refs: list[str] = []
        self.files: dict[str, Shown] = {}
        """What the model gets of each attachment, by id."""
        self._converter = Converter(self.names, self.content_of, self.files)

    @property
    def compaction(self) -> CompactionPart | None:
        return self.unrecorded[0] if self.unrecorded else self._recorded

    def update(
        self,
        transcript: Sequence[Message],
        tools: Iterable[str],
        keys: Mapping[str, Keys] = NO_KEYS,
        deferred: Collection[str] = (),
        reads: Collection[str] = (),
    ) -> None:
        if not is_prefix(self._source, transcript):
            same = self.unrecorded and self._source == [*transcript[: len(self._source)]]
            unrecorded = self.unrecorded if same else None
            self._begin()
            self.unrecorded = unrecorded
        new = transcript[len(self._source) :]
        self._source.extend(new)
        self.size += sum(size_of(message) for message in new)
        self._called.update(call.name for message in new for call in message.tool_calls)
        recorded = next((part for message in reversed(new) if (part := compaction_of(message))), None)
        is_other = recorded is not None and recorded != self.compaction
        if recorded:
            self._recorded, self.unrecorded = recorded, None
        self._tools, self._keys, self._deferred = [*tools], keys, deferred
        is_other = is_other or self._reads != {*reads}
        self._reads = {*reads}
        names = Names([*self._tools, *sorted(self._called)], keys, deferred)
        if is_other or not self.messages or names != self.names:
            self.names = names
            self._read_anew()
        else:
            self.messages.extend(new)
            self._picture_refs += picture_refs(new)

    def compact(self, transcript: Sequence[Message], part: CompactionPart, used: Usage) -> None:
        self.update(transcript, self._tools, self._keys, self._deferred, self._reads)
        self.unrecorded = part, used
        self._read_anew()

    def request(self) -> list[ModelMessage]:
        return self._converter.messages(self.messages)

    def text_of(self, result: ToolResult) -> Any:
        if isinstance(result, ResultRead):
            return result.text
        return self._text(self.names.in_result(result), self.names)

    def content_of(self, result: ToolResult) -> Any:
        if isinstance(result, ResultRead):
            return self.text_of(result)
        return with_files_of_result(
            with_pictures(self.text_of(result), result, self.pictures), result, self.files
        )

    @property
    def picture_bytes(self) -> int:
        files = (file for file in self.files.values() if isinstance(file, BinaryContent))
        images = (image for image in self.pictures.values() if image)
        return sum(len(each.data) for each in (*images, *files))

    async def load_pictures(self, takes: Takes) -> None:
        shown = await load_pictures(self._picture_refs, self.pictures)
        files = await load_attachments(self.messages, self.files, takes)
        is_same = shown.keys() >= self.pictures.keys() and files == self.files
        self.pictures, self.files = shown, files
        if not is_same:
            self._converter = Converter(self.names, self.content_of, self.files)

    def drop_pictures(self) -> bool:
        """Stop sending the current pictures. Return False if there are none."""
        had = any(self.pictures.values()) or any(
            isinstance(file, BinaryContent) for file in self.files.values()
        )
        self.pictures = dict.fromkeys(self.pictures)
        self.files = dict.fromkeys(self.files, "the provider took no more files in a request")
        self._converter = Converter(self.names, self.content_of, self.files)
        return had

    def _read_anew(self) -> None:
        self.messages = compact_messages(self._source, self.compaction, self.text_of, self._reads)
        self._picture_refs = picture_refs(self.messages)
        self._converter = Converter(self.names, self.content_of, self.files)


class ModelConversations:
    """A bounded cache of conversations, by run, which go with the run."""

    def __init__(self, text: ResultText) -> None:
        self._text = text
        self._kept: RunCache[ModelConversation] = RunCache(MAX_RUNS, MAX_BYTES)

    def read(
        self,
        run_id: str,
        transcript: Sequence[Message],
        tools: Iterable[str],
        keys: Mapping[str, Keys] = NO_KEYS,
        deferred: Collection[str] = (),
        reads: Collection[str] = (),
    ) -> ModelConversation:
        conversation = self._kept.get(run_id) or ModelConversation(self._text)
        conversation.update(transcript, tools, keys, deferred, reads)
        self.keep(run_id, conversation)
        return conversation

    def keep(self, run_id: str, conversation: ModelConversation) -> None:
        self._kept.keep(run_id, conversation, conversation.size + conversation.picture_bytes)

    def drop(self, run_id: str) -> None:
        self._kept.drop(run_id)
