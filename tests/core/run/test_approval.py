"""Approval: who decides whether a call runs, layer by layer, and what a person is shown of it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, PolicyDecision, ToolRequest, ToolSpec, TypeSpec
from sojourn.contracts.tool_spec import Annotations
from sojourn.core.awaits.opened import with_payload
from sojourn.core.run.approval import Verdict, confirmation_of, digest_of, judge

SCHEMA = {
    "type": "object",
    "properties": {"site": {"type": "string"}, "force": {"type": "boolean", "default": False}},
}


def tool(**changes) -> ToolSpec:
    spec = ToolSpec(
        id="ops.devices.reset",
        title="Reset a device",
        description="Resets.",
        tags=["write"],
        payload=TypeSpec(name="Args", json_schema=SCHEMA),
        result=TypeSpec(name="R", json_schema={}),
    )
    return spec.model_copy(update=changes)


def does(trusted: bool = True, confirmation: str | None = None, **annotations) -> ToolSpec:
    return tool(annotations=Annotations(**annotations), trusted=trusted, confirmation=confirmation)


PLAIN = tool()
READS = does(read_only=True)
DESTROYS = does(destructive=True)
ASKS = tool(confirmation="Really?")
READS_AND_ASKS = does(read_only=True, confirmation="Really?")
OUTSIDE = tool(kind="external")

CALL = ToolRequest(name=PLAIN.id, payload={"site": "s-1"}, tool_call_id="c1")
RESET = "ops.devices.reset"

STANDARD = ApprovalPolicy()
NOTHING = ApprovalPolicy.unattended()
CHANGES = ApprovalPolicy.supervised()
READ_ONLY = ApprovalPolicy.read_only()
EVERYTHING = ApprovalPolicy(asks_for="everything")


def policy(base: ApprovalPolicy = STANDARD, **changes) -> ApprovalPolicy:
    return base.model_copy(update=changes)


def verdict(
    spec: ToolSpec,
    approval: ApprovalPolicy,
    decision: PolicyDecision | None = None,
    *,
    interrupts: bool = True,
) -> str:
    return judge(spec, CALL, approval, decision, interrupts_allowed=interrupts).kind


LAYERS = [
    # 1. What is denied is denied, whatever else is said.
    (READS, policy(denied_tools=[RESET]), None, "deny"),
    (READS, policy(denied_tools=["ops.devices.*"]), None, "deny"),
    (READS, policy(denied_tags=["write"]), None, "deny"),
    (PLAIN, policy(denied_tools=[RESET], run_tools=[RESET]), PolicyDecision(approve=[RESET]), "deny"),
    (OUTSIDE, policy(denied_tools=[RESET]), None, "deny"),
    # 2. What somebody outside executes, they decide about.
    (OUTSIDE, EVERYTHING, None, "run"),
    (OUTSIDE, EVERYTHING, PolicyDecision(ask=[RESET]), "run"),
    # 3. What only reads runs, unless the policy, the engine or the tool itself says otherwise.
    (READS, EVERYTHING, None, "run"),
    (READS, READ_ONLY, None, "run"),
    (READS, policy(EVERYTHING, read_only_runs=False), None, "ask"),
    (READS, EVERYTHING, PolicyDecision(ask=[RESET]), "ask"),
    (READS_AND_ASKS, STANDARD, None, "ask"),
    # 4. What is named runs.
    (DESTROYS, policy(run_tools=[RESET]), None, "run"),
    (DESTROYS, policy(EVERYTHING, run_tools=["ops.*"]), None, "run"),
    (ASKS, policy(EVERYTHING, run_tags=["other", "write"]), None, "run"),
    (DESTROYS, policy(READ_ONLY, run_tools=[RESET]), None, "run"),
    (DESTROYS, policy(run_tools=["ops.devices.list"], run_tags=["read"]), None, "ask"),
    # 5. The policy engine approves a tool or one call, or has a person asked, which is the stricter.
    (DESTROYS, STANDARD, PolicyDecision(approve=[RESET]), "run"),
    (DESTROYS, EVERYTHING, PolicyDecision(approve=["ops.devices.*"]), "run"),
    (DESTROYS, STANDARD, PolicyDecision(approve=["c1"]), "run"),
    (DESTROYS, STANDARD, PolicyDecision(approve=["c2", "ops.devices.list"]), "ask"),
    (PLAIN, STANDARD, PolicyDecision(ask=[RESET]), "ask"),
    (PLAIN, NOTHING, PolicyDecision(ask=["c1"]), "ask"),
    (PLAIN, NOTHING, PolicyDecision(ask=["c2"]), "run"),
    (PLAIN, NOTHING, PolicyDecision(ask=["*"], approve=[RESET]), "ask"),
    (DESTROYS, READ_ONLY, PolicyDecision(approve=[RESET]), "deny"),
    (DESTROYS, policy(run_tools=[RESET]), PolicyDecision(ask=[RESET]), "ask"),
    (OUTSIDE, READ_ONLY, None, "deny"),
    # 6. Else the policy decides which calls a person is asked about.
    (PLAIN, STANDARD, None, "run"),
    (DESTROYS, STANDARD, None, "ask"),
    (ASKS, STANDARD, None, "ask"),
    (PLAIN, CHANGES, None, "ask"),
    (READS, CHANGES, None, "run"),
    (READS_AND_ASKS, CHANGES, None, "ask"),
    (READS, policy(CHANGES, read_only_runs=False), None, "run"),
    (DESTROYS, NOTHING, None, "run"),
    (ASKS, NOTHING, None, "run"),
    (PLAIN, EVERYTHING, None, "ask"),
    # 7. Where nobody may be asked, what would be asked about is denied.
    (DESTROYS, policy(asks=False), None, "deny"),
    (PLAIN, policy(asks=False), None, "run"),
    (PLAIN, READ_ONLY, None, "deny"),
    (PLAIN, policy(NOTHING, asks=False), PolicyDecision(ask=[RESET]), "deny"),
]


@pytest.mark.parametrize(("spec", "approval", "decision", "expected"), LAYERS)
def test_the_first_layer_that_fits_decides(spec, approval, decision, expected: str) -> None:
    """Denied, read-only, named, the engine, a person: whichever speaks first."""
    assert verdict(spec, approval, decision) == expected


@pytest.mark.parametrize(("spec", "approval", "decision", "expected"), LAYERS)
def test_a_run_that_may_ask_nobody_denies_instead(spec, approval, decision, expected: str) -> None:
    """Without interrupts no call waits for a person; all else is as it was (SR-74, D-18)."""
    without = verdict(spec, approval, decision, interrupts=False)
    assert without == ("deny" if expected == "ask" else expected)


@pytest.mark.parametrize(
    ("approval", "interrupts", "why"),
    [
        (policy(denied_tools=["*"]), True, "this run's policy denies it"),
        (policy(asks=False), True, "this run's policy does not allow it"),
        (policy(), False, "a person would have to approve it, and this run may ask nobody"),
    ],
)
def test_a_denial_says_who_denies(approval: ApprovalPolicy, interrupts: bool, why: str) -> None:
    """The planner reads in a clause whether another tool, or another run, would help."""
    assert judge(DESTROYS, CALL, approval, None, interrupts_allowed=interrupts) == Verdict("deny", why)


@pytest.mark.parametrize(
    ("spec", "approval", "trusted", "untrusted"),
    [
        (READS, CHANGES, "run", "ask"),
        (READS, READ_ONLY, "run", "deny"),
        (READS, EVERYTHING, "run", "ask"),
        (READS, NOTHING, "run", "run"),
        (DESTROYS, STANDARD, "ask", "run"),
        (DESTROYS, CHANGES, "ask", "ask"),
        (does(read_only=False), CHANGES, "ask", "ask"),
    ],
)
def test_what_a_stranger_says_of_a_tool_counts_for_nothing(
    spec, approval, trusted: str, untrusted: str
) -> None:
    """Annotations of a server that is not trusted are undeclared ones: claiming to read opens no door."""
    assert verdict(spec, approval) == trusted
    assert verdict(spec.model_copy(update={"trusted": False}), approval) == untrusted


# The stricter of two policies, judged by what it lets happen.

NAMES = st.lists(st.sampled_from([RESET, "ops.devices.*", "ops.*", "*", "ops.other.*", "a.b.c"]), max_size=2)
TAGS = st.lists(st.sampled_from(["write", "read"]), max_size=1)
POLICIES = st.builds(
    ApprovalPolicy,
    denied_tools=NAMES,
    denied_tags=TAGS,
    read_only_runs=st.booleans(),
    run_tools=NAMES,
    run_tags=TAGS,
    asks_for=st.sampled_from(["nothing", "marked", "changes", "everything"]),
    asks=st.booleans(),
)
SPECS = st.sampled_from(
    [PLAIN, READS, DESTROYS, ASKS, READS_AND_ASKS, OUTSIDE, does(trusted=False, read_only=True)]
)
STRICTNESS = ("run", "ask", "deny")


@given(SPECS, POLICIES, POLICIES, st.none() | st.builds(PolicyDecision, ask=NAMES, approve=NAMES))
def test_tightening_never_lets_more_happen(spec, ours, theirs, decision) -> None:
    """Under two policies together no call has it easier than under either, in whichever order they are taken."""
    both = verdict(spec, ours.tightened(theirs), decision)
    assert both == verdict(spec, theirs.tightened(ours), decision)
    for one in (ours, theirs):
        assert STRICTNESS.index(both) >= STRICTNESS.index(verdict(spec, one, decision))


# What a person is asked.


def test_a_person_is_shown_what_will_run() -> None:
    """The wait names the call, the tool, its tags, its title and the arguments, bound by digests."""
    confirm = confirmation_of(tool(), CALL, CALL.payload, policy(expires_after=timedelta(hours=1)))
    assert (confirm.id, confirm.tool_call_id, confirm.tool) == ("confirm-c1", "c1", RESET)
    assert (confirm.tags, confirm.title, confirm.prompt) == (
        ["write"],
        "Reset a device",
        "Run “Reset a device”?",
    )
    assert confirm.expires_after == timedelta(hours=1)
    assert confirm.spec_digest == digest_of(tool())
    assert with_payload(confirm, CALL).payload == {"site": "s-1"}


def test_the_arguments_stand_once_in_the_history() -> None:
    """Where the call holds the arguments the wait leaves them out; as a model's text they were parsed for it."""
    raw = CALL.model_copy(update={"payload": {}, "raw": '{"site": "s-1",}'})
    for call, kept in ((CALL, {}), (raw, {"site": "s-1"})):
        confirm = confirmation_of(tool(), call, {"site": "s-1"}, STANDARD)
        assert confirm.payload == kept
        assert with_payload(confirm, call).payload == {"site": "s-1"}


