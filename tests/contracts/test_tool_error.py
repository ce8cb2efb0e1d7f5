"""ToolError: a chain of exceptions as a value that is passed on from run to run (SR-87, SR-88, SR-122, SR-123)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import RunFailed, ToolError, data_converter
from sojourn.contracts.tool_error import LEFT_OUT, MAX_CAUSES, MAX_CODE, MAX_MESSAGE
from sojourn.logs.values import describe_error
from sojourn.values.wire import encode


def raised(*messages: str) -> Exception:
    """The outermost of a chain of exceptions, each raised from the next."""
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
    """A cause that is a ToolError is kept with its own cause and code (SR-123)."""
    cause = ToolError(message="inner", code="mine", cause=ToolError(message="innermost"))
    assert ToolError.with_cause("outer", cause).cause == cause


def test_from_error_returns_a_tool_error_unchanged() -> None:
    """`from_error` returns a ToolError as the same object (SR-123)."""
    error = ToolError.new("x")
    assert ToolError.from_error(error) is error


def test_format_fills_a_message() -> None:
    """`format` is SR-88's `ToolErrorf`; without arguments a per cent sign is kept."""
    assert ToolError.format("%s has %d devices", "s-1", 3).message == "s-1 has 3 devices"
    assert ToolError.format("100 % sure").message == "100 % sure"


def test_explicit_causes_become_a_chain() -> None:
    """`raise ... from ...` is kept link by link, outermost first (SR-87)."""
    error = ToolError.from_error(raised("outer", "middle", "inner"))
    assert messages_of(error) == ["outer", "middle", "inner"]
    assert str(error) == "outer: middle: inner"
    assert {link.code for link in error.chain()} == {"RuntimeError"}


def test_implicit_context_becomes_a_cause() -> None:
    """An exception that was raised while another was handled has the other as its cause."""
    try:
        try:
            raise KeyError("k")
        except KeyError:
            raise RuntimeError("while handling")  # noqa: B904 - the context is the point
    except RuntimeError as caught:
        error = ToolError.from_error(caught)
    assert messages_of(error) == ["while handling", "KeyError: 'k'"]


def test_a_suppressed_context_is_left_out() -> None:
    """The context that `raise ... from None` suppresses is no cause."""
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
    """At most 8 errors are kept: the outermost four, one with the number left out, and the last three."""
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
    """However often a chain is wrapped, the newest message and the root are kept, and the rest is counted (SR-87)."""
    error = ToolError.from_error(raised(*(f"root {n}" for n in range(links))))
    for hop in range(hops):
        error = ToolError.with_cause(f"hop {hop}", error).without_repeats()
    told = messages_of(error)
    assert told[0] == f"hop {hops - 1}"
    assert told[-1] == f"root {links - 1}"
    assert len(told) <= MAX_CAUSES
    left_out = [int(link.message.split()[0][1:]) for link in error.chain() if link.code == LEFT_OUT]
    assert len(told) - len(left_out) + sum(left_out) == hops + links


def test_a_text_is_kept_once_in_a_chain(subtests: pytest.Subtests) -> None:
    """`without_repeats` removes texts that a cause repeats, and is idempotent."""
    rows = [
        (["a"], ["a"]),
        (["a", "b", "c"], ["a", "b", "c"]),
        # A message that ends with its causes' text keeps its own part.
        (["the planner failed: b: c", "b", "c"], ["the planner failed", "b", "c"]),
        (["outer: inner", "inner"], ["outer", "inner"]),
        # A message that is only its causes' text is left out, as in histories of earlier versions.
        (["b: c", "b", "c"], ["b", "c"]),
        (["p: b: c: b: c", "p: b: c", "b", "c"], ["p", "b", "c"]),
        (["a", "a"], ["a"]),
        (["", ""], [""]),
        # A message that only ends with the same letters stays.
        (["no b", "b"], ["no b", "b"]),
    ]
    for messages, kept in rows:
        with subtests.test(messages=messages, kept=kept):
            chain: ToolError | None = None
            for message in reversed(messages):
                chain = ToolError(message=message, cause=chain)
            assert chain is not None
            assert messages_of(chain.without_repeats()) == kept
            assert chain.without_repeats().without_repeats() == chain.without_repeats()


def test_the_code_of_a_link_that_is_left_out_is_kept() -> None:
    """An error that is left out passes its code on to its cause: the outermost code is the kind of the failure."""
    chain = ToolError(message="gone", code="Outer", cause=ToolError(message="gone", code="Inner"))
    assert chain.without_repeats() == ToolError(message="gone", code="Outer")


def test_any_chain_is_bounded() -> None:
    """`without_repeats` shortens a chain made by hand, too: its length, messages and codes; lone surrogates are replaced."""
    chain: ToolError | None = None
    for n in range(500):
        chain = ToolError(message=f"{n} \ud800 {'x' * 5_000} end {n}", code="c" * 5_000, cause=chain)
    assert chain is not None
    links = list(chain.without_repeats().chain())
    assert len(links) == MAX_CAUSES
    assert (links[0].message[:5], links[-1].message[-5:]) == ("499 ?", "end 0")
    assert all(len(link.message) <= MAX_MESSAGE and len(link.code or "") <= MAX_CODE for link in links)


def test_str_does_not_repeat_a_causes_text() -> None:
    """`str` leaves out a cause's message if the text before ends with it after a colon."""
    error = ToolError(message="cannot load: disk full", cause=ToolError(message="disk full"))
    assert str(error) == "cannot load: disk full"
    alike = ToolError(message="cannot load", cause=ToolError(message="load"))
    assert str(alike) == "cannot load: load"


