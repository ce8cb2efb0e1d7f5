"""Walk: do what the blocks of a page say, one after the other."""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.walk.files import change, save
from tests.walk.page import Block
from tests.walk.screen import pattern_of, steady
from tests.walk.shell import Shell

__all__ = ["Walk"]


@dataclass(slots=True)
class Walk:
    """A reader with a folder, and terminals in it; leaving the context ends every process."""

    folder: Path
    env: Mapping[str, str]
    commands: int = 0
    """How many lines were typed."""
    _shells: dict[str, Shell] = field(default_factory=dict)
    _printed: str = ""
    _edited: dict[Path, str] = field(default_factory=dict)
    """Texts of files that are saved before the next command or screen, as a reader does who changes several files."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(shell.close() for shell in self._shells.values()), return_exceptions=True)

    async def page(self, page: Path) -> float:
        """Walk a page, and return how many seconds it took.

        Raises:
            AssertionError: A block does not hold; the message begins with its place.
        """
        began = time.monotonic()
        for block in Block.all_of(page):
            try:
                await self._do(block)
            except (AssertionError, ValueError, OSError, RuntimeError) as error:
                raise AssertionError(f"{block.place}: {error}") from error
        self._save()
        return time.monotonic() - began

    async def _do(self, block: Block) -> None:
        if block.language in ("sh", "text"):
            self._save()
        match block.language, block.words:
            case "sh", ():
                await self._type(block.text)
            case "sh", (name,):
                await self._type_at(name, block.text)
            case "text", ():
                pattern = pattern_of(block.text)
                assert re.fullmatch(pattern, steady(self._printed)), (
                    f"the commands have not printed\n{block.text}\nbut\n{self._printed}"
                )
            case "text", (name,):
                assert name in self._shells, f"there is no terminal {name}"
                await self._shells[name].shows(block.text)
            case "diff", (file,):
                self._edited[self._here / file] = change(self._text(file), block.text, file)
            case _, (file, "+") if "." in file:
                self._edited[self._here / file] = f"{self._text(file).rstrip()}\n\n\n{block.text}"
            case _, (file, *_) if "." in file:
                self._edited[self._here / file] = block.text
            case _:
                pass

    def _text(self, file: str) -> str:
        path = self._here / file
        return self._edited.get(path) or path.read_text()

    def _save(self) -> None:
        save(self._edited)
        self._edited.clear()

    @property
    def _here(self) -> Path:
        """The folder in which the reader is."""
        return self._shells[""].folder if "" in self._shells else self.folder

    async def _type(self, text: str) -> None:
        """Execute commands, each of which has to succeed."""
        shell = await self._shell("")
        self._printed = ""
        for line in text.splitlines():
            self.commands += 1
            self._printed += await shell.execute(line)

    async def _type_at(self, name: str, text: str) -> None:
        """Type lines in a terminal: input for what goes on there, or commands, the last of which may go on."""
        shell = await self._shell(name)
        *before, last = text.splitlines()
        for line in before:
            self.commands += 1
            await shell.execute(line)
        self.commands += 1
        if last == "^C":
            await shell.interrupt()
        elif shell.is_busy:
            shell.answer(last)
        else:
            shell.begin(last)

    async def _shell(self, name: str) -> Shell:
        if name not in self._shells:
            self._shells[name] = await Shell.open(self._here, self.env)
        return self._shells[name]
