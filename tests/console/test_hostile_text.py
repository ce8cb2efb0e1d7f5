"""Hostile text of people, models and tools on the pages of a run: it stays text, and in its box."""

from playwright.async_api import expect

HOSTILE = [
    "<script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "<svg onload=\"document.title='pwned'\"><animate onbegin=alert(1) attributeName=x>",
    "</textarea></title></script><h1>pwned</h1>",
    '<hx-partial hx-target="#head">pwned</hx-partial>',
    '<div hx-get="/runs" hx-trigger="load" hx-on:load="document.title=\'pwned\'">',
    "<style>*{display:none!important}</style><link rel=stylesheet href=//elsewhere.invalid>",
    "[click](javascript:document.title='pwned')",
    "{{ 7 * 7 }} {% raw %} {#",
    "data: pwned\n\nevent: ended\ndata: x\n\n",
    "\u202egpj.exe\u202c \u2066\u2067\u200b\ufeff",
    "\x1b[31mred\x1b]8;;http://elsewhere.invalid\x07link",
    "Z" + "\u0300" * 500,
    "x" * 100_000,
    "\u00a0\u3000\u2800" * 50,
    "<base href=//elsewhere.invalid><meta http-equiv=refresh content='0;url=//elsewhere.invalid'>",
    "<iframe srcdoc='<script>parent.document.title=1</script>'></iframe>",
    "]]><!--><!DOCTYPE x>",
]


async def test_hostile_text_stays_text_in_its_box(desk, visit):
    """In the message, the answer, the label, a reason and a view of each, on a phone and live: nothing runs, moves or is loaded."""
    text = "Echo " + "\n\n".join(HOSTILE)
    run = await desk.ended(text, labels={"<b>desk": "<script>alert(1)</script>"})
    asks = await desk.waiting("Which " + HOSTILE[0] + HOSTILE[4])
    paths = ["/runs", f"/runs?q={'%3Cscript%3E' * 3}", "/runs/%3Cscript%3Ealert(1)%3C/script%3E"]
    paths += [
        f"/runs/{run.id}{view}" for view in ("", "/timeline", "/transcript", "/events", "/policy", "/fork")
    ]
    page = await visit(f"{desk.url}/runs/{asks.id}", size="phone")
    loaded: list[str] = []
    page.on("request", lambda asked: loaded.append(asked.url))
    await expect(page.locator("#connection")).to_have_text("Live")
    await asks.pause(HOSTILE[4] + HOSTILE[9] + HOSTILE[1], by="<b>eve")
    await expect(page.locator("#tree .note")).to_contain_text("<hx-partial")
    await expect(page.locator("#head .status")).to_have_text("Paused")
    for path in paths:
        await page.goto(desk.url + path)
        assert await page.title() != "pwned"
        assert (
            await page.locator("main").evaluate(
                "main => main.querySelectorAll('script, iframe, style, base, meta, [onerror], [onload], h1 ~ h1').length"
            )
            == 0
        ), path
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert "\u202e" not in await page.content()
        assert "\x1b" not in await page.content()
    assert [url for url in loaded if "elsewhere" in url] == []
