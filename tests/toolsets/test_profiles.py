import pytest

from sojourn import ToolCallMeta, ToolFailed
from sojourn.core.payload.hints import hint_for_issues
from toolsets.executions import history
from toolsets.profiles import UpsertProfile, upsert
from toolsets.sites import get_site

ANA = UpsertProfile(site_id="s-7", name="Ana Lima", email="ana@example.org", role="operations")


def test_replaces_the_contact_of_a_role(meta: ToolCallMeta):
    """A new contact takes the place of the one registered in its role, and has not expired."""
    before = get_site(site_id="s-7").contacts[0]
    profile = upsert(ANA, meta)
    assert (profile.revision, profile.replaced) == (2, before.name)
    (contact,) = get_site(site_id="s-7").contacts
    assert (contact.name, contact.email, contact.expired) == ("Ana Lima", "ana@example.org", False)


def test_new_role_is_added(meta: ToolCallMeta):
    """A contact in another role stands beside the first."""
    profile = upsert(ANA.model_copy(update={"role": "owner"}), meta)
    assert (profile.revision, profile.replaced) == (1, None)
    assert [contact.role for contact in get_site(site_id="s-7").contacts] == ["operations", "owner"]


def test_same_key_writes_once(meta: ToolCallMeta):
    """A call with the same idempotency key is executed again, but changes nothing and returns the same."""
    first = upsert(ANA, meta)
    again = upsert(ANA, meta.model_copy(update={"attempt": 2}))
    assert again == first
    assert [row["attempt"] for row in history("r")] == [1, 2]
    other = upsert(ANA, meta.model_copy(update={"idempotency_key": "k2"}))
    assert other.revision == first.revision + 1


def test_unknown_site_writes_nothing(meta: ToolCallMeta):
    """An unknown site raises `ToolFailed`, and a later call with the same key may succeed."""
    with pytest.raises(ToolFailed):
        upsert(ANA.model_copy(update={"site_id": "s-77"}), meta)
    assert upsert(ANA, meta).revision == 2


@pytest.mark.parametrize(
    ("payload", "fields"),
    [
        ({"site_id": "s-7", "name": "Ana"}, {"/email", "/role"}),
        ({**ANA.model_dump(exclude_none=True), "email": "ana"}, {"/email"}),
        ({**ANA.model_dump(exclude_none=True), "role": "boss"}, {"/role"}),
        ({**ANA.model_dump(exclude_none=True), "phone": "12"}, {"/phone"}),
    ],
)
def test_bad_payloads_stop_at_the_boundary(payload: dict[str, object], fields: set[str]):
    """Missing and invalid fields are named one by one, before the tool runs."""
    _, hint = hint_for_issues(upsert.spec, payload, upsert.validator.issues(payload), upsert.validator)
    assert {issue.field for issue in hint.issues} == fields
    assert history() == []
