"""The walk does what a page says, and fails at what does not hold."""

import os
import re

import psutil
import pytest

from tests.walk.files import change
from tests.walk.screen import pattern_of, steady
from tests.walk.walk import Walk

pytestmark = pytest.mark.usefixtures("processes")

GREETER = """
```python greet.py
print("Hello, who is it?")
```

```diff greet.py
-print("Hello, who is it?")
+print("Hello.")
+print("Who is it?")
```

```python greet.py +
print(f"Welcome, {input()}.")
```

```sh door
python3 greet.py
```

```text door
Hello.
...
```

```sh door
Ana
```

```text door
Welcome, Ana.
```

```sh
mkdir -p inner
cd inner
```
"""


@pytest.fixture
async def walk(tmp_path):
    """Walk a page that has this content, in a folder of its own."""
    folder = tmp_path / "folder"
    folder.mkdir()

    async def start(content: str) -> Walk:
        page = tmp_path / "page.md"
        page.write_text(content)
        async with Walk(folder, os.environ) as walking:
            await walking.page(page)
        return walking

    return start


async def test_files_are_written_and_programs_get_input(walk):
    """A file is written, changed and added to; a program that goes on gets further lines as its input."""
    assert (await walk(GREETER)).commands == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("```sh\nfalse\n```", "page.md:1: `false` ended with 1"),
        ("\n```sh\necho one\n```\n\n```text\ntwo\n```", "page.md:6: the commands have not printed\ntwo"),
        ("```sh\nprintf 'one\\ntwo\\n'\n```\n```text\none\n```", "page.md:4: the commands have not printed"),
        ("```sh a\necho one\n```\n```text b\none\n```", "page.md:4: there is no terminal b"),
        ("```python a.py\none\n```\n```diff a.py\n-two\n+one\n```", "page.md:4: 0 places of a.py"),
        ("```python a.py\none\none\n```\n```diff a.py\n-one\n+two\n```", "page.md:5: 2 places of a.py"),
    ],
)
async def test_what_does_not_hold_fails_at_its_place(walk, content, message):
    """A command that fails, another screen, an unknown terminal and lines that are not there name the page and the line."""
    with pytest.raises(AssertionError) as failed:
        await walk(content + "\n")
    assert str(failed.value).startswith(message)


async def test_a_screen_that_does_not_come_fails(walk, monkeypatch):
    """What a terminal never shows fails with what it does show."""
    monkeypatch.setattr("tests.walk.shell.PATIENCE", 0.5)
    with pytest.raises(AssertionError, match=r"page.md:4: the screen does not show\ntwo(.|\n)*one"):
        await walk("```sh a\necho one\n```\n```text a\ntwo\n```\n")


async def test_ctrl_c_ends_what_goes_on(walk):
    """`^C` interrupts a program, and the terminal takes the next command."""
    page = "```sh a\nsleep 600\n```\n```sh a\n^C\n```\n```sh a\necho over\n```\n```text a\nover\n```\n"
    assert (await walk(page)).commands == 3


async def test_no_process_is_left(walk, tmp_path):
    """Every process that a page has started has ended, also one that ignores Ctrl-C and one in the background."""
    page = (
        "```sh a\necho $$ > a\n(trap '' INT; sleep 600) &\necho $! >> a\n```\n"
        "```sh a\nbash -c 'echo $$ >> a; exec sleep 601'\n```\n```sh\nuntil [ $(wc -l < a) = 3 ]; do sleep 0.1; done\n```\n"
    )
    await walk(page)
    pids = [int(line) for line in (tmp_path / "folder" / "a").read_text().split()]
    assert len(pids) == 3
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a ... z", "a b c z", True),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("a\n...\nz", "a\nz", True),
        ("a\n...", "b\nc", False),
        ("took 2 s", "took 1.3 s", True),
        ("desk-0123456789ab  7 s", "desk-a1b2c3d4e5f6 12 ms", True),
        ("(a)", "a", False),
    ],
)
def test_a_screen_is_compared_line_by_line(shown, printed, fits):
    """`...` is any lines or any text, ids and durations may differ, and all else is as shown."""
    assert bool(re.fullmatch(pattern_of(shown), steady(printed))) is fits


def test_a_diff_changes_several_places():
    """`...` in a diff begins another place, and lines without a mark say where."""
    changed = change("one\ntwo\n\nthree\n", "-one\n+1\n two\n...\n\n three\n+four\n", "a.py")
    assert changed == "1\ntwo\n\nthree\nfour\n"
