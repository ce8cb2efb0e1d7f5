"""Approval: the rules by which a call runs, is denied or waits for a person, and what the person is shown."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import ApprovalPolicy, ApprovalRule, ToolRequest
from sojourn.contracts import ToolSpec, TypeSpec
from sojourn.contracts.tool_spec import Annotations
from sojourn.core.awaits.factories import with_payload
from sojourn.core.run.approval import (
    APPROVE,
    ApprovalVerdict,
    approvers_of,
    confirmation_of,
    digest_of,
    judge,
    list_changes,
    shown_tool,
)
from sojourn.policy import PolicyDecision

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


RULE = ApprovalRule(tools=[RESET], approvers=["finance"])
LAYERS = [
    # 1. Denied tools and tags are denied, whatever the other rules say.
    (READS, policy(denied_tools=[RESET]), None, "deny"),
    (READS, policy(denied_tools=["ops.devices.*"]), None, "deny"),
    (READS, policy(denied_tags=["write"]), None, "deny"),
    (PLAIN, policy(denied_tools=[RESET], run_tools=[RESET]), PolicyDecision(approve=[RESET]), "deny"),
    (OUTSIDE, policy(denied_tools=[RESET]), None, "deny"),
    # 2. An external call runs where a person would be asked: the program that executes it decides.
    (OUTSIDE, EVERYTHING, None, "run"),
    (OUTSIDE, EVERYTHING, PolicyDecision(ask=[RESET]), "run"),
    # 3. Read-only tools run, unless the policy, the engine or the tool itself requires a person.
    (READS, EVERYTHING, None, "run"),
    (READS, READ_ONLY, None, "run"),
    (READS, policy(EVERYTHING, read_only_runs=False), None, "ask"),
    (READS, EVERYTHING, PolicyDecision(ask=[RESET]), "ask"),
    (READS_AND_ASKS, STANDARD, None, "ask"),
    # 4. Named tools and tags run.
    (DESTROYS, policy(run_tools=[RESET]), None, "run"),
    (DESTROYS, policy(EVERYTHING, run_tools=["ops.*"]), None, "run"),
    (ASKS, policy(EVERYTHING, run_tags=["other", "write"]), None, "run"),
    (DESTROYS, policy(READ_ONLY, run_tools=[RESET]), None, "run"),
    (DESTROYS, policy(run_tools=["ops.devices.list"], run_tags=["read"]), None, "ask"),
    # 5. The policy engine approves a tool or a call, or has a person asked; the latter comes first.
    (DESTROYS, STANDARD, PolicyDecision(approve=[RESET]), "run"),
    (DESTROYS, EVERYTHING, PolicyDecision(approve=["ops.devices.*"]), "run"),
    (DESTROYS, STANDARD, PolicyDecision(approve=["c1"]), "run"),
    (DESTROYS, STANDARD, PolicyDecision(approve=["c2", "ops.devices.list"]), "ask"),
    (tool(approvers=["finance"]), STANDARD, PolicyDecision(approve=[RESET]), "ask"),
    (tool(four_eyes=True), STANDARD, PolicyDecision(approve=["c1"]), "ask"),
    (tool(approver_check="may"), STANDARD, PolicyDecision(approve=[RESET]), "ask"),
    (PLAIN, policy(rules=[RULE]), PolicyDecision(approve=["*"]), "ask"),
    (PLAIN, STANDARD, PolicyDecision(ask=[RESET]), "ask"),
    (PLAIN, NOTHING, PolicyDecision(ask=["c1"]), "ask"),
    (PLAIN, NOTHING, PolicyDecision(ask=["c2"]), "run"),
    (PLAIN, NOTHING, PolicyDecision(ask=["*"], approve=[RESET]), "ask"),
    (DESTROYS, READ_ONLY, PolicyDecision(approve=[RESET]), "deny"),
    (DESTROYS, policy(run_tools=[RESET]), PolicyDecision(ask=[RESET]), "ask"),
    (OUTSIDE, READ_ONLY, None, "deny"),
    # 6. Else `asks_for` decides which calls a person is asked about.
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
    # 7. Without `asks`, a call that would wait for a person is denied.
    (DESTROYS, policy(asks=False), None, "deny"),
    (PLAIN, policy(asks=False), None, "run"),
    (PLAIN, READ_ONLY, None, "deny"),
    (PLAIN, policy(NOTHING, asks=False), PolicyDecision(ask=[RESET]), "deny"),
]


def test_the_first_layer_that_fits_decides() -> None:
    """The order is: denied, read-only, named, the policy engine, `asks_for`; an external call is never asked about."""
    assert [
        (spec, approval, decision, found)
        for spec, approval, decision, expected in LAYERS
        if (found := verdict(spec, approval, decision)) != expected
    ] == []


def test_a_run_that_may_ask_nobody_denies_instead(subtests: pytest.Subtests) -> None:
    """Without `interrupts_allowed`, calls that would wait for a person are denied, and no other changes (SR-74)."""
    for spec, approval, decision, expected in LAYERS:
        with subtests.test(str((spec, approval, decision, expected))):
            without = verdict(spec, approval, decision, interrupts=False)
            assert without == ("deny" if expected == "ask" else expected)


@pytest.mark.parametrize(
    ("approval", "interrupts", "why"),
    [
        (policy(denied_tools=["*"]), True, "this run's policy denies it"),
        (policy(asks=False), True, "this run's policy does not allow it"),
        (policy(), False, "a person would have to approve it, and this run may not ask a person"),
    ],
)
def test_a_denial_says_who_denies(approval: ApprovalPolicy, interrupts: bool, why: str) -> None:
    """The reason of a denial says whether the policy denies the tool, or nobody may be asked."""
    assert judge(DESTROYS, CALL, approval, None, interrupts_allowed=interrupts) == ApprovalVerdict(
        "deny", why
    )


def test_annotations_of_an_untrusted_server_are_ignored(subtests: pytest.Subtests) -> None:
    """Annotations of an untrusted server count as undeclared, so `read_only` does not let a tool run."""
    rows = [
        (READS, CHANGES, "run", "ask"),
        (READS, READ_ONLY, "run", "deny"),
        (READS, EVERYTHING, "run", "ask"),
        (READS, NOTHING, "run", "run"),
        (DESTROYS, STANDARD, "ask", "run"),
        (DESTROYS, CHANGES, "ask", "ask"),
        (does(read_only=False), CHANGES, "ask", "ask"),
    ]
    for spec, approval, trusted, untrusted in rows:
        with subtests.test(spec=spec, approval=approval, trusted=trusted, untrusted=untrusted):
            assert verdict(spec, approval) == trusted
            assert verdict(spec.model_copy(update={"trusted": False}), approval) == untrusted


# The stricter of two policies, compared by its verdicts.

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
def test_a_tightened_policys_verdict_is_never_weaker(spec, ours, theirs, decision) -> None:
    """The verdict of two policies together is at least as strict as that of each, in either order."""
    both = verdict(spec, ours.tightened(theirs), decision)
    assert both == verdict(spec, theirs.tightened(ours), decision)
    for one in (ours, theirs):
        assert STRICTNESS.index(both) >= STRICTNESS.index(verdict(spec, one, decision))


# The confirmation.


def test_a_confirmation_shows_what_will_run() -> None:
    """The confirmation has the call's id, the tool, its tags and title, the payload, and the tool's digest."""
    confirm = confirmation_of(tool(), CALL, CALL.payload, ApprovalPolicy(expires_after=timedelta(hours=1)))
    assert (confirm.id, confirm.tool_call_id, confirm.tool) == ("confirm-c1", "c1", RESET)
    assert (confirm.tags, confirm.title, confirm.prompt) == (
        ["write"],
        "Reset a device",
        "Run “Reset a device”?",
    )
    assert confirm.expires_after == timedelta(hours=1)
    assert confirm.spec_digest == digest_of(tool())
    assert confirm.shown == shown_tool(tool())
    assert with_payload(confirm, CALL).payload == {"site": "s-1"}


@pytest.mark.parametrize("by", ["the tool", "a rule", "the payload of an approval", ""])
def test_whoever_asked_may_not_approve_where_anything_says_so(by: str) -> None:
    """A call takes another person's approval if its tool, a rule of its policy, or the approval that a flow asks for says so."""
    spec = tool(four_eyes=by == "the tool", **({"id": APPROVE} if "payload" in by else {}))
    rules = [
        ApprovalRule(tools=["*"]),
        *([ApprovalRule(tools=["*"], four_eyes=True)] if by == "a rule" else []),
    ]
    payload = {**CALL.payload, "four_eyes": "payload" in by}
    confirm = confirmation_of(spec, CALL, payload, ApprovalPolicy(rules=rules))
    assert confirm.four_eyes is bool(by)


