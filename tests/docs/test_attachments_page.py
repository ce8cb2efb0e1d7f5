"""docs/attachments.md: its app counts the lines of files that its program sends."""

from sojourn import Agent, App, Case, flow
from sojourn.storage import FolderStorage


async def test_the_program_of_the_page(serve, module_of, tmp_path):
    """A file that is sent by its path and as an upload is read by the tool, as the page says."""
    page = module_of("attachments.md", "shop")
    page.app.storage = FolderStorage(tmp_path / "storage")
    client = await serve(page.app, storage=page.app.storage)
    path = tmp_path / "orders.csv"
    path.write_text("a\nb\nc\n")
    assert await page.send(client, path) == "orders.csv: 3; orders.csv: 3"


async def test_the_tool_of_the_page_that_makes_a_file(serve, module_of, tmp_path):
    """Its file is that of the run, under the name and with the content that the page says."""
    page = module_of("attachments.md", "shop")
    (tmp_path / "orders.csv").write_text("a\nb\nc\n")

    @flow
    def make(case: Case) -> str:
        """Have a report made."""
        return str(case.call(page.report, file=case.attachments[0]))

    storage = FolderStorage(tmp_path / "storage")
    app = App(agents=[Agent("shop.maker", planner=make, uses=[page.files])], storage=storage)
    client = await serve(app, storage=storage)
    run = await client.start("shop.maker", "go", attachments=[tmp_path / "orders.csv"])
    assert (await run.result()).text.startswith("lines=3 table=<Attachment att_")
    _, made = await run.attachments()
    assert (made.name, await made.read()) == ("report.csv", b"lines;3\n")
