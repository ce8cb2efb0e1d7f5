import pytest

from sojourn import ToolFailed
from toolsets.devices import ListDevices, list_devices
from toolsets.sites import get_site, list_sites


def test_all_sites_in_order():
    """All 24 sites are listed, by number, with counts that add up to their devices."""
    found = list_sites()
    assert [site.site_id for site in found.sites] == [f"s-{n}" for n in range(1, 25)]
    assert (found.returned, found.total, found.truncated, found.refinement_hint) == (24, 24, False, None)
    for site in found.sites[:4]:
        assert site.device_count == list_devices(ListDevices(site_id=site.site_id)).total


def test_conditions_part_the_sites():
    """Every site is dark, degraded or healthy, and only one of them."""
    by_condition = {
        condition: {site.site_id for site in list_sites(condition=condition).sites}
        for condition in ("dark", "degraded", "healthy")
    }
    assert by_condition["dark"] == {"s-7", "s-16"}
    assert by_condition["degraded"] == {"s-3", "s-21"}
    assert sum(map(len, by_condition.values())) == 24


def test_limit():
    """A list with more sites than the limit is truncated, with a hint."""
    found = list_sites(limit=5)
    assert (found.returned, found.total, found.truncated) == (5, 24, True)
    assert found.refinement_hint


def test_contact_that_ran_out():
    """The contact of s-7 has expired, that of s-16 has not, and s-19 has none."""
    assert [contact.expired for contact in get_site(site_id="s-7").contacts] == [True]
    assert [contact.expired for contact in get_site(site_id="s-16").contacts] == [False]
    assert get_site(site_id="s-19").contacts == []


def test_gateway_is_a_device_of_the_site():
    """The gateway of a site is one of its devices."""
    site = get_site(site_id="s-7")
    kinds = {device.device_id: device.kind for device in list_devices(ListDevices(site_id="s-7")).devices}
    assert kinds[site.gateway_id] == "gateway"


def test_unknown_site():
    """An unknown site raises `ToolFailed`, with a question for a person."""
    with pytest.raises(ToolFailed) as caught:
        get_site(site_id="s-70")
    assert caught.value.hint
    assert caught.value.hint.clarifying_question == "There is no site s-70. Which site do you mean?"
    assert "s-7" in (caught.value.hint.issues[0].allowed or [])
