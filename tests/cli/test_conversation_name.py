"""A conversation is named on the command line as its run is, where that tells its session."""

import pytest

from sojourn.cli.conversation_name import agent_of, named
from sojourn.cli.failure import USAGE, CommandError


def test_a_name_that_does_not_tell_which_conversation_is_refused(subtests: pytest.Subtests) -> None:
    """Neither a part that is missing nor a digest in place of a name finds or begins a conversation."""
    rows = ["x.y", "x.y@", "@s", "x.y:@s", "x.y:t+0@s", f"x.y@s+{'0' * 32}"]
    for name in rows:
        with subtests.test(name=name):
            with pytest.raises(CommandError, match="name") as caught:
                named(name, None)
            assert caught.value.exit_code == USAGE


@pytest.mark.parametrize("name", ["", ":", "x.y:", ":acme"])
def test_a_name_of_an_agent_has_an_agent_and_with_a_colon_a_tenant(name):
    """What has only a part of it starts nothing."""
    with pytest.raises(CommandError, match="names no agent") as caught:
        agent_of(name, None)
    assert caught.value.exit_code == USAGE
