"""A call that a person decides on, in lines for a terminal."""

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.core.awaits.disclosure import Disclosure, disclose
from sojourn.core.values.visible import visible

__all__ = ["call_lines"]


def call_lines(call: AwaitConfirmation, *, whole: bool = False) -> tuple[list[str], Disclosure]:
    """What is asked, the tool and its arguments, one in a line; and whether that is all of them."""
    seen = disclose(call.payload, whole=whole)
    cut = [] if seen.is_whole else ["  not all of it is shown; --full shows it"]
    asked = [visible(call.prompt)] if call.prompt else []
    return [*asked, f"  {visible(call.tool)}", *(f"    {line}" for line in seen.lines), *cut], seen
