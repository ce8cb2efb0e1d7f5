"""docs/attachments.md: its app counts the lines of files that its program sends."""

from sojourn.storage import FolderStorage


async def test_the_program_of_the_page(serve, module_of, tmp_path):
    """A file that is sent by its path and as an upload is read by the tool, as the page says."""
    page = module_of("attachments.md", "shop")
    page.app.storage = FolderStorage(tmp_path / "storage")
    client = await serve(page.app, storage=page.app.storage)
    path = tmp_path / "orders.csv"
    path.write_text("a\nb\nc\n")
    assert await page.send(client, path) == "orders.csv: 3; orders.csv: 3"
