"""Which HTTP statuses leave it open whether the request was carried out."""

import re
from pathlib import Path

from sojourn.network.network_errors import is_undecided

PAGE = (Path(__file__).parents[2] / "docs" / "network.md").read_text()


def test_a_request_without_a_definite_answer_may_have_been_carried_out() -> None:
    """The server or a gateway failed on the way, or the request conflicts with an earlier one that is under way."""
    rows = [408, 409, 500, 502, 504, 507, 508, 520, 522, 524, 527, 530, 598, 599]
    assert [status for status in rows if not is_undecided(status)] == []


def test_a_request_that_was_refused_was_not_carried_out() -> None:
    """The server denies the request, now or for good, or nobody reached it."""
    rows = [400, 401, 402, 403, 404, 422, 425, 429, 501, 503, 505, 511, 521, 523, 525, 526, 529]
    assert [status for status in rows if is_undecided(status)] == []


def test_the_table_of_the_page_is_that_of_the_code():
    """Each status that the page names is decided as the page says."""
    table = PAGE.split("## Which statuses leave the outcome unknown")[1].split("\n\n")[1]
    rows = re.findall(r"^\| (.*?) \| (yes|no)", table, re.MULTILINE)
    assert len(rows) == 9
    named = [(int(status), said == "yes") for row, said in rows for status in re.findall(r"\d{3}", row)]
    assert all(is_undecided(status) is is_open for status, is_open in named)
