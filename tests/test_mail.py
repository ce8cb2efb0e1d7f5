"""Mail: what a real SMTP server gets, by STARTTLS, TLS and in clear text."""

import asyncio
import email
import ssl
from email.message import EmailMessage
from email.policy import default
from typing import Self

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from temporalio.exceptions import ApplicationError

from sojourn import Agent, App, PlanResult
from sojourn.errors import DefinitionError
from sojourn.mail import Mail
from tests.connection.tls import Authority
from tests.test_notice_message import ASKED, CONSOLE

ADDRESSES = {"sender": "agents@example.com", "to": "ops@example.com"}


class MailServer:
    """An SMTP server on this machine, which refuses the first mails with the replies given."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, **options) -> None:
        self.replies: list[str] = []
        self.envelopes: list[Envelope] = []
        self._tls = tls
        self._options = options

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: SMTP(self, hostname="127.0.0.1", loop=loop, **self._options),
            "127.0.0.1",
            0,
            ssl=self._tls,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def handle_DATA(self, _server, _session, envelope) -> str:  # noqa: N802 - the name that the server calls
        if self.replies:
            return self.replies.pop(0)
        self.envelopes.append(envelope)
        return "250 taken"

    @property
    def mails(self) -> list[EmailMessage]:
        return [email.message_from_bytes(each.content, policy=default) for each in self.envelopes]


@pytest.fixture
def certified(tmp_path, monkeypatch) -> ssl.SSLContext:
    """The context of a server whose certificate this process trusts."""
    authority = Authority(tmp_path, "ours")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.certificate("mail"))
    return context


def check_password(_server, _session, _envelope, _mechanism, data) -> AuthResult:
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (b"agents", b"sesame")
    return AuthResult(success=right, handled=False)


async def test_a_mail_by_starttls_with_a_password(certified) -> None:
    """The mail says what is asked, has the link, and the same id when it is sent again."""
    options = {
        "tls_context": certified,
        "require_starttls": True,
        "auth_required": True,
        "authenticator": check_password,
    }
    async with MailServer(**options) as server:
        mail = Mail(
            "127.0.0.1", port=server.port, user="agents", password="sesame", public_url=CONSOLE, **ADDRESSES
        )
        assert "sesame" not in repr(mail)
        await mail(ASKED)
        await mail(ASKED)
        wrong = Mail("127.0.0.1", port=server.port, user="agents", password="open", **ADDRESSES)
        with pytest.raises(ApplicationError, match=r"127\.0\.0\.1 answered 535"):
            await wrong(ASKED)
    one, other = server.mails
    assert (one["from"], one["to"]) == ("agents@example.com", "ops@example.com")
    assert one["subject"] == "desk.clerk waits for an approval: Cancel order A-1?"
    assert one["message-id"] == other["message-id"]
    assert one.get_content_type() == "text/plain"
    assert f"{CONSOLE}/inbox/r-1/confirm-c1" in one.get_content()


async def test_a_mail_by_tls_to_several(certified) -> None:
    """A text with a line break cannot add a header, and every address gets the mail."""
    async with MailServer(tls=certified) as server:
        to = ["ops@example.com", "kim@example.com"]
        mail = Mail("127.0.0.1", port=server.port, security="tls", sender="agents@example.com", to=to)
        await mail(ASKED.model_copy(update={"text": "one\nBcc: eve@example.com\n\nGröße\u202e"}))
    (envelope,) = server.envelopes
    assert envelope.rcpt_tos == to
    (read,) = server.mails
    assert read["bcc"] is None
    assert "Größe\\u202e" in read.get_content()


async def test_a_server_without_the_wanted_security_gets_nothing(certified, monkeypatch) -> None:
    """Neither one that offers no STARTTLS, nor one whose certificate is not trusted."""
    async with MailServer() as server:
        with pytest.raises(ApplicationError, match="cannot be used: STARTTLS"):
            await Mail("127.0.0.1", port=server.port, **ADDRESSES)(ASKED)
        assert server.envelopes == []
    monkeypatch.delenv("SSL_CERT_FILE")
    async with MailServer(tls_context=certified) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await Mail("127.0.0.1", port=server.port, **ADDRESSES)(ASKED)
        assert server.envelopes == []


async def test_a_run_sends_the_mail_until_it_is_taken(serve, until) -> None:
    """A refusal does not hold up the run, and the mail is sent again."""

    async def plan(turn) -> PlanResult:
        return PlanResult.final("done")

    async with MailServer() as server:
        server.replies = ["451 later"]
        mail = Mail("127.0.0.1", port=server.port, security="none", outcomes=["answered"], **ADDRESSES)
        client = await serve(App(agents=[Agent("test.agent", planner=plan)], on_end=mail))
        assert (await (await client.start("test.agent", "go")).result()).text == "done"
        await until(lambda: server.envelopes)
    assert server.mails[0]["subject"] == "test.agent answered: done"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"to": []}, "at least one address"),
        ({"to": "ops"}, "'ops' is no address"),
        ({"sender": "a@b\nBcc: c@d"}, "is no address"),
        ({"security": "ssl"}, "is none of starttls, tls, none"),
        ({"security": "none", "password": "p"}, "in clear text"),
        ({"user": "ana", "password": "pä"}, "takes ASCII only"),
        ({"password": "p"}, "needs a user"),
        ({"outcomes": ["never"]}, "'never' is none of"),
        ({"public_url": "agents.example.com"}, "write it as https://"),
    ],
)
def test_a_wrong_declaration(changes, why) -> None:
    with pytest.raises(DefinitionError, match=why):
        Mail("127.0.0.1", **{**ADDRESSES, **changes})
