"""Webhook: what a receiver gets, judged by the reference implementation of Standard Webhooks, over real HTTP."""

import asyncio
import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

import pytest
import standardwebhooks
from temporalio.exceptions import ApplicationError

from sojourn import Agent, App, Notice, PlanResult
from sojourn.errors import DefinitionError
from sojourn.network import http_client
from sojourn.webhook import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    """An HTTP server on this machine that answers with the statuses given, then with 204."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.retry_after = ""
        self.got: list[tuple[dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 204)
                self.send_header("retry-after", outer.retry_after)
                self.send_header("location", f"http://127.0.0.1:{outer.port}/elsewhere")
                self.end_headers()

            def log_message(self, *_values) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks/very-secret-path"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        yield receiver


NOTICE = Notice(
    id="r-1/wait/q",
    kind="wait",
    at=datetime(2026, 3, 2, 9, 14, tzinfo=UTC),
    run_id="r-1",
    agent_id="a.b",
    text="Größe?",
)


async def test_the_receiver_can_verify_what_it_gets(receiver):
    await Webhook(receiver.url, SECRET)(NOTICE)
    ((headers, body),) = receiver.got
    sent = standardwebhooks.Webhook(SECRET).verify(body, headers)
    assert sent["type"] == "sojourn.wait"
    assert sent["timestamp"] == "2026-03-02T09:14:00Z"
    assert Notice.model_validate(sent["data"]) == NOTICE
    assert headers["webhook-id"].isascii()
    with pytest.raises(standardwebhooks.webhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(body.replace(b"r-1", b"r-2"), headers)


async def test_no_log_has_the_address(receiver, caplog):
    """The path is a secret; the libraries log every address at INFO, and go on doing so for other programs."""
    with caplog.at_level(logging.INFO):
        await Webhook(receiver.url, template="slack")(NOTICE)
        assert "very-secret-path" not in caplog.text
        async with http_client() as client:
            await client.post(receiver.url, content=b"")
        assert "very-secret-path" in caplog.text


@pytest.mark.parametrize(("status", "is_final"), [(500, False), (302, False), (404, False), (410, True)])
async def test_any_other_answer_is_an_error(receiver, status, is_final):
    receiver.statuses = [status]
    with pytest.raises(ApplicationError, match=f"127.0.0.1 answered {status}") as refused:
        await Webhook(receiver.url, SECRET)(NOTICE)
    assert refused.value.non_retryable == is_final
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("url", "secret", "why"),
    [
        ("ftp://example.com", SECRET, "an address"),
        ("example.com", SECRET, "an address"),
        ("https://example.com", "", "whsec_"),
        ("https://example.com", "whsec_", "whsec_"),
        ("https://example.com", "whsec_%%%", "whsec_"),
        ("https://example.com", "whsec_a secret of words!", "whsec_"),
    ],
)
def test_a_wrong_declaration(url, secret, why):
    with pytest.raises(DefinitionError, match=why):
        Webhook(url, secret)


def test_a_wrong_template_or_address_of_the_console(monkeypatch):
    """Each is refused when the app is declared, and not when the first notice is sent."""
    with pytest.raises(DefinitionError, match=r"template='irc'\) is none of slack, teams"):
        Webhook("https://example.com", template="irc")
    monkeypatch.setenv("SOJOURN_PUBLIC_URL", "agents.example.com")
    with pytest.raises(DefinitionError, match="SOJOURN_PUBLIC_URL"):
        Webhook("https://example.com", template="slack")


async def test_a_run_sends_until_the_receiver_answers(serve, receiver, until):
    """A receiver that is down at first gets the notice all the same, once more with the same id; no history has the secret."""

    async def plan(turn) -> PlanResult:
        return PlanResult.final("done")

    receiver.statuses = [503]
    hook = Webhook(receiver.url, SECRET)
    assert "secret" not in repr(hook)
    client = await serve(App(agents=[Agent("test.agent", planner=plan)], on_end=hook))
    run = await client.start("test.agent", "go")
    await run.result()
    await until(lambda: len(receiver.got) == 2)
    assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
    assert json.loads(receiver.got[1][1])["data"]["text"] == "done"
    delivery = client.temporal.get_workflow_handle(f"{run.id}/end")
    await asyncio.wait_for(delivery.result(), 30)
    for workflow_id in (run.id, f"{run.id}/end"):
        history = (await client.temporal.get_workflow_handle(workflow_id).fetch_history()).to_json()
        assert SECRET.removeprefix("whsec_") not in history
        assert "very-secret-path" not in history


async def test_a_template_is_a_message_with_a_link(receiver, monkeypatch):
    """The address of the console comes from the setting; the message is signed only with a secret, and repeats its id."""
    monkeypatch.setenv("SOJOURN_PUBLIC_URL", "https://agents.example.com/")
    notice = NOTICE.model_copy(update={"await_id": "q"})
    await Webhook(receiver.url, template="slack")(notice)
    await Webhook(receiver.url, SECRET, template="teams", public_url="https://ops.example.com")(notice)
    (plain, slack), (signed, teams) = receiver.got
    (block,) = json.loads(slack)["blocks"]
    assert block["elements"][-1]["elements"][-1]["url"] == "https://agents.example.com/inbox/r-1/q"
    assert "webhook-signature" not in plain
    assert plain["webhook-id"] == signed["webhook-id"]
    sent = standardwebhooks.Webhook(SECRET).verify(teams, signed)
    assert sent["attachments"][0]["content"]["actions"][0]["url"] == "https://ops.example.com/inbox/r-1/q"


async def test_only_the_outcomes_that_are_asked_for_are_sent(receiver):
    """Of ends and turns; a wait is always sent."""
    hook = Webhook(receiver.url, SECRET, outcomes=["failed"])
    for kind, reason in (("wait", ""), ("end", "answered"), ("turn", "failed")):
        await hook(NOTICE.model_copy(update={"kind": kind, "reason": reason}))
    assert [json.loads(body)["type"] for _, body in receiver.got] == ["sojourn.wait", "sojourn.turn"]


async def test_a_receiver_says_when_to_come_again(receiver):
    """Slack answers 429 with `retry-after`; a time that is no number, or too long, counts for nothing."""
    receiver.statuses, waits = [429, 429, 429], []
    for said in ("30", "86400", "tomorrow"):
        receiver.retry_after = said
        with pytest.raises(ApplicationError) as refused:
            await Webhook(receiver.url, SECRET)(NOTICE)
        waits.append(refused.value.next_retry_delay)
    assert waits == [timedelta(seconds=30), timedelta(seconds=600), None]


def test_what_is_no_async_function_is_refused():
    async def plan(turn) -> PlanResult:
        return PlanResult.final("done")

    for wrong in (print, "https://example.com", Webhook):
        with pytest.raises(DefinitionError, match="an async function of a notice, or a Webhook"):
            App(agents=[Agent("test.agent", planner=plan)], on_end=wrong)
