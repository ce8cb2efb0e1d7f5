"""The templates of the console: what others wrote is escaped in all of them, and each imports what it uses."""

import re

import pytest
from jinja2 import nodes

from sojourn.console.templating import _templates as templates

RAW = {
    "home.html": ["html"],
    "icons.html": ['shapes.get(name, shapes["not_executed"])'],
    "run_branch.html": ["html"],
    "run_tree.html": ["html"],
    "talk_earlier.html": ["html"],
    "talk_turns.html": ["html"],
}
"""What is put into a page as it is: the console's own pictures, and pieces that another template has rendered."""


def test_a_template_escapes_what_it_shows() -> None:
    """No template puts a value into the page as HTML, but for pieces that are HTML of the console's own."""
    made = templates()
    raw = {
        name: found
        for name in made.list_templates()
        if (found := re.findall(r"{[{%]\s*([^{}]*?)\s*\|\s*safe\b", source_of(name)))
    }
    assert {name: [each.split("|")[0].strip() for each in found] for name, found in raw.items()} == RAW


@pytest.mark.parametrize("way", ["autoescape", "Markup", "__html__"])
def test_no_template_turns_escaping_off(way: str) -> None:
    """Escaping is on for the whole of each template."""
    assert templates().autoescape is True
    assert [name for name in templates().list_templates() if way in source_of(name)] == []


def test_a_template_imports_the_macros_it_calls_and_no_others() -> None:
    """A template that another includes does not lean on what that one has imported."""
    trees = {name: templates().parse(source_of(name)) for name in templates().list_templates("html")}
    macros = {each.name for tree in trees.values() for each in tree.find_all(nodes.Macro)}
    faults: dict[str, set[str]] = {}
    for name, tree in trees.items():
        imports = [each for found in tree.find_all(nodes.FromImport) for each in found.names]
        imported = {each if isinstance(each, str) else each[1] for each in imports}
        read = {each.name for each in tree.find_all(nodes.Name) if each.ctx == "load"}
        calls = {each.node.name for each in tree.find_all(nodes.Call) if isinstance(each.node, nodes.Name)}
        own = {each.name for each in tree.find_all(nodes.Macro)}
        if found := (imported - read) | (calls & macros - own - imported):
            faults[name] = found
    assert faults == {}


def source_of(name: str) -> str:
    loader = templates().loader
    assert loader is not None
    return loader.get_source(templates(), name)[0]
