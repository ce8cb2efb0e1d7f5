"""docs/notices.md: its module works as written, and its tables agree with the code."""

import re

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from sojourn import Notice
from sojourn.webhook import Webhook
from tests.test_webhook import NOTICE, SECRET, Receiver


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
    assert set(page.with_people("https://example.com/a", "https://example.com/b").notices) == {"wait", "end"}
    assert repr(page.by_mail("smtp.example.com", "sesame")) == "<Mail smtp.example.com>"


def test_the_fields_of_a_notice(rows):
    named = {
        name
        for cells in rows("notices.md", "tells from the next plan")
        for name in re.findall(r"`(\w+)`", cells[0])
    }
    assert named == set(Notice.model_fields)


async def test_a_webhook_is_verified_by_the_library_and_by_hand(module_of):
    """Both ways of the page accept what is sent, and refuse it changed; the same notice comes with the same ids."""
    page = module_of("notices.md", "receiver")
    with Receiver() as receiver:
        for _ in range(2):
            await Webhook(receiver.url, SECRET)(NOTICE)
        (headers, body), (again, _) = receiver.got
    assert page.verified(SECRET, headers, body)["data"]["id"] == NOTICE.id
    assert page.is_genuine(SECRET, headers, body)
    changed = body.replace(b"r-1", b"r-2")
    assert not page.is_genuine(SECRET, headers, changed)
    assert not page.is_genuine(SECRET, {**headers, "webhook-timestamp": "1"}, body)
    with pytest.raises(WebhookVerificationError):
        page.verified(SECRET, headers, changed)
    assert headers["webhook-id"] == again["webhook-id"] != NOTICE.id