@pytest.mark.parametrize(
    ("confirmation", "prompt"),
    [
        ("Reset {site}?", "Reset s-1?"),
        ("Reset {site}, force {force}, {other}?", "Reset s-1, force false, {other}?"),
        ("", "Run “Reset a device”?"),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 499 + "…"),
    ],
    ids=["filled in", "defaults", "none", "long", "too long"],
)
def test_the_question_is_the_authors(confirmation: str, prompt: str) -> None:
    """Declared fields are filled in, and what is asked has at most 500 characters."""
    assert confirmation_of(tool(confirmation=confirmation), CALL, CALL.payload, STANDARD).prompt == prompt


def test_the_digest_is_the_arguments() -> None:
    """Other arguments have another digest, the same call has the same on every attempt."""
    digests = [
        confirmation_of(tool(), CALL, payload, STANDARD).payload_digest
        for payload in ({"site": "s-1"}, {"site": "s-1"}, {"site": "s-2"}, {})
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    assert all(len(digest) == 64 for digest in digests)


@pytest.mark.parametrize(
    "changed",
    [
        tool(description="Resets, and deletes."),
        tool(payload=TypeSpec(name="Args", json_schema={**SCHEMA, "required": ["site"]})),
        tool(result=TypeSpec(name="R", json_schema={"type": "string"})),
        tool(annotations=Annotations(destructive=True)),
        tool(confirmation="Reset {site}?"),
        tool(title="Delete a device"),
    ],
    ids=["description", "payload", "result", "annotations", "confirmation", "title"],
)
def test_an_approval_is_of_the_tool_as_it_was_shown(changed: ToolSpec) -> None:
    """Whatever a deploy or a server changes of a tool changes its digest, so that it does not run unseen."""
    assert digest_of(tool()) == digest_of(tool())
    assert digest_of(changed) != digest_of(tool())
