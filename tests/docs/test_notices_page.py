"""docs/notices.md: its module works as written, and its tables agree with the code."""

import re

from sojourn import Notice


async def test_the_program_of_the_page(serve, module_of, until):
    page = module_of("notices.md", "shop")
    client = await serve(page.app)
    run = await client.start("shop.clerk", "Where is my order?")
    await until(lambda: page.seen)
    (notice,) = page.seen.values()
    assert (notice.id, notice.text) == (f"{run.id}/wait/order", "Which order?")
    await run.answer("7")
    assert (await run.result()).text == "Order 7 is on its way."
    hooked = page.with_webhook("https://example.com/hooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert set(hooked.notices) == {"wait", "end"}


def test_the_fields_of_a_notice(rows):
    named = {
        name
        for cells in rows("notices.md", "tells from the next plan")
        for name in re.findall(r"`(\w+)`", cells[0])
    }
    assert named == set(Notice.model_fields)
