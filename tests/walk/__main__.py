"""`python -m tests.walk PAGE ...`: walk pages with the built wheel, and print commands and seconds."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.walk.newcomer import walk

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for walked in asyncio.run(walk(Path(folder), *map(Path, sys.argv[1:]))):
            print(walked)
