"""Name the contacts of a site, ask for one, and register one."""

from dataclasses import asdict
from typing import Any

from planners.facts import UPSERT_PROFILE, Profile, Site
from planners.failures import read_reply, sentence_of
from planners.questions import RegisterContact
from planners.wording import person
from sojourn import AwaitClarification, CallFailed, Case

__all__ = ["name_contact", "register_contact"]

_WANTED = ["name", "email"]


def register_contact(case: Case, question: RegisterContact) -> dict[str, Any]:
    """Register the contact of the question.

    The tool's hint names missing fields, and the flow asks for them.
    """
    profile = case.call(UPSERT_PROFILE, **asdict(question))
    case.say(_registered(profile))
    return profile.model_dump(mode="json")


def name_contact(case: Case, site: Site) -> None:
    """Name the contact of a site, or ask whom to register if none is valid."""
    valid = [contact for contact in site.contacts if not contact.expired]
    if valid:
        case.say(f"Contact: {person(valid[0])}.")
    elif case.offers(UPSERT_PROFILE):
        case.say(_nobody(site))
        case.say(_ask_for_contact(case, site))


def _ask_for_contact(case: Case, site: Site) -> str:
    if not case.may_ask:
        return "Nobody may be asked in this run, so it stays at that."
    reply = case.ask(_question(case, site))
    values = read_reply(reply, _WANTED) if reply else None
    if values is None:
        return "Nobody was registered, as you said." if reply else "Nobody was registered."
    values.pop("site_id", None)  # the contact is of the site that the question names
    try:
        return _registered(case.call(UPSERT_PROFILE, **{"site_id": site.site_id, **values}))
    except CallFailed as failed:
        return sentence_of(case, failed)


def _question(case: Case, site: Site) -> AwaitClarification:
    spec = next((spec for spec in case.turn.tools if spec.id == UPSERT_PROFILE.id), None)
    return AwaitClarification(
        id=f"contact-{site.site_id}",
        question=f"{_nobody(site)} Whom shall I register (name and email)? Say no to leave it.",
        missing_fields=_WANTED,
        restrict_to_tool=UPSERT_PROFILE.id,
        example_input=spec.payload.example if spec else None,
    )


def _registered(profile: Profile) -> str:
    replaced = f", in place of {profile.replaced}" if profile.replaced else ""
    who = f"{profile.name} ({profile.email})"
    return f"{who} is registered as {profile.role} contact of {profile.site_id}{replaced}."


def _nobody(site: Site) -> str:
    if not site.contacts:
        return f"{site.site_id} has no contact."
    last = site.contacts[0]
    return f"The contact of {site.site_id}, {last.name}, ran out on {last.valid_until}."
