"""Walk: follow pages of Markdown as a reader does, in an empty folder with nothing installed but the wheel.

    python -m tests.walk README.md docs/tutorial.md

A block says in its first line what a reader does with it:

| first line | what the reader does |
|---|---|
| `python FILE`, or another language and a file | writes the file |
| `python FILE +` | adds to the end of the file |
| `diff FILE` | removes the lines with `-` and adds those with `+`, where the lines without a mark stand |
| `sh` | types the lines as commands, each of which has to succeed |
| `sh NAME` | types them in the terminal NAME, where the last command may go on; what goes on gets further lines as its input; `^C` is Ctrl-C |
| `text` | reads what the commands above have printed |
| `text NAME` | waits until the terminal NAME shows it |

A new terminal is opened in the folder in which the commands without a terminal are. Other blocks are only read. In a `text` block a line `...` stands for any lines, and `...` in a line for any text. Ids, times, ports
and durations may differ.
"""