def test_the_arguments_are_in_the_history_once() -> None:
    """The confirmation has a payload only where the call has raw arguments, which were parsed for it."""
    raw = CALL.model_copy(update={"payload": {}, "raw": '{"site": "s-1",}'})
    for call, kept in ((CALL, {}), (raw, {"site": "s-1"})):
        confirm = confirmation_of(tool(), call, {"site": "s-1"}, ApprovalPolicy())
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
def test_the_prompt_is_the_tools_confirmation(confirmation: str, prompt: str) -> None:
    """The prompt is the author's template with declared fields filled in, in at most 500 characters."""
    assert (
        confirmation_of(tool(confirmation=confirmation), CALL, CALL.payload, ApprovalPolicy()).prompt
        == prompt
    )


def test_the_digest_depends_on_the_arguments_alone() -> None:
    """Different arguments have different digests, and the same arguments the same on every attempt."""
    digests = [
        confirmation_of(tool(), CALL, payload, ApprovalPolicy()).payload_digest
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
def test_an_approval_by_an_earlier_version_binds_the_whole_declaration(changed: ToolSpec) -> None:
    """Without `shown`, any change of a tool's declaration is one; without a digest too, none is."""
    assert list_changes(None, digest_of(tool()), tool()) == []
    assert list_changes(None, digest_of(tool()), changed) == ["its declaration"]
    assert list_changes(None, None, changed) == []


def test_the_rules_of_an_override_only_narrow_who_may_decide(subtests: pytest.Subtests) -> None:
    """Whoever starts a run names nobody who may not decide without it: one role of its list is needed beside one of the author's, or `approver`."""
    rows = [
        ([], [], ["user"], ([], [["user"]])),
        ([], [], ["user", "approver"], ([], [])),
        ([], [], ["approver"], (["approver"], [])),
        (["finance"], [], ["user"], (["finance"], [["user"]])),
        (["finance", "boss"], [], ["finance", "user"], (["finance", "boss"], [["finance", "user"]])),
        (["finance", "boss"], [], ["finance"], (["finance"], [])),
        ([], ["finance"], ["user"], (["finance"], [["user"]])),
        ([], ["finance"], ["finance"], (["finance"], [])),
        ([], ["finance"], [], (["finance"], [])),
        (["boss"], ["finance"], ["boss"], None),
    ]
    for declared, rules, narrower, roles in rows:
        with subtests.test(str((declared, rules, narrower, roles))):
            ours = ApprovalPolicy(rules=[ApprovalRule(tools=["*"], approvers=rules)] if rules else [])
            theirs = ApprovalPolicy(rules=[ApprovalRule(tools=["*"], approvers=narrower)])
            spec = tool(approvers=declared, confirmation="Really?")
            for policy_of_run in (ours.tightened(theirs), ours.tightened(theirs).tightened(theirs)):
                assert approvers_of(spec, policy_of_run) == roles


def test_a_rule_narrows_whom_a_function_lets_decide() -> None:
    """The lists of rules count beside a function of the tool, of the agent's policy and of the run alike."""
    spec = tool(approver_check="above_own_limit")
    rules = [ApprovalRule(tools=["*"], approvers=["finance"]), ApprovalRule(tools=["*"], four_eyes=True)]
    theirs = ApprovalPolicy(rules=[ApprovalRule(tools=["*"], approvers=["finance", "boss"])])
    assert approvers_of(spec, ApprovalPolicy(rules=rules)) == ([], [["finance"]])
    narrowed = ApprovalPolicy(rules=rules).tightened(theirs)
    assert approvers_of(spec, narrowed) == ([], [["finance"], ["finance", "boss"]])
