"""Send notices as e-mails."""

import asyncio
import hashlib
import smtplib
import ssl
from collections.abc import Collection, Sequence
from contextlib import closing
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Literal

import structlog
from temporalio.exceptions import ApplicationError

from sojourn.connection import settings
from sojourn.contracts.run import Notice
from sojourn.errors import DefinitionError
from sojourn.notice_message import Outcome, check_outcomes, is_told, message_of
from sojourn.values.visible import one_line

__all__ = ["Mail"]

_TIMEOUT = 20.0
"""Seconds for each step of the conversation with the mail server."""

Security = Literal["starttls", "tls", "none"]

_PORTS = {"starttls": 587, "tls": 465, "none": 25}

_log = structlog.get_logger("sojourn.mail")


class Mail:
    """An async function for `App(on_wait=..., on_turn=..., on_end=...)`.

    Each notice is an e-mail in plain text. A notice that is sent again has the same `Message-ID`. If the server refuses the mail or cannot be reached,
    Temporal sends the notice again.

    Args:
        host: The mail server.
        sender: The address that the mail comes from.
        to: The address, or the addresses.
        port: Of the mail server; by default 587, 465 or 25, as `security` says.
        user: The name to sign in with; empty to send without signing in.
        password: The password; it is not written to histories, logs or errors.
        security: `starttls`, `tls`, or `none`, which sends in clear text and takes no password. The server's certificate is checked.
        outcomes: As that of `Webhook`.
        public_url: As that of `Webhook`.

    Raises:
        DefinitionError: An argument or `SOJOURN_PUBLIC_URL` cannot be used.
    """

    def __init__(
        self,
        host: str,
        *,
        sender: str,
        to: str | Sequence[str],
        port: int | None = None,
        user: str = "",
        password: str = "",
        security: Security = "starttls",
        outcomes: Collection[Outcome] | None = None,
        public_url: str | None = None,
    ) -> None:
        if security not in _PORTS:
            raise DefinitionError(f"Mail(security={security!r}) is none of {', '.join(_PORTS)}")
        if security == "none" and password:
            raise DefinitionError("Mail(security='none') would send the password in clear text")
        if not (user + password).isascii():
            raise DefinitionError("Mail(user=..., password=...) takes ASCII only, as SMTP does")
        if password and not user:
            raise DefinitionError("Mail(password=...) needs a user")
        self._host = host
        self._port = port or _PORTS[security]
        self._sender = _address(sender)
        self._to = [_address(each) for each in ([to] if isinstance(to, str) else to)]
        if not self._to:
            raise DefinitionError("Mail(to=...): at least one address")
        self._user, self._password = user, password
        self._security = security
        self._outcomes = check_outcomes(outcomes)
        self._public_url = public_url
        settings.public_url(public_url)

    def __repr__(self) -> str:
        return f"<Mail {self._host}>"

    async def __call__(self, notice: Notice) -> None:
        """Send a notice.

        Raises:
            ApplicationError: `MailRefused`, if the mail server refuses the mail, or the sign-in.
            OSError: The mail server cannot be reached.
        """
        if not is_told(notice, self._outcomes):
            return
        await asyncio.to_thread(self._send, self._write(notice))

    def _write(self, notice: Notice) -> EmailMessage:
        message = message_of(notice, settings.public_url(self._public_url))
        mail = EmailMessage(policy=SMTP)
        mail["From"] = self._sender
        mail["To"] = self._to
        mail["Subject"] = one_line(f"{message.title}: {message.text}" if message.text else message.title, 150)
        mail["Date"] = notice.at
        mail["Message-ID"] = f"<{hashlib.sha256(notice.id.encode()).hexdigest()[:32]}@{self._sender.domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.plain)
        return mail

    def _send(self, mail: EmailMessage) -> None:
        try:
            # A QUIT without an answer would have Temporal send an accepted mail again.
            with closing(self._connect()) as server:
                if self._user:
                    server.login(self._user, self._password)
                refused = server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            raise self._refused(f"refused every address ({', '.join(map(str, codes))})") from None
        except (
            smtplib.SMTPResponseException
        ) as error:  # its text is the server's, and may repeat the user's name
            raise self._refused(f"answered {error.smtp_code}") from None
        except smtplib.SMTPNotSupportedError as error:
            raise self._refused(f"cannot be used: {error}") from None
        if refused:
            _log.warning("mail_addresses_refused", host=self._host, count=len(refused))

    def _connect(self) -> smtplib.SMTP:
        context = ssl.create_default_context()
        if self._security == "tls":
            return smtplib.SMTP_SSL(self._host, self._port, timeout=_TIMEOUT, context=context)
        server = smtplib.SMTP(self._host, self._port, timeout=_TIMEOUT)
        if self._security == "starttls":
            try:
                server.starttls(context=context)
            except BaseException:
                server.close()
                raise
        return server

    def _refused(self, what: str) -> ApplicationError:
        return ApplicationError(f"the mail server at {self._host} {what}", type="MailRefused")


def _address(text: str) -> Address:
    try:
        address = Address(addr_spec=text)
    except (ValueError, IndexError, MessageError):
        address = Address()
    if not (address.username and address.domain):
        raise DefinitionError(f"Mail: {text[:100]!a} is no address such as ops@example.com")
    return address
