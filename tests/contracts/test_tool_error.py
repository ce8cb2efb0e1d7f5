"""ToolError: exceptions as values that survive every hop (SR-87, SR-88, SR-122, SR-123)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import RunFailed, ToolError, data_converter
from sojourn.contracts.tool_error import LEFT_OUT, MAX_CAUSES, MAX_CODE, MAX_MESSAGE
from sojourn.core.values.wire import encode
from sojourn.logs.exceptions import described


def raised(*messages: str) -> Exception:
    """The outermost of exceptions that were raised from one another."""
    error: Exception | None = None
    for message in reversed(messages):
        try:
            raise RuntimeError(message) from error
        except RuntimeError as caught:
            error = caught
    assert error is not None
    return error


def messages_of(error: ToolError) -> list[str]:
    return [link.message for link in error.chain()]


def test_new_is_a_message_with_no_cause() -> None:
    """`ToolError.new` is SR-88's `NewToolError`: a message, no cause, no code unless one is given."""
    assert ToolError.new("invalid payload") == ToolError(message="invalid payload", cause=None, code=None)
    assert ToolError.new("no", code="mine").code == "mine"


def test_with_cause_wraps_an_exception() -> None:
    """`with_cause` is `NewToolErrorWithCause`: the cause's message equals the exception's text (SR-123)."""
    error = ToolError.with_cause("cannot list", ValueError("bad site"))
    assert error.message == "cannot list"
    assert error.cause == ToolError(message="bad site", code="ValueError")


def test_with_cause_keeps_a_tool_error_as_it_is() -> None:
    """A cause that is a ToolError already is kept, not re-wrapped as text (SR-123)."""
    cause = ToolError(message="inner", code="mine", cause=ToolError(message="innermost"))
    assert ToolError.with_cause("outer", cause).cause == cause


def test_from_error_gives_a_tool_error_back_unchanged() -> None:
    """A ToolError passes through `from_error` as the same value (SR-123)."""
    error = ToolError.new("x")
    assert ToolError.from_error(error) is error


def test_format_fills_a_message() -> None:
    """`format` is SR-88's `ToolErrorf`; without arguments a per cent sign is just that."""
    assert ToolError.format("%s has %d devices", "s-1", 3).message == "s-1 has 3 devices"
    assert ToolError.format("100 % sure").message == "100 % sure"


def test_explicit_causes_become_a_chain() -> None:
    """`raise ... from ...` is kept link by link, outermost first (SR-87)."""
    error = ToolError.from_error(raised("outer", "middle", "inner"))
    assert messages_of(error) == ["outer", "middle", "inner"]
    assert str(error) == "outer: middle: inner"
    assert {link.code for link in error.chain()} == {"RuntimeError"}


def test_implicit_context_becomes_a_cause() -> None:
    """An exception raised while another was handled has that one as its cause."""
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise RuntimeError("while handling")  # noqa: B904 - the context is the point
    except RuntimeError as caught:
        error = ToolError.from_error(caught)
    assert messages_of(error) == ["while handling", "'k'"]


def test_a_suppressed_context_is_left_out() -> None:
    """`raise ... from None` means that the author hides what came before."""
    try:
        try:
            raise KeyError("secret")
        except KeyError:
            raise RuntimeError("clean") from None
    except RuntimeError as caught:
        error = ToolError.from_error(caught)
    assert messages_of(error) == ["clean"]


def test_a_cycle_of_causes_ends() -> None:
    """Exceptions that cause each other make a finite chain."""
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    assert messages_of(ToolError.from_error(first)) == ["first", "second"]


def test_a_deep_chain_is_cut_in_the_middle() -> None:
    """At most 8 links are kept: the outermost, the root, and one that says how many stood between (D-26)."""
    names = [f"e{n}" for n in range(20)]
    kept = ["e0", "e1", "e2", "e3", "(13 more)", "e17", "e18", "e19"]
    error = ToolError.from_error(raised(*names))
    assert messages_of(error) == kept
    assert len(kept) == MAX_CAUSES
    assert [link.code for link in error.chain()].index(LEFT_OUT) == 4
    wrapped = ToolError.with_cause("new", error)
    assert messages_of(wrapped) == ["new", "e0", "e1", "e2", "(14 more)", "e17", "e18", "e19"]
    assert messages_of(ToolError.from_error(raised(*names[:MAX_CAUSES]))) == names[:MAX_CAUSES]


