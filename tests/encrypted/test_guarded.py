"""The guarded data converter: payloads of outsiders fail no workflow task; a codec that does not work raises."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.worker import decode_activation
from temporalio.converter import (
    CompositePayloadConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    ExternalStorage,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from sojourn import data_converter
from sojourn.contracts import RunInput
from sojourn.converter.codec import CodecFailedError, GuardedCodec, UnreadableError
from sojourn.storage import FolderStorage
from sojourn.values.undecodable import Undecodable
from tests.encrypted.keys import FernetCodec

REFERENCE = b"json/external-storage-reference"
MARKER = "__temporal_external_storage_reference"
PROTO = {"encoding": b"json/protobuf", "messageType": b"temporal.api.sdk.v1.ExternalStorageReference"}

OUTSIDERS = [
    pytest.param({"encoding": REFERENCE}, b"{", id="a reference that is no JSON"),
    pytest.param({"encoding": REFERENCE}, b'{"driver_name": "s3"}', id="a reference to nothing"),
    pytest.param(
        {"encoding": REFERENCE},
        b'{"driver_name":"folder","driver_claim":{"claim_data":{"sha256":"x"}}}',
        id="a claim",
    ),
    pytest.param(PROTO, b"{}", id="a newer reference"),
    pytest.param(
        PROTO, b'{"driverName":"folder","claimData":{"sha256":"0"}}', id="a newer reference to nothing"
    ),
    pytest.param({"encoding": b"json/plain", MARKER: b"true"}, b"{}", id="an encrypted reference"),
    pytest.param({"encoding": b"binary/encrypted"}, b"\x00garbage", id="ciphertext of other keys"),
    pytest.param({"encoding": b"sojourn/unread", "reason": b"\xff"}, b"", id="our own mark"),
    pytest.param({"encoding": b"made/up"}, b"x", id="an unknown encoding"),
    pytest.param({}, b"x", id="no encoding"),
]


def converters(tmp_path):
    storage = ExternalStorage([FolderStorage(tmp_path)])
    return [
        data_converter,
        dataclasses.replace(data_converter, payload_codec=FernetCodec()),
        dataclasses.replace(data_converter, payload_codec=FernetCodec(), encrypted_only=True),
        dataclasses.replace(data_converter, external_storage=storage),
        dataclasses.replace(data_converter, external_storage=storage, payload_codec=FernetCodec()),
    ]


@pytest.mark.parametrize(("metadata", "data"), OUTSIDERS)
async def test_a_workflow_task_with_any_payload_is_decoded(metadata, data, tmp_path):
    """A payload that cannot be opened does not fail the task, wherever Temporal carries it to a workflow (SR-115).

    The payloads are decoded by the SDK itself, so that the test fails when a version of the SDK uses other methods.
    """
    for converter in converters(tmp_path):
        given_ = Payload(metadata=metadata, data=data)
        activation, init = WorkflowActivation(), WorkflowActivation().jobs.add().initialize_workflow
        init.arguments.extend([given_, given_])
        init.memo.fields["m"].CopyFrom(given_)
        init.headers["h"].CopyFrom(given_)
        activation.jobs.add().initialize_workflow.CopyFrom(init)
        signal = activation.jobs.add().signal_workflow
        signal.input.extend([given_, given_])
        signal.headers["h"].CopyFrom(given_)
        activation.jobs.add().do_update.input.append(given_)
        activation.jobs.add().query_workflow.arguments.append(given_)
        await decode_activation(activation, converter, decode_headers=True, storage_concurrency_limit=3)
        for value in converter.payload_converter.from_payloads(activation.jobs[1].signal_workflow.input):
            assert not isinstance(value, dict)


@pytest.mark.parametrize(("metadata", "data"), OUTSIDERS)
async def test_with_a_type_hint_a_payload_that_cannot_be_opened_is_an_error(metadata, data, tmp_path):
    """A payload that Sojourn wrote is decoded with a type hint: to that type, or with an error."""
    for converter in converters(tmp_path):
        with pytest.raises((UnreadableError, ValueError)):
            await converter.decode([Payload(metadata=metadata, data=data)], [RunInput])


@given(
    st.dictionaries(st.sampled_from(["encoding", "messageType", MARKER, "x"]), st.binary(max_size=40)),
    st.binary(max_size=60),
)
async def test_any_bytes_are_decoded_or_marked_as_unread(metadata, data):
    """Any payload is decoded to one value without a type hint."""
    for converter in (data_converter, dataclasses.replace(data_converter, payload_codec=FernetCodec())):
        assert len(await converter.decode([Payload(metadata=metadata, data=data)])) == 1


async def test_while_the_key_service_is_away_no_payload_is_marked_as_unread():
    """While the codec does not work decoding raises; afterwards a valid payload is decoded, and garbage beside it marked."""
    codec = FernetCodec()
    converter = dataclasses.replace(data_converter, payload_codec=codec)
    real, garbage = (
        (await converter.encode([{"answer": 1}]))[0],
        Payload(metadata={"encoding": b"binary/encrypted"}),
    )
    codec.away = True
    for payloads in ([real], [garbage], [real, garbage]):
        with pytest.raises(CodecFailedError):
            await converter.decode(payloads)
    codec.away = False
    read, refused = await converter.decode([real, garbage])
    assert read == {"answer": 1}
    assert isinstance(refused, Undecodable)


async def test_a_short_failure_of_the_codec_loses_nothing():
    """A payload is decoded after all when the codec fails once or twice, and works again."""
    codec = FernetCodec()
    converter = dataclasses.replace(data_converter, payload_codec=codec)
    payloads = await converter.encode(["said"])
    for failures in (1, 2):
        left = [None] * failures
        codec.check = lambda left=left: (
            (_ for _ in ()).throw(ConnectionError()) if left and not left.pop() else None
        )
        assert await converter.decode(payloads) == ["said"]


async def test_clear_text_is_marked_only_where_it_is_refused():
    """With `encrypted_only` a payload in clear text is `Undecodable` without a type hint, and decoded with one."""
    clear = (await data_converter.encode([{"agent_id": "a.b", "messages": []}]))[0]
    strict = dataclasses.replace(data_converter, payload_codec=FernetCodec(), encrypted_only=True)
    (refused,) = await strict.decode([clear])
    assert isinstance(refused, Undecodable)
    assert refused.is_clear
    assert (await strict.decode([clear], [RunInput]))[0].agent_id == "a.b"
    assert await strict.decode(await strict.encode([7])) == [7]
    assert await dataclasses.replace(strict, encrypted_only=False).decode([clear]) == [refused.value]


async def test_a_codec_is_guarded_once():
    """However often a converter is copied, its codec is wrapped once, with the newest setting."""
    codec = FernetCodec()
    once = dataclasses.replace(data_converter, payload_codec=codec)
    again = dataclasses.replace(once, encrypted_only=True)
    assert isinstance(again.payload_codec, GuardedCodec)
    assert again.payload_codec.codec is codec
    assert again.payload_codec.encrypted_only


async def test_a_codec_that_returns_no_payloads_raises():
    """An object that is no payload does not reach Temporal's own code, which would fail the whole workflow task."""

    class Odd(FernetCodec):
        async def decode(self, payloads):
            return ["no payload"]

    with pytest.raises(CodecFailedError):
        await dataclasses.replace(data_converter, payload_codec=Odd()).decode([Payload()])


class Addressed(EncodingPayloadConverter, WithSerializationContext):
    """A converter of a user's, which uses the context."""

    encoding = "json/addressed"

    def to_payload(self, value):
        return None

    def from_payload(self, payload, type_hint=None):
        raise NotImplementedError

    def with_context(self, context):
        return type(self)()


class WithAddressed(CompositePayloadConverter):
    def __init__(self):
        super().__init__(Addressed(), *DefaultPayloadConverter.default_encoding_payload_converters)


def test_a_context_reaches_every_part_that_uses_it(tmp_path):
    """Where no part uses a context the converter is its own, since the SDK asks some twenty times per call."""
    context = WorkflowSerializationContext(namespace="default", workflow_id="r-1")
    assert data_converter.with_context(context) is data_converter
    stored = dataclasses.replace(data_converter, external_storage=ExternalStorage([FolderStorage(tmp_path)]))
    assert stored.with_context(context).external_storage is not None
    own = dataclasses.replace(data_converter, payload_converter_class=WithAddressed)
    assert own.with_context(context).payload_converter is not own.payload_converter
