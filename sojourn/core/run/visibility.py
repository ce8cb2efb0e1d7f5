"""Who of a tenant may see a run: all of it, or only those for whom the run acts.

The run records it where lists find it, as marks of subjects: a search attribute is never encrypted, and holds 2 KB at most.
"""

import hashlib
from collections.abc import Sequence

from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunInput

__all__ = ["MAX_VIEWERS", "NOBODY", "OPERATOR", "is_visible_to", "mark_of", "viewers_of"]

MAX_VIEWERS = 40
"""Most marks of a run: the first senders of a conversation; their list stays below what the server takes."""

NOBODY = "-"
"""The mark of a run that was started for nobody in particular."""

OPERATOR = "operator"
"""The role that sees every run of its tenant."""

_MARK_CHARS = 24


def mark_of(principal: Principal) -> str:
    """The mark of a subject: short whatever its name is, and without the name, which may be an address."""
    who = f"{principal.tenant}\0{principal.subject}"
    return hashlib.sha256(who.encode(errors="surrogatepass")).hexdigest()[:_MARK_CHARS]


def viewers_of(run: RunInput, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The marks of those who may see a run, beside operators; empty where its whole tenant may.

    Args:
        run: The opening of the run.
        more: The marks of further senders of the conversation, and of those who may see the parent run.
    """
    if run.visibility != "subject":
        return ()
    starter = mark_of(run.principal) if run.principal else NOBODY
    marks = (each for each in (starter, *run.visible_to, *more) if len(each) <= _MARK_CHARS)
    return tuple(dict.fromkeys(marks))[:MAX_VIEWERS]


def is_visible_to(viewers: Sequence[str], principal: Principal | None) -> bool:
    """Whether a principal of the run's tenant sees the run, and so may write to it.

    Args:
        viewers: The marks of those who may see the run; empty if its whole tenant may.
        principal: Who asks; None for a program that names nobody, and sees every run.
    """
    if not viewers or principal is None or OPERATOR in principal.roles:
        return True
    return mark_of(principal) in viewers
