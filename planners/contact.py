"""Contacts of a site: name them, ask for one, and register one."""

from typing import Any

from planners.case import Case, Stuck
from planners.facts import Profile, Site
from planners.questions import RegisterContact
from planners.tool_ids import UPSERT_PROFILE
from planners.wording import person
from sojourn import AwaitClarification

__all__ = ["name_contact", "register_contact"]

_ROLE = "operations"
"""The role of a contact if none is given."""


def register_contact(case: Case, question: RegisterContact) -> dict[str, Any]:
    """Register the contact of the question; the tool's hint names the fields that are missing, which are asked for."""
    profile = _upsert(
        case,
        site_id=question.site_id,
        name=question.name,
        email=question.email,
        role=question.role,
        phone=question.phone,
    )
    return profile.model_dump(mode="json")


def name_contact(case: Case, site: Site) -> None:
    """Name the contact of a site; if none is valid, ask whom to register."""
    valid = [contact for contact in site.contacts if not contact.expired]
    if valid:
        case.say(f"Contact: {person(valid[0])}.")
        return
    if not case.offers(UPSERT_PROFILE):
        return
    case.say(_nobody(site))
    values = case.ask(
        AwaitClarification(
            id=f"contact-{site.site_id}",
            question=f"{_nobody(site)} Whom shall I register (name and email)? Say no to leave it.",
            missing_fields=["name", "email"],
            restrict_to_tool=UPSERT_PROFILE,
            example_input=case.example(UPSERT_PROFILE),
        )
    )
    if values is None:
        case.say("Nobody was registered, as you said.")
        return
    try:
        _upsert(case, **{"site_id": site.site_id, **values})
    except Stuck as stuck:
        case.say(str(stuck))


def _upsert(case: Case, **payload: Any) -> Profile:
    case.defaults["role"] = _ROLE
    profile = case.call(UPSERT_PROFILE, Profile, **payload)
    replaced = f", in place of {profile.replaced}" if profile.replaced else ""
    case.say(
        f"{profile.name} ({profile.email}) is registered as {profile.role} contact of {profile.site_id}{replaced}."
    )
    return profile


def _nobody(site: Site) -> str:
    if not site.contacts:
        return f"{site.site_id} has no contact."
    last = site.contacts[0]
    return f"The contact of {site.site_id}, {last.name}, ran out on {last.valid_until}."
