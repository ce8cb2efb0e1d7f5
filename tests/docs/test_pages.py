"""The examples of authoring.md, clients.md and durability.md work as written, and every public name is documented."""

import re
from pathlib import Path

from pydantic import create_model

import sojourn
from sojourn import authoring, client, contracts
from sojourn.authoring.toolset import ToolOptions

ROOT = Path(__file__).parents[2]


async def test_authoring_and_clients_are_one_working_program(serve, module_of, blocks, output_of):
    """The module of authoring.md is served, and the program of clients.md starts a run of it, answers and prints the output."""
    client = await serve(module_of("authoring.md", "clinic").app)
    program, principals, forks = blocks("clients.md")
    question, answer = (await output_of(program, client)).splitlines()
    assert "day" in question
    assert answer == "Booked for 2027-01-05. 2"
    scope: dict = {"Client": sojourn.Client}
    exec(principals, scope)
    for_ana = await scope["start_for_ana"](client)
    assert (await for_ana.status()).principal.tenant == "acme"
    exec(forks, scope)
    run = await client.start("clinic.receptionist", "Ana")
    await run.answer("2027-01-05")
    await run.result()
    ends = [event.event_id async for event in run.events() if event.type == "tool_end"]
    await scope["forks"](client, run.id, ends[-1])


def test_the_table_of_a_turn_names_every_field():
    """The table of authoring.md has one row for each field of a `PlanInput`, which `PlanResumeInput` has too."""
    table = (ROOT / "docs" / "authoring.md").read_text().split("contains everything a planner may know:")[1]
    rows = re.findall(r"^\| `(\w+)` \|", table.split("\n\n")[1], re.MULTILINE)
    assert (
        sorted(rows) == sorted(sojourn.PlanInput.model_fields) == sorted(sojourn.PlanResumeInput.model_fields)
    )


def test_the_tool_of_durability_md(blocks):
    """The example declares a tool with `idempotent=True`."""
    (example,) = blocks("durability.md")
    payments = sojourn.Toolset("shop.payments")
    scope = {
        "payments": payments,
        "ToolCallMeta": sojourn.ToolCallMeta,
        "Charge": create_model("Charge", amount=int),
        "Receipt": dict,
    }
    exec(example, scope)
    assert payments.tools["charge"].spec.annotations.idempotent


def test_no_example_decides_by_labels():
    """Whoever starts a run sets its labels: an example reads them only to choose among the author's own words."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").glob("*.py")]
    pages += [
        each for each in (ROOT / "sojourn" / "cli" / "template").rglob("*") if each.suffix in (".py", ".md")
    ]
    reads = [
        (page.name, line.strip())
        for page in pages
        for line in page.read_text().splitlines()
        if re.search(r"\blabels(\.get\(|\[)", line)
    ]
    assert reads == [("models.md", 'language = LANGUAGES.get(run.labels.get("language", ""), "English")')]


def test_every_public_name_is_documented():
    """Each name of the root and of the packages that have the rest is in the README or in a page of docs/."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    words = {word for page in pages for word in re.findall(r"\w+", page.read_text())}
    public = {name for package in (sojourn, authoring, client, contracts) for name in package.__all__}
    assert public - words == set()


def test_every_option_of_a_tool_is_documented():
    """Each key of `ToolOptions` is in the section Options of tools.md."""
    section = (ROOT / "docs" / "tools.md").read_text().split("## Options")[1]
    assert ToolOptions.__annotations__.keys() - {*re.findall(r"`(\w+)", section)} == set()
