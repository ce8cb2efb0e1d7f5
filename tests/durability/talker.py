"""A program that sends messages to conversations, and writes down each that is done: `talker.py ADDRESS QUEUE FILE`.

Started again after it was killed, it sends again what was not done, and a third of what was.
"""

import asyncio
import contextlib
import json
import sys
import zlib
from pathlib import Path

from sojourn import Client, RunFailed
from sojourn.errors import NoWorker, ServerUnavailable, SessionBusy

AT_ONCE = 8


async def main(address: str, queue: str, file: Path) -> None:
    messages = [json.loads(line) for line in file.read_text().splitlines()]
    done = file.with_suffix(".done")
    known = set(done.read_text().split()) if done.exists() else set()
    client, room = await connected(address, queue), asyncio.Semaphore(AT_ONCE)

    async def send(message: dict[str, str]) -> None:
        session = client.session("talk.agent", message["session"])
        number = zlib.crc32(message["id"].encode())
        async with room:
            while True:
                try:
                    turn = await session.send(message["id"], message_id=message["id"], mode=message["mode"])
                    if number % 4 == 0:
                        with contextlib.suppress(RunFailed):  # interrupted
                            await turn.result()
                    break
                except (NoWorker, ServerUnavailable, SessionBusy):
                    await asyncio.sleep(0.5)
        out.write(f"{message['id']}\n")

    with done.open("a", buffering=1) as out:
        again = [m for m in messages if m["id"] not in known or zlib.crc32(m["id"].encode()) % 3 == 0]
        await asyncio.gather(*map(send, again))


async def connected(address: str, queue: str) -> Client:
    while True:
        try:
            return await Client.connect(address, task_queue=queue)
        except ServerUnavailable:
            await asyncio.sleep(0.5)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
