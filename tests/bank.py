"""A bank over HTTP, for tests: it pays once for an idempotency key, and answers badly.

`POST /payments` with `{"payment", "amount"}` and the header `Idempotency-Key`. What becomes of a request, its
`Mishap` says, by the payment's id and the number of the request about it. The ledger has one line for each key, so a
payment that was made under two keys is in it twice.
"""

import argparse
import asyncio
import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from sojourn.network import http_client, network_faults

__all__ = ["Bank", "mishaps_of", "read_ledger", "receipt_of"]

OK = "ok"
LOST = "lost"
"""The bank pays, and closes the connection without an answer."""
HANGS = "hangs"
"""The bank pays, and never answers."""
HTML = "html"
"""The bank pays, and a proxy answers 200 with a page."""
OTHER = "other"
"""The bank pays, and answers 200 with JSON that is no receipt."""
PAID = "paid-"
"""The bank pays, and answers with the status that follows, such as `paid-409`, or `paid-503:600` with a `Retry-After`."""
RUDE = "rude"
"""The bank closes the connection and does not pay."""


class Bank:
    """A bank that listens on a port of this machine.

    Args:
        mishap: What becomes of the nth request, from 0, about a payment: `ok`, `lost`, `hangs`, `rude`, `html`, `other`,
            `paid-409`, or a status with perhaps the seconds of `Retry-After`, such as `503:31`.
        ledger: The file with the payments that were made; it is read at the start.
    """

    def __init__(self, mishap: Callable[[str, int], str], ledger: Path | None = None) -> None:
        self._mishap = mishap
        self._ledger = ledger
        self._receipts: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests: defaultdict[str, list[str]] = defaultdict(list)
        """The keys of all requests, by payment."""
        self.paid: list[tuple[str, str]] = []
        """The payments that were made, with their keys."""
        self.url = ""
        for payment, key in read_ledger(ledger) if ledger else []:
            self._book(payment, key)

    @classmethod
    def of(cls, **mishaps: Sequence[str]) -> "Bank":
        """A bank with the given mishaps by payment; every further request is paid and answered."""
        return cls(
            lambda payment, n: (mishaps.get(payment, ()))[n] if n < len(mishaps.get(payment, ())) else OK
        )

    @property
    def counts(self) -> Counter[str]:
        """How often each payment was made."""
        return Counter(payment for payment, _ in self.paid)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def start(self, port: int = 0) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = [line.split(": ", 1) for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value for name, value in lines}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        payment, key = body["payment"], headers["idempotency-key"]
        mishap = self._mishap(payment, len(self.requests[payment]))
        self.requests[payment].append(key)
        if mishap == RUDE:
            return
        if mishap in (OK, LOST, HANGS, HTML, OTHER) or mishap.startswith(PAID):
            receipt = self._pay(payment, key)
            if mishap == LOST:
                return
            if mishap == HANGS:
                await reader.read()  # until the client gives up
                return
            answer, status, extra = json.dumps({"receipt": receipt}), "200 OK", ""
            if mishap == HTML:
                answer = "<html>Welcome</html>"
            elif mishap == OTHER:
                answer = json.dumps({"status": "accepted"})
            elif mishap.startswith(PAID):
                code, _, after = mishap.removeprefix(PAID).partition(":")
                answer, status = json.dumps({"why": "busy"}), f"{code} No"
                extra = f"Retry-After: {after}\r\n" if after else "Location: /elsewhere\r\n"
        else:
            code, _, after = mishap.partition(":")
            answer, status = json.dumps({"why": "not enough money"}), f"{code} No"
            extra = f"Retry-After: {after}\r\n" if after else ""
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}"
            f"Content-Length: {len(answer)}\r\nConnection: close\r\n\r\n{answer}".encode()
        )
        await writer.drain()

    def _pay(self, payment: str, key: str) -> str:
        if key not in self._receipts:
            if self._ledger:
                with self._ledger.open("a") as file:
                    file.write(json.dumps([payment, key]) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
            self._book(payment, key)
        return self._receipts[key]

    def _book(self, payment: str, key: str) -> None:
        self.paid.append((payment, key))
        self._receipts[key] = f"receipt-{len(self.paid)}"


async def receipt_of(url: str, payment: str, amount: float, key: str, *, timeout: float = 2) -> str:
    """The receipt of a payment, asked for as a tool of the recipe asks; a fault of the network is raised as `network_faults` does."""
    with network_faults("The bank"):
        async with http_client(timeout=timeout) as client:
            body, head = {"payment": payment, "amount": amount}, {"Idempotency-Key": key}
            response = await client.post(f"{url}/payments", json=body, headers=head)
            response.raise_for_status()
            return response.json()["receipt"]


def read_ledger(ledger: Path) -> list[tuple[str, str]]:
    """The payments that were made, each with its key."""
    if not ledger.exists():
        return []
    return [(payment, key) for payment, key in map(json.loads, ledger.read_text().splitlines())]


def mishaps_of(seed: int, *, quick: bool = False) -> Callable[[str, int], str]:
    """Mishaps by chance, which end after four requests about a payment; with `quick`, without those that take long."""

    def mishap(payment: str, n: int) -> str:
        dice = random.Random(f"{seed}/{payment}/{n}")
        if n >= 4:
            return OK
        kinds = [OK, LOST, HANGS, RUDE, "429", "429:1", "503", "503:1", "503:31", "500", "504"]
        slow = 0 if quick else 1
        return dice.choices(kinds, [8, 3, slow, 1, 1, 1, 1, 1, slow, 1, 1])[0]

    return mishap


async def _run(port: int, ledger: Path, seed: int, *, quick: bool) -> None:
    bank = Bank(mishaps_of(seed, quick=quick), ledger)
    await bank.start(port)
    print(bank.url, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    asyncio.run(_run(options.port, options.ledger, options.seed, quick=options.quick))
