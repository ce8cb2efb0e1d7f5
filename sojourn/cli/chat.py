"""An interactive conversation with an agent at the terminal."""

import asyncio
import contextlib
import signal
import termios
import uuid
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.patch_stdout import patch_stdout

from sojourn.answers import Decision, WaitRef, WaitView, open_waits, parse_answer, submit
from sojourn.cli.arguments import find_last_message
from sojourn.cli.chat_view import ChatView
from sojourn.cli.failure import OK, CommandError
from sojourn.cli.follow import code_of, ends_turn
from sojourn.cli.options import connection_options
from sojourn.cli.screen.lines import MessageLines
from sojourn.cli.screen.prompt import CHOICES, UNSEEN, begins_with_approval, decision_in, is_full
from sojourn.cli.screen.text import plain, shell_word
from sojourn.cli.screen.turn_lines import branches_of
from sojourn.cli.screen.waits import call_lines
from sojourn.cli.waits import lines_of
from sojourn.client.run import Run
from sojourn.errors import InvalidInput, RunNotFound, SojournError
from sojourn.events import Cursor
from sojourn.values.text import count_noun

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer

    from sojourn.client.session import Session
    from sojourn.core.run.inbox import Mode

__all__ = ["TerminalChat"]

_PAUSE = 2.0
"""Seconds until the events are read again, after the server was away."""

_NO_WAIT = WaitRef("", "")
"""What a line was begun for while no wait was open."""


class _Line(NamedTuple):
    text: str
    begun_for: WaitRef | None
    """The wait that was first when it was begun."""


class _CtrlC(Exception):  # noqa: N818 - no error: a key
    """Ctrl-C while the user types. `KeyboardInterrupt` would end the program."""


