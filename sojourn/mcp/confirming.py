"""What an app, not the server, says of who is asked before a call of a server's tool."""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase

from sojourn.core.run.approval import MAX_PROMPT
from sojourn.errors import DefinitionError

__all__ = ["check_confirmation", "sentence_for", "unmatched"]


def check_confirmation(toolset_id: str, *, trusted: object, confirmation: object) -> None:
    """Refuse what says nothing.

    Raises:
        DefinitionError: `trusted` is no bool, or `confirmation` is not made of names with sentences.
    """
    place = f"toolset {toolset_id}"
    if not isinstance(trusted, bool):
        raise DefinitionError(f"{place}: trusted is True or False, not {type(trusted).__name__}")
    if not isinstance(confirmation, Mapping):
        raise DefinitionError(
            f'{place}: confirmation gives a sentence by name or pattern, such as {{"delete_*": "Delete {{path}}?"}}'
        )
    for pattern, sentence in confirmation.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(pattern, str) or not pattern:
            raise DefinitionError(f"{place}: confirmation is given by the name of a tool, or a pattern")
        if not isinstance(sentence, str) or not sentence.strip() or len(sentence) > MAX_PROMPT:
            raise DefinitionError(
                f"{place}: the confirmation of {pattern!r} is a sentence of at most {MAX_PROMPT} characters"
            )


def sentence_for(name: str, confirmation: Mapping[str, str]) -> str | None:
    """What a person is asked before a call: said of the tool by its name, else by the first pattern that fits."""
    if name in confirmation:
        return confirmation[name]
    return next((said for pattern, said in confirmation.items() if fnmatchcase(name, pattern)), None)


def unmatched(patterns: Iterable[str], names: Collection[str]) -> list[str]:
    """The names and patterns that no tool has, of which nothing comes."""
    return [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in names)]
