"""Commands without their second of imports: a process that has made them forks one for each command.

    python fork_server.py SOCKET

A command is a process of its own as ever, with its streams, environment, folder, signals and exit status. A request is
a line of JSON with the three streams beside it; the answers are two lines, the command's pid and its exit status.
"""

import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys

STREAMS = 3


def import_everything() -> None:
    """What any command imports."""
    import sojourn.cli
    import sojourn.server
    import sojourn.worker

    for module in pkgutil.walk_packages(sojourn.cli.__path__, "sojourn.cli."):
        importlib.import_module(module.name)


def serve(path: str) -> None:
    """Fork a keeper for each request, until standard input ends with the process that started this one."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
        print("ready", flush=True)
        while listening in select.select([listening, sys.stdin], [], [])[0]:
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    listening.close()
                    keep(connection)


def keep(connection: socket.socket) -> None:
    """Fork the command, and tell how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(connection, 1, STREAMS)
    request = json.loads(connection.makefile().readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        run_command(streams, **request)
    for stream in streams:
        os.close(stream)
    connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def run_command(
    streams: list[int], *, arguments: list[str], env: dict[str, str], cwd: str, before: str
) -> None:
    """Be the command, with Ctrl-C as a terminal's own program has it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(os.fdopen(number, f"{mode}b", closefd=False), "utf-8", line_buffering=number == 2)
        for number, mode in enumerate("rww")
    )
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[:1] = [cwd, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["sojourn", *arguments]
    exec(before, {})
    from sojourn.cli import main

    main()


if __name__ == "__main__":
    import_everything()
    serve(sys.argv[1])