def test_an_error_that_carries_a_chain_keeps_it() -> None:
    """The chain of a `RunFailed` that a tool raises is the chain of the tool's error (SR-87)."""
    chain = ToolError.with_cause("the planner of a.b failed", KeyError("vault"))
    error = ToolError.from_error(RunFailed(f"run r failed: {chain}", code="KeyError", error=chain))
    assert messages_of(error) == ["run r failed", "the planner of a.b failed", "KeyError: 'vault'"]


def test_a_long_message_is_cut() -> None:
    """A message has at most 2,000 characters: the beginning and the end of a longer one, with an ellipsis between."""
    error = ToolError.from_error(ValueError("begin " + "x" * 10_000 + " the root"))
    assert len(error.message) == MAX_MESSAGE
    assert error.message.startswith("begin x")
    assert error.message.endswith("x the root")
    assert "…" in error.message
    assert ToolError.new("x" * MAX_MESSAGE).message == "x" * MAX_MESSAGE


def test_an_exception_without_text_is_named_by_its_class() -> None:
    """An exception without a message has its class name as the message."""
    assert ToolError.from_error(TimeoutError()).message == "TimeoutError"
    assert ToolError.from_error(ValueError(" \n")).message == "ValueError"


class UnknownSiteError(KeyError):
    """A KeyError with a text of its own."""

    def __str__(self) -> str:
        return f"there is no site {self.args[0]}"


def test_a_text_that_says_nothing_follows_the_class(subtests: pytest.Subtests) -> None:
    """A text that is only a key, or has no letters, is preceded by the exception's class; the code stays the class."""
    rows = [
        (KeyError("x"), "KeyError: 'x'"),
        (KeyError(""), "KeyError: ''"),
        (KeyError("a", 1), "KeyError: ('a', 1)"),
        (type("AbsentError", (KeyError,), {})("no site"), "AbsentError: 'no site'"),
        (UnknownSiteError("s-1"), "there is no site s-1"),
        (StopIteration(5), "StopIteration: 5"),
        (AssertionError(()), "AssertionError: ()"),
        (IndexError("list index out of range"), "list index out of range"),
        (ValueError("gone"), "gone"),
    ]
    for error, message in rows:
        with subtests.test(error=error, message=message):
            assert ToolError.from_error(error) == ToolError(message=message, code=type(error).__name__)


def test_an_exceptions_own_code_is_kept() -> None:
    """An exception's `code` is kept, in at most 100 characters, if it is a text; else the code is the class name."""

    class CodedError(Exception):
        def __init__(self, code: object) -> None:
            super().__init__("x")
            self.code = code

    assert ToolError.from_error(CodedError("insufficient_quota")).code == "insufficient_quota"
    assert ToolError.from_error(CodedError(404)).code == "CodedError"
    assert len(ToolError.from_error(CodedError("c" * 5_000)).code or "") == MAX_CODE


def test_an_exception_whose_text_raises_is_still_an_error() -> None:
    """An exception whose `__str__`, `code` and `error` raise becomes an error with its class name."""

    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @property
        def code(self) -> str:
            raise RuntimeError("no code")

        error = code

    assert ToolError.from_error(BrokenError()) == ToolError(message="BrokenError", code="BrokenError")


class OwnEnd(BaseException):
    """A BaseException that is no Exception."""


class Nonsense(str):
    """A str whose methods raise."""

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


def test_a_hostile_exception_is_still_an_error(subtests: pytest.Subtests) -> None:
    """Whatever its class overrides, an exception is read: its text or class name, and its real `__cause__` (SR-123)."""
    all_attributes = [
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
    ]
    kinds = [type, Nameless]
    for kind in kinds:
        for attributes in all_attributes:
            with subtests.test(str((attributes, kind))):
                hostile = kind("HostileError", (Exception,), attributes)("said")
                BaseException.__cause__.__set__(hostile, ValueError("before"))  # type: ignore[attr-defined]
                error = ToolError.from_error(hostile)
                assert messages_of(error) in (["said", "before"], ["HostileError", "before"])
                assert error.code in ("HostileError", "code")
                assert {type(text) for link in error.chain() for text in (link.message, link.code)} == {str}
                assert ToolError.model_validate_json(encode(error)) == error
                assert describe_error(hostile)[0]["type"] == "HostileError"


@given(st.text(st.characters(), max_size=200))
def test_any_exception_can_be_sent(text: str) -> None:
    """The error of an exception with any text, lone surrogates included, is written and read back."""
    error = ToolError.from_error(ValueError(text))
    assert ToolError.model_validate_json(encode(error)) == error


def test_a_chain_survives_the_wire() -> None:
    """A chain of three errors is written and read back with its codes (SR-87)."""
    error = ToolError.with_cause("a", ToolError.with_cause("b", KeyError("c")))
    (payload,) = data_converter.payload_converter.to_payloads([error])
    (back,) = data_converter.payload_converter.from_payloads([payload], [ToolError])
    assert back == error
    assert [link.code for link in back.chain()] == [None, None, "KeyError"]


@pytest.mark.parametrize("field", ["message", "cause", "code"])
def test_an_error_is_frozen(field: str) -> None:
    """Assigning to a field of a ToolError raises."""
    with pytest.raises(ValueError, match="frozen"):
        setattr(ToolError.new("x"), field, None)


@pytest.mark.parametrize("before", range(1_480, 1_520, 5))
def test_secrets_are_masked_before_a_text_is_shortened(before: int) -> None:
    """No half of a secret is left at the place where a text is shortened."""
    secret = "tok-5f2c91d7-0123456789"
    for text in (f"{'x' * before}{secret}{'y' * 5_000}", f"{secret} " * 1_000):
        told = ToolError.from_error(ValueError(text), lambda said: said.replace(secret, "[token]"))
        assert len(told.message) <= 2_000
        assert not [part for part in (secret[:5], secret[-5:]) if part in told.message]
