"""A stand-in provider to point any client at: the package as a program.

    python -m sojourn.testing.providers [--script JSON] [--env]

The first line is its URL. Without a script it repeats the user's message.
"""

import argparse
import asyncio
import json
from contextlib import suppress
from typing import Any

from sojourn.testing.providers.request import Request
from sojourn.testing.providers.script import Completion, load, says
from sojourn.testing.providers.server import ProviderServer


def echo(request: Request) -> Completion:
    return says(f"You said: {request.text}")


async def serve(script: Any, *, variables: bool) -> None:
    async with ProviderServer(script) as provider:
        print(provider.url, flush=True)  # noqa: T201
        for name, value in provider.environment.items() if variables else ():
            print(f"export {name}={value}", flush=True)  # noqa: T201
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m sojourn.testing.providers", description=(__doc__ or "").split(":")[0]
    )
    parser.add_argument("--script", help='answers as JSON, such as \'["Hello", "Bye"]\'')
    parser.add_argument(
        "--env", action="store_true", help="print the variables that SDKs read, as shell commands"
    )
    options = parser.parse_args()
    script = echo if options.script is None else load(json.loads(options.script))
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(script, variables=options.env))


if __name__ == "__main__":
    main()