@given(st.integers(1, 60), st.integers(1, 5))
def test_however_often_a_chain_is_wrapped_its_root_stays(hops: int, links: int) -> None:
    """Over any number of hops the root and what was said last are there, and every link is counted (SR-87)."""
    error = ToolError.from_error(raised(*(f"root {n}" for n in range(links))))
    for hop in range(hops):
        error = ToolError.with_cause(f"hop {hop}", error).without_repeats()
    told = messages_of(error)
    assert told[0] == f"hop {hops - 1}"
    assert told[-1] == f"root {links - 1}"
    assert len(told) <= MAX_CAUSES
    left_out = [int(link.message.split()[0][1:]) for link in error.chain() if link.code == LEFT_OUT]
    assert len(told) - len(left_out) + sum(left_out) == hops + links


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["a"], ["a"]),
        (["a", "b", "c"], ["a", "b", "c"]),
        # A wrapper that repeats its causes keeps what it says itself.
        (["the planner failed: b: c", "b", "c"], ["the planner failed", "b", "c"]),
        (["outer: inner", "inner"], ["outer", "inner"]),
        # One that says nothing else is left out, as in histories of before.
        (["b: c", "b", "c"], ["b", "c"]),
        (["p: b: c: b: c", "p: b: c", "b", "c"], ["p", "b", "c"]),
        (["a", "a"], ["a"]),
        (["", ""], [""]),
        # What only looks alike stays.
        (["no b", "b"], ["no b", "b"]),
    ],
    ids=str,
)
def test_a_link_is_told_once(said: list[str], told: list[str]) -> None:
    """What a cause says, the link above does not say again (D-26); and saying it again changes nothing."""
    chain: ToolError | None = None
    for message in reversed(said):
        chain = ToolError(message=message, cause=chain)
    assert chain is not None
    assert messages_of(chain.without_repeats()) == told
    assert chain.without_repeats().without_repeats() == chain.without_repeats()


def test_the_code_of_a_link_that_is_left_out_is_kept() -> None:
    """The outermost code names the failure, whoever says its text."""
    chain = ToolError(message="gone", code="Outer", cause=ToolError(message="gone", code="Inner"))
    assert chain.without_repeats() == ToolError(message="gone", code="Outer")


def test_any_chain_is_bounded() -> None:
    """What a planner made by hand is as small as any other: links, messages and codes, half surrogates too."""
    chain: ToolError | None = None
    for n in range(500):
        chain = ToolError(message=f"{n} \ud800 {'x' * 5_000} end {n}", code="c" * 5_000, cause=chain)
    assert chain is not None
    links = list(chain.without_repeats().chain())
    assert len(links) == MAX_CAUSES
    assert (links[0].message[:5], links[-1].message[-5:]) == ("499 ?", "end 0")
    assert all(len(link.message) <= MAX_MESSAGE and len(link.code or "") <= MAX_CODE for link in links)


def test_one_text_does_not_say_a_cause_twice() -> None:
    """In one line, what a message ends with is not said again."""
    error = ToolError(message="cannot load: disk full", cause=ToolError(message="disk full"))
    assert str(error) == "cannot load: disk full"
    alike = ToolError(message="cannot load", cause=ToolError(message="load"))
    assert str(alike) == "cannot load: load"


def test_an_error_that_carries_a_chain_keeps_it() -> None:
    """A tool that calls another run and meets its `RunFailed` passes on why it failed, link by link (SR-87)."""
    chain = ToolError.with_cause("the planner of a.b failed", KeyError("vault"))
    error = ToolError.from_error(RunFailed(f"run r failed: {chain}", code="KeyError", error=chain))
    assert messages_of(error) == ["run r failed", "the planner of a.b failed", "'vault'"]


def test_a_long_message_is_cut() -> None:
    """A message holds at most 2,000 characters, its beginning and its end, and shows where it was cut."""
    error = ToolError.from_error(ValueError("begin " + "x" * 10_000 + " the root"))
    assert len(error.message) == MAX_MESSAGE
    assert error.message.startswith("begin x")
    assert error.message.endswith("x the root")
    assert "…" in error.message
    assert ToolError.new("x" * MAX_MESSAGE).message == "x" * MAX_MESSAGE


def test_an_exception_without_text_is_named_by_its_class() -> None:
    """An empty text would tell a planner nothing."""
    assert ToolError.from_error(TimeoutError()).message == "TimeoutError"


def test_an_exceptions_own_code_is_kept() -> None:
    """A textual `code` of an exception is its kind, bounded; any other code is not."""

    class CodedError(Exception):
        def __init__(self, code: object) -> None:
            super().__init__("x")
            self.code = code

    assert ToolError.from_error(CodedError("insufficient_quota")).code == "insufficient_quota"
    assert ToolError.from_error(CodedError(404)).code == "CodedError"
    assert len(ToolError.from_error(CodedError("c" * 5_000)).code or "") == MAX_CODE