@contextlib.contextmanager
def _without_end_key(terminal: int) -> Generator[None]:
    """Turn off the terminal's own Ctrl-D, which it would consume between two prompts."""
    before = termios.tcgetattr(terminal)
    changed = [*before[:6], [*before[6]]]
    changed[6][termios.VEOF] = b"\0"
    termios.tcsetattr(terminal, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


class TerminalChat:
    """A conversation in which each typed line is sent at once, even during a turn.

    A line that begins with `/` is a command.
    """

    def __init__(
        self, session: "Session", by: str | None, verbose: int = 0, files: Sequence[Path] = ()
    ) -> None:
        self._session = session
        self._files = files
        """The files that go with the first message."""
        self._by = by
        self._view = ChatView(session.run.id, verbose)
        self._following: asyncio.Task[None] | None = None
        self._interrupting: asyncio.Task[None] | None = None
        self._lines: asyncio.Queue[_Line | None] = asyncio.Queue()
        self._listed: list[str] = []
        """Keys of the turns that `/branches` printed last, by whose numbers `/switch` chooses."""
        self._begun_for: WaitRef | None = None
        """The wait that was first when the line at the prompt was begun, with the call's arguments as they were."""
        self._is_over = asyncio.Event()
        self._code = OK
        self._commands: dict[str, tuple[Callable[[str], Awaitable[None]], str, str]] = {
            "/steer": (self._steer, "TEXT", "the present turn reads it at its next plan"),
            "/stop": (self._stop, "[WHY]", "end the present turn, as Ctrl-C does"),
            "/edit": (self._edit, "TEXT", "other words for your last message, in another branch"),
            "/retry": (self._retry, "", "another answer to your last message"),
            "/withdraw": (self._withdraw, "", "take back your last message that waits"),
            "/branches": (self._branches, "", "the present branch and those beside it, numbered"),
            "/switch": (self._switch, "N", "go on from the end of a branch, by its number"),
            "/say": (self._send, "TEXT", "send a message while a question is open"),
            "/status": (self._status, "", "the agent's present state"),
            "/transcript": (self._transcript, "", "the whole conversation"),
            "/close": (self._close, "[WHY]", "end the conversation"),
            "/help": (self._help, "", "this list"),
        }
        """By the first word of a line: its function, its arguments, and its help."""

    async def run(self) -> int:
        """Talk until Ctrl-D or the conversation's end, and return the exit code."""
        await self._begin()
        editor: PromptSession[str] = PromptSession(history=_history(), interrupt_exception=_CtrlC)
        editor.default_buffer.on_text_changed += self._begin_line
        taking = asyncio.create_task(self._take_all())
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        with patch_stdout(raw=True), _without_end_key(editor.input.fileno()):
            while not self._is_over.is_set():
                try:
                    self._begun_for = None
                    text = (await self._read(editor)).strip()
                    self._lines.put_nowait(_Line(text, self._begun_for))
                except _CtrlC:
                    self._interrupt()
                except EOFError:
                    break
            self._lines.put_nowait(None)
            await taking
        for task in (self._following, self._interrupting):
            if task:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if not self._is_over.is_set():
            # The run's id has the tenant too, but only a digest of a long session id.
            agent, _, _ = self._session.run.id.partition("@")
            name = shell_word(f"{agent}@{self._session.session_id}")
            print(f"the conversation goes on: sojourn chat {name}{connection_options()}")
        return self._code

    async def _read(self, editor: "PromptSession[str]") -> str:
        reading = asyncio.create_task(
            editor.prompt_async(
                lambda: self._view.bar.prompt,
                bottom_toolbar=lambda: self._view.bar.text,
                refresh_interval=0.3,
                handle_sigint=False,
            )
        )
        over = asyncio.create_task(self._is_over.wait())
        try:
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
            return await reading if reading.done() else ""
        finally:
            over.cancel()
            reading.cancel()
            await asyncio.gather(reading, over, return_exceptions=True)

    # Follow.

    async def _begin(self) -> None:
        run = self._session.run
        name = f"{plain(self._session.agent_id)}  {plain(self._session.session_id)}"
        try:
            status = await run.status()
        except RunNotFound:
            self._view.say(f"{name}  a new conversation (/help; Ctrl-D leaves)", "bold")
            return
        if status.closed_at is not None:
            raise CommandError(
                f"{plain(run.id, 300)} has ended ({status.status}); another --session begins a new conversation",
                run_id=run.id,
            )
        self._view.say(
            f"{name}  {status.status} after {count_noun(status.turns, 'turn')} (/help; Ctrl-D leaves)", "bold"
        )
        past = [event async for event in run.events(follow=False, children=True)]
        begun = max((n for n, event in enumerate(past) if event.type == "turn_started"), default=len(past))
        is_over = any(ends_turn(event, run) for event in past[begun:])
        so_far = Cursor(run.id)
        for n, event in enumerate(past):
            (self._view.recall if is_over or n < begun else self._view.show)(event)
            so_far.add(event)
        self._following = asyncio.create_task(self._follow(so_far))

    async def _follow(self, so_far: Cursor) -> None:
        """Show the events after the cursor as they come, each once, even after an outage."""
        run = self._session.run
        while True:
            try:
                events = run.events(after=str(so_far), children=True, deltas=True)
                async with aclosing(events):
                    async for event in events:
                        self._view.show(event)
                        so_far.add(event)
                        code = code_of(event, run)
                        if code is not None:
                            self._code = code
                            self._is_over.set()
                            return
            except SojournError as error:
                self._view.say(f"sojourn: {plain(str(error), 500)}", "red", once=True)
                await asyncio.sleep(_PAUSE)

    # Carry out the typed lines.

    async def _take_all(self) -> None:
        while (line := await self._lines.get()) is not None:
            await self._take(line.text, line.begun_for)

    def _interrupt(self) -> None:
        self._interrupting = asyncio.create_task(self._take("/stop"))

    def _begin_line(self, buffer: "Buffer") -> None:
        wait = self._view.bar.first_wait
        if not buffer.text:
            self._begun_for = None
        elif self._begun_for is None:
            self._begun_for = wait.ref if wait else _NO_WAIT

    async def _take(self, line: str, begun_for: WaitRef | None = None) -> None:
        word, _, rest = line.partition(" ")
        try:
            if line.startswith("/"):
                known = self._commands.get(word)
                await (known[0] if known else self._unknown)(rest.strip())
            elif line and (wait := self._view.bar.first_wait):
                await self._answer(wait, line, is_meant=begun_for in (None, wait.ref))
            elif line:
                await self._send(line)
        except SojournError as error:
            print(f"sojourn: {plain(str(error), 1_000)}")

    async def _send(self, text: str, mode: "Mode" = "queue") -> None:
        message_id = uuid.uuid4().hex
        self._view.typed.add(message_id)
        files, self._files = self._files, ()
        try:
            await self._session.send(text, message_id=message_id, mode=mode, by=self._by, attachments=files)
        except InvalidInput as error:
            if not files:
                raise
            raise InvalidInput(
                f"{error}; nothing was sent, and the next message goes without files"
            ) from error
        except SojournError:
            self._files = files
            raise
        if self._following is None:
            self._following = asyncio.create_task(self._follow(Cursor(self._session.run.id)))

    async def _answer(self, wait: WaitView, line: str, *, is_meant: bool = True) -> None:
        is_meant_to_approve = wait.on_message == "deny" and begins_with_approval(line)
        if wait.takes_messages and not (decision_in(line) or is_full(line) or is_meant_to_approve):
            await self._send(line)  # the run answers it, or denies the call with it as the reason
            return
        if wait.call and decision_in(line) and not is_meant:
            print("another call waits now, and nothing was decided:", *call_lines(wait)[0], sep="\n")
            return
        given = self._decision(wait, line) if wait.call else parse_answer(wait, line)
        if given is not None:
            run = Run(self._session.run.client, wait.run_id)
            await submit(run, None, wait, given, by=self._by, trusted=True)
            self._view.bar.forget(wait)

    def _decision(self, call: WaitView, line: str) -> Decision | None:
        decision = decision_in(line)
        if is_full(line):
            self._view.show_whole(call)
        elif decision is None:
            print(CHOICES)
        elif decision.approved and not self._view.is_whole(call):
            print(UNSEEN)
        else:
            return decision
        return None

    async def _steer(self, text: str) -> None:
        await self._send(text, "steer")

    async def _stop(self, why: str) -> None:
        with contextlib.suppress(RunNotFound):
            if await self._session.interrupt(why, by=self._by):
                return
        print("there is no turn to end; Ctrl-D leaves")

    async def _withdraw(self, _rest: str) -> None:
        waiting = [each.message_id for each in self._view.waiting if each.by in ("", self._by or "")]
        if not waiting:
            print("no message of yours waits")
        elif await self._session.withdraw(waiting[-1], by=self._by):
            print("the message is taken back")

    async def _edit(self, text: str) -> None:
        if text:
            await self._go_back(text)
        else:
            print("/edit TEXT sends TEXT in place of your last message")

    async def _retry(self, _rest: str) -> None:
        await self._go_back(None)

    async def _go_back(self, text: str | None) -> None:
        message_id, number = await find_last_message(self._session, self._by)
        self._view.typed.add(message_id)
        await self._session.edit(message_id, text, by=self._by, branches=number, keep_files=True)

    async def _branches(self, _rest: str) -> None:
        found = branches_of(await self._session.timeline())
        self._listed = [branch.key for branch in found]
        print("\n".join(branch.line for branch in found) or "the conversation has one branch")

    async def _switch(self, number: str) -> None:
        # By the list that the user saw: another branch that began since may have the number now.
        at = int(number[:9]) if number.isdecimal() else 0
        if not 0 < at <= len(self._listed):
            print("/switch N goes on from the end of a branch; /branches has the numbers")
            return
        timeline = await self._session.timeline()
        key = self._listed[at - 1]
        turn = next((each for each in timeline.turns if each.key == key), None)
        if turn is None:
            print(f"branch {number} is too far back")
        elif turn in timeline.path:
            print(f"the conversation is in branch {number}")
        elif not (tip := timeline.tip(turn)):
            print(f"branch {number} has a turn under way")
        else:
            await self._session.switch(tip, branches=timeline.branches)

    async def _status(self, _rest: str) -> None:
        status = await self._session.run.status()
        waiting = f"{count_noun(status.queued, 'message')} {'waits' if status.queued == 1 else 'wait'}"
        counts = f"{count_noun(status.turns, 'turn')}, {waiting}"
        print(f"{plain(status.run_id, 300)}  {status.status}  {counts}")
        for wait in open_waits(status):
            print("\n".join(f"  {line}" for line in lines_of(wait)))

    async def _transcript(self, _rest: str) -> None:
        shown = MessageLines()
        for message in await self._session.transcript():
            print("\n".join(f"{plain(message.role)}: {line}" for line in shown.of(message)))

    async def _close(self, why: str) -> None:
        await self._session.close(why, by=self._by)

    async def _help(self, _rest: str) -> None:
        for word, (_, follows, what) in self._commands.items():
            print(f"  {f'{word} {follows}':<15}{what}")

    async def _unknown(self, _rest: str) -> None:
        print("there is no such command; /help lists them")


def _history() -> FileHistory | InMemoryHistory:
    """Return the history of typed lines, in a file of the user or in memory."""
    from platformdirs import user_state_path

    path = user_state_path("sojourn") / "chat_history"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
