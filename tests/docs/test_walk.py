"""The pages that a newcomer follows hold, with the wheel alone, in an empty folder."""

import pytest

from tests.walk.installation import ROOT
from tests.walk.newcomer import walk

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.usefixtures("campaigns")
@pytest.mark.timeout(600)
async def test_a_newcomer_comes_through(tmp_path):
    """Each file, command and screen of the pages is as written, in order; a worker is killed on the way."""
    for walked in await walk(tmp_path, ROOT / "README.md", ROOT / "docs" / "tutorial.md"):
        print(walked)