def test_an_exception_that_cannot_be_shown_is_still_an_error() -> None:
    """A `__str__` that raises does not escape: the boundary must always have an answer."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @property
        def code(self) -> str:
            raise RuntimeError("no code")

        error = code

    assert ToolError.from_error(BrokenError()) == ToolError(message="BrokenError", code="BrokenError")


class OwnEnd(BaseException):
    """A stranger's exception that is no `Exception`."""


class Nonsense(str):
    """A text none of whose ways is a text's."""

    __slots__ = ()

    def _raise(self, *_: object, **__: object) -> Any:
        raise OwnEnd

    encode = __getitem__ = __len__ = __str__ = __format__ = __add__ = __hash__ = __eq__ = _raise  # type: ignore[assignment]


class Nameless(type):
    @property
    def __name__(cls) -> str:
        raise OwnEnd


class BrokenLink(ToolError):  # noqa: N818 - a record, and no exception
    def chain(self) -> Any:
        raise OwnEnd


def raising(_: object) -> Any:
    raise OwnEnd


@pytest.mark.parametrize(
    "attributes",
    [
        *({name: property(raising)} for name in ("__cause__", "__context__", "__suppress_context__")),
        *({name: property(raising)} for name in ("__traceback__", "__class__", "__dict__")),
        *({name: property(lambda _: 7)} for name in ("__cause__", "__context__", "__suppress_context__")),
        {"__getattribute__": lambda *_: raising(_)},
        {"__getattribute__": lambda *_: 7},
        {"__str__": raising},
        {"__str__": lambda _: Nonsense("said")},
        {"__str__": lambda _: 7},
        {"code": Nonsense("code")},
        {"error": Nonsense("error")},
        {"error": BrokenLink(message="before", code="ValueError")},
        {"__module__": 7, "__qualname__": Nonsense("kind"), "__name__": 7},
    ],
)
@pytest.mark.parametrize("kind", [type, Nameless])
def test_a_hostile_exception_is_still_an_error(kind: Any, attributes: dict[str, Any]) -> None:
    """Whatever its class overrides, it is read: its text or its class, and what it was really raised from (SR-123)."""
    hostile = kind("HostileError", (Exception,), attributes)("said")
    BaseException.__cause__.__set__(hostile, ValueError("before"))  # type: ignore[attr-defined]
    error = ToolError.from_error(hostile)
    assert messages_of(error) in (["said", "before"], ["HostileError", "before"])
    assert error.code in ("HostileError", "code")
    assert {type(text) for link in error.chain() for text in (link.message, link.code)} == {str}
    assert ToolError.model_validate_json(encode(error)) == error
    assert described(hostile)[0]["type"] == "HostileError"


@given(st.text(st.characters(), max_size=200))
def test_any_exception_can_be_sent(text: str) -> None:
    """Whatever an exception says, half surrogate pairs included, its error goes over the wire and back."""
    error = ToolError.from_error(ValueError(text))
    assert ToolError.model_validate_json(encode(error)) == error


def test_a_chain_survives_the_wire() -> None:
    """Three links come back as three links with their codes (SR-87)."""
    error = ToolError.with_cause("a", ToolError.with_cause("b", KeyError("c")))
    (payload,) = data_converter.payload_converter.to_payloads([error])
    (back,) = data_converter.payload_converter.from_payloads([payload], [ToolError])
    assert back == error
    assert [link.code for link in back.chain()] == [None, None, "KeyError"]


@pytest.mark.parametrize("field", ["message", "cause", "code"])
def test_an_error_is_frozen(field: str) -> None:
    """An error is a value: nobody changes it on its way."""
    with pytest.raises(ValueError, match="frozen"):
        setattr(ToolError.new("x"), field, None)


@pytest.mark.parametrize("before", range(1_480, 1_520, 5))
def test_what_is_hidden_is_hidden_before_a_text_is_cut(before: int) -> None:
    """The half of a secret that stands at a cut tells much."""
    secret = "tok-5f2c91d7-0123456789"
    for text in (f"{'x' * before}{secret}{'y' * 5_000}", f"{secret} " * 1_000):
        told = ToolError.from_error(ValueError(text), lambda said: said.replace(secret, "[token]"))
        assert len(told.message) <= 2_000
        assert not [part for part in (secret[:5], secret[-5:]) if part in told.message]
