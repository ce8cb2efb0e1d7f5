"""Which branch of `anyOf` or `oneOf` a value belongs to.

Pydantic and zod distinguish the members of a union by a constant (`kind: "circle"`). When
every branch that describes fields has one, and no two share a value, the constant decides: only
the value's branch is tried, and only its errors are reported.
"""

from dataclasses import dataclass
from typing import Any

from sojourn.core.values.json_value import is_object
from sojourn.core.values.pointer import Schema, resolve

__all__ = ["Discriminator", "find_discriminator"]

_MAX_REFERENCES = 8


@dataclass(frozen=True, slots=True)
class Discriminator:
    """A property whose value selects the branch."""

    name: str
    """The property's name."""
    by_tag: dict[str, int]
    """Each tag with the index of its branch."""
    required: bool
    """Whether every branch that describes fields requires the property."""

    @property
    def tags(self) -> list[str]:
        """Every tag, in the order of the branches."""
        return list(self.by_tag)

    @property
    def branches(self) -> frozenset[int]:
        """The indexes of the branches that have a tag."""
        return frozenset(self.by_tag.values())

    def ruled_out(self, instance: Any) -> frozenset[int]:
        """The branches that a value certainly does not fit, by its tag alone."""
        if not is_object(instance):
            return frozenset()
        value = instance
        if self.name not in value:
            return self.branches if self.required else frozenset()
        tag = value[self.name]
        selected = self.by_tag.get(tag) if isinstance(tag, str) else None
        return self.branches if selected is None else self.branches - {selected}


def find_discriminator(root: Schema, branches: list[Any]) -> Discriminator | None:
    """The discriminator of the branches that describe fields; None for fewer than two such branches, or without one."""
    described = [(index, found) for index, branch in enumerate(branches) if (found := _object(root, branch))]
    if len(described) < 2:
        return None
    tagged = [(index, branch, _tags(branch)) for index, branch in described]
    for name in tagged[0][2]:
        pairs = [(tag, index) for index, _, tags in tagged for tag in tags.get(name, ())]
        if all(name in tags for _, _, tags in tagged) and len(dict(pairs)) == len(pairs):
            return Discriminator(
                name, dict(pairs), all(name in branch.get("required", ()) for _, branch, _ in tagged)
            )
    return None


def _object(root: Schema, branch: Any) -> Schema | None:
    for _ in range(_MAX_REFERENCES):
        if not is_object(branch) or "properties" in branch:
            break
        branch = resolve(root, branch.get("$ref", "#/"))
    return branch if is_object(branch) and "properties" in branch else None


def _tags(branch: Schema) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, field in branch["properties"].items():
        rules: Schema = field if is_object(field) else {}
        values = [rules["const"]] if "const" in rules else rules.get("enum", [])
        if values and all(isinstance(value, str) for value in values):
            found[name] = values
    return found
