"""Mistakes in declarations: each is a `DefinitionError` at once, which names the place, what is wrong and what to do."""

import re
import types
from pathlib import Path

import pytest

from sojourn.errors import DefinitionError

SETUP = """
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from sojourn import *
from sojourn import mcp
from sojourn.authoring import *
from sojourn.flows import *
from sojourn.models import *
from sojourn.repair import *
from sojourn.contracts.tool_spec import Retry
from pydantic import BaseModel
class Wipe(BaseModel):
    site: str
    why: str = ""
class Answer(BaseModel):
    text: str
class Sites:
    def wipe(self, args: Wipe) -> str: ...
    def count(self) -> int: ...
class Planning:
    async def plan_start(self, turn): ...
    async def plan_resume(self, turn): ...
class SyncPlanning:
    def plan_start(self, turn): ...
    def plan_resume(self, turn): ...
class HalfPlanning:
    async def plan_start(self, turn): ...
async def plan(turn): ...
def sync_plan(turn): ...
async def plan_nothing(): ...
def nothing(): ...
def two(case, more): ...
def desk(case): ...
def many(case): yield 1
async def many_async(case): yield 1
def wipe(args: Wipe) -> str: ...
admin = Toolset("sites.admin")
away = Toolset("sites.away", external=True)
agent = Agent("sites.clerk", planner=plan)
"""

# Names that no declaration takes, and those that are missing.
OPTIONS = [
    (
        "admin.tool(destructve=True)(wipe)",
        "tool sites.admin.wipe: there is no option 'destructve'; did you mean 'destructive'?",
    ),
    (
        "admin.tool(nonsense=4)(wipe)",
        "tool sites.admin.wipe: there is no option 'nonsense'; the options are name, title, description, confirmation, allows_edits, attachments, bounded, destructive, four_eyes, idempotent, local, memory, open_world, read_only, tags, approvers, timeout, retry, examples, artifacts, inject",
    ),
    (
        "admin.bind(Sites.wipe, destructve=True)",
        "tool sites.admin.wipe: there is no option 'destructve'; did you mean 'destructive'?",
    ),
    (
        "admin.bind(Sites.wipe, to_reslt=str)",
        "tool sites.admin.wipe: there is no option 'to_reslt'; did you mean 'to_result'?",
    ),
    (
        'admin.bind("wipe", arg=Wipe, result=str)',
        "tool sites.admin.wipe: there is no option 'arg'; did you mean 'args'?",
    ),
    (
        'admin.bind("wipe", name="erase", args=Wipe, result=str)',
        "tool sites.admin.wipe: its name is given twice; leave out name='erase'",
    ),
    (
        'admin.declare("wipe", args=Wipe, result=str, confirm="Sure?")',
        "tool sites.admin.wipe: there is no option 'confirm'; did you mean 'confirmation'?",
    ),
    (
        'admin.declare("wipe", arg=Wipe, result=str)',
        "tool sites.admin.wipe: there is no option 'arg'; did you mean 'args'?",
    ),
    ('admin.declare("wipe", args=Wipe)', "tool sites.admin.wipe: result is missing; write result=..."),
    (
        'Toolset("sites.admin", descripton="All sites")',
        "toolset sites.admin: there is no option 'descripton'; did you mean 'description'?",
    ),
    (
        'Toolset("sites.admin", "All sites")',
        "toolset sites.admin: 'All sites' has no name; write description=...",
    ),
    (
        'Agent("sites.clerk", planer=plan)',
        "agent sites.clerk: there is no option 'planer'; did you mean 'planner'?",
    ),
    (
        'Agent("sites.clerk")',
        "agent sites.clerk: planner is missing; write planner=ModelPlanner(...), or an async function of the turn",
    ),
    ('Agent("sites.clerk", plan)', "agent sites.clerk: the function plan has no name; write planner=..."),
    (
        'Agent("sites.clerk", planner=plan, tools=[admin])',
        "agent sites.clerk: there is no option 'tools'; write uses=[...] with toolsets",
    ),
    (
        'Agent("sites.clerk", model="openai:gpt-5")',
        "agent sites.clerk: there is no option 'model'; write planner=ModelPlanner(...)",
    ),
    (
        'agent.export("sites.asks", tools=[], descripton="")',
        "toolset sites.asks: there is no option 'descripton'; did you mean 'description'?",
    ),
    ('agent.export("sites.asks")', "toolset sites.asks: tools is missing; write tools=..."),
    ('AgentTool("ask", arg=Wipe)', "AgentTool ask: there is no option 'arg'; did you mean 'args'?"),
    (
        'AgentTool("ask", args=Wipe, sytem="Be brief.")',
        "AgentTool ask: there is no option 'sytem'; did you mean 'system'?",
    ),
    ("App(agents=[agent], storag=None)", "App: there is no option 'storag'; did you mean 'storage'?"),
    ("App()", "App: agents is missing; write App(agents=[...])"),
    ("App([agent])", "App: a list has no name; write agents=..."),
    (
        "RunPolicy(interupts_allowed=True)",
        "RunPolicy: there is no field interupts_allowed; did you mean 'interrupts_allowed'?",
    ),
    ("RunPolicy(max_tool_calls=-1)", "RunPolicy: max_tool_calls should be greater than or equal to 0"),
    (
        'RunPolicy({"max_tool_calls": 3})',
        "RunPolicy: write its fields by name, such as max_calls_per_step=...",
    ),
    (
        "RunPolicyOverride(max_tokns=5)",
        "RunPolicyOverride: there is no field max_tokns; did you mean 'max_tokens'?",
    ),
    (
        'ApprovalPolicy(ask_for="everything")',
        "ApprovalPolicy: there is no field ask_for; did you mean 'asks_for'?",
    ),
    (
        'ApprovalPolicy(asks_for="all")',
        "ApprovalPolicy: asks_for should be 'nothing', 'marked', 'changes' or 'everything'",
    ),
    (
        '(admin.tool(wipe), App(agents=[Agent("sites.clerk", planner=plan, uses=[admin], policy=RunPolicy(denied_tools=["sites.admin.wip"]))]))',
        "agent sites.clerk: RunPolicy(denied_tools=[...]) names 'sites.admin.wip', which is no tool of this app; did you mean 'sites.admin.wipe'?",
    ),
    (
        '(admin.tool(wipe), App(agents=[Agent("sites.clerk", planner=plan, uses=[admin], policy=RunPolicy(approval=ApprovalPolicy(run_tools=["sites.admn.*"])))]))',
        "agent sites.clerk: ApprovalPolicy(run_tools=[...]) names 'sites.admn.*', which is no tool of this app; did you mean 'sites.admin.wipe'?",
    ),
    (
        'App(agents=[agent], name="a desk")',
        "App(name='a desk'): a name begins with a letter or digit, has letters, digits and ._:@/+-, at most 200",
    ),
    ("flow(max_repair=3)", "flow: there is no option 'max_repair'; did you mean 'max_repairs'?"),
    ("App(agents=[agent], name=3)", "App: name is a text, not 3"),
    (
        'ApprovalPolicy(denied_tools="sites.admin.wipe")',
        "ApprovalPolicy: denied_tools should be a valid list",
    ),
    ("Retry(max_atempts=1)", "Retry: there is no field max_atempts; did you mean 'max_attempts'?"),
    (
        'ModelPlanner("openai:gpt-5", system_prompt="Be brief.")',
        "ModelPlanner: there is no option 'system_prompt'; write instructions=...",
    ),
    (
        'ModelPlanner("openai:gpt-5", instrucions="Be brief.")',
        "ModelPlanner: there is no option 'instrucions'; did you mean 'instructions'?",
    ),
    (
        "ModelPlanner()",
        "ModelPlanner: model is missing; write ModelPlanner('openai:gpt-5'), or another model",
    ),
    (
        'mcp.McpToolset("sites.files", transport=mcp.Stdio("x"), trustd=True)',
        "toolset sites.files: there is no option 'trustd'; did you mean 'trusted'?",
    ),
    (
        'mcp.McpToolset("sites.files", command="npx")',
        'toolset sites.files: there is no option \'command\'; write transport=mcp.Stdio("program", "argument")',
    ),
    (
        'mcp.McpToolset("sites.files", command="npx", url="https://x.example")',
        'toolset sites.files: there is no option \'command\'; write transport=mcp.Stdio("program", "argument")',
    ),
    (
        'mcp.McpToolset("sites.files", url="https://x.example")',
        "toolset sites.files: there is no option 'url'; write transport=mcp.Http(url)",
    ),
    (
        'mcp.McpToolset("sites.files")',
        'toolset sites.files: transport is missing; write transport=mcp.Stdio("program", "argument") or transport=mcp.Http(url)',
    ),
    (
        'mcp.Stdio("npx", arg=["-y"])',
        'mcp.Stdio: there is no option \'arg\'; write mcp.Stdio("program", "argument")',
    ),
    (
        'mcp.Http("https://x.example", header={})',
        "mcp.Http: there is no option 'header'; did you mean 'headers'?",
    ),
]

# Values of another type than the option's, and those that contradict one another.
VALUES = [
    (
        'admin.tool(tags="read")(wipe)',
        "tool sites.admin.wipe: tags is a list of texts, not 'read'; write tags=['read']",
    ),
    ("admin.tool(tags=[1])(wipe)", "tool sites.admin.wipe: tags is a list of texts, not [1]"),
    (
        "admin.tool(timeout=5)(wipe)",
        "tool sites.admin.wipe: timeout is a timedelta, not 5; write timeout=timedelta(seconds=5)",
    ),
    ('admin.tool(timeout="5s")(wipe)', "tool sites.admin.wipe: timeout is a timedelta, not '5s'"),
    (
        "admin.tool(timeout=timedelta(0))(wipe)",
        "tool sites.admin.wipe: timeout is longer than zero and at most 3650 days, not 0:00:00",
    ),
    ('admin.tool(destructive="yes")(wipe)', "tool sites.admin.wipe: destructive is True or False, not 'yes'"),
    ("admin.tool(read_only=1)(wipe)", "tool sites.admin.wipe: read_only is True or False, not 1"),
    (
        'admin.tool(examples={"site": "a"})(wipe)',
        "tool sites.admin.wipe: examples is a list of payloads, not {'site': 'a'}; write examples=[{...}]",
    ),
    (
        'admin.tool(examples=[{"sight": "a"}])(wipe)',
        "tool sites.admin.wipe: the example {'sight': 'a'} is not valid: /site missing_field",
    ),
    (
        "admin.tool(retry=3)(wipe)",
        "tool sites.admin.wipe: retry is a Retry, not 3; write retry=Retry(max_attempts=3)",
    ),
    (
        "admin.tool(inject=5)(wipe)",
        "tool sites.admin.wipe: inject is a list of fields, or a mapping of field to a function of the ToolCallMeta, not 5",
    ),
    (
        'admin.tool(inject={"site": "a"})(wipe)',
        "tool sites.admin.wipe: inject is a list of fields, or a mapping of field to a function of the ToolCallMeta, not {'site': 'a'}",
    ),
    (
        'admin.tool(inject=["sight"])(wipe)',
        "tool sites.admin.wipe: the payload has no field 'sight' to inject",
    ),
    ("admin.tool(title=5)(wipe)", "tool sites.admin.wipe: title is a text, not 5"),
    ('admin.tool(description=["a"])(wipe)', "tool sites.admin.wipe: description is a text, not ['a']"),
    ("admin.tool(artifacts=5)(wipe)", "tool sites.admin.wipe: artifacts is a list of ArtifactKinds, not 5"),
    (
        "admin.tool(artifacts=[int])(wipe)",
        "tool sites.admin.wipe: artifacts takes ArtifactKind(name, type)s, or a mapping of kind to type; the class int is neither",
    ),
    (
        "admin.tool(read_only=True, destructive=True)(wipe)",
        "tool sites.admin.wipe: read_only=True says that it changes nothing, destructive=True that it may destroy; leave out the one that is wrong",
    ),
    (
        "admin.tool(read_only=True, idempotent=False)(wipe)",
        "tool sites.admin.wipe: a tool that changes nothing can be called again; leave out read_only=True or idempotent=False",
    ),
    (
        "admin.tool(local=True)(wipe)",
        "tool sites.admin.wipe: a local tool can run twice; declare it read_only=True or idempotent=True, or leave out local=",
    ),
    (
        'admin.declare("wipe", args=Wipe, result=str, decode_in_executor="yes")',
        "tool sites.admin.wipe: decode_in_executor is True or False, not 'yes'",
    ),
    ('Toolset("sites.admin", external="yes")', "toolset sites.admin: external is True or False, not 'yes'"),
    ('Toolset("sites.admin", description=5)', "toolset sites.admin: description is a text, not 5"),
    (
        'Agent("sites.clerk", planner=plan, uses=admin)',
        "agent sites.clerk: uses is a list of toolsets, not an object of class Toolset; write uses=[...]",
    ),
    (
        'Agent("sites.clerk", planner=plan, uses=[agent])',
        "agent sites.clerk: uses=[...] takes toolsets; an object of class Agent is not one; use what its export(...) returns",
    ),
    (
        'Agent("sites.clerk", planner=plan, uses=[admin.tool(wipe)])',
        "agent sites.clerk: uses=[...] takes toolsets; an object of class Tool is not one; use the toolset that declares it",
    ),
    (
        'Agent("sites.clerk", planner=plan, uses=["sites.admin"])',
        "agent sites.clerk: uses=[...] takes toolsets; 'sites.admin' is not one",
    ),
    (
        'Agent("sites.clerk", planner=plan, uses="sites.admin")',
        "agent sites.clerk: uses is a list of toolsets, not 'sites.admin'",
    ),
    (
        'Agent("sites.clerk", planner=plan, policy={"max_tool_calls": 3})',
        "agent sites.clerk: policy is a RunPolicy, not {'max_tool_calls': 3}; write policy=RunPolicy(max_tool_calls=3)",
    ),
    (
        'Agent("sites.clerk", planner=plan, policy=RunPolicyOverride())',
        "agent sites.clerk: policy is a RunPolicy, not an object of class RunPolicyOverride",
    ),
    ('Agent("sites.clerk", planner=plan, task_queue=5)', "agent sites.clerk: task_queue is a text, not 5"),
    (
        'Agent("sites.clerk", planner=plan, task_queue="sojourn.workers")',
        "agent sites.clerk: task queue sojourn.workers is where workers say which agents they serve; choose another name",
    ),
    (
        'Toolset("sites.clerk", task_queue="sojourn.workers")',
        "toolset sites.clerk: task queue sojourn.workers is where workers say which agents they serve; choose another name",
    ),
    (
        'App(agents=[agent], name="sojourn.workers")',
        "App(name='sojourn.workers'): task queue sojourn.workers is where workers say which agents they serve; choose another name",
    ),
    (
        'Toolset("sites.clerk", task_queue="")',
        "toolset sites.clerk: task queue '': a name has 1 to 200 visible characters, and does not begin with /_sys/",
    ),
    (
        'agent.export("sites.asks", tools=AgentTool("ask", args=Wipe))',
        "toolset sites.asks: tools is a list of AgentTools, not an object of class AgentTool; write tools=[...]",
    ),
    (
        'agent.export("sites.asks", tools=[Wipe])',
        "toolset sites.asks: tools=[...] takes AgentTools; the class Wipe is not one; write AgentTool(name, args=...)",
    ),
    (
        'agent.export("sites.asks", tools=[])',
        "toolset 'sites.asks': an exported toolset needs at least one AgentTool",
    ),
    (
        'AgentTool("ask", args=Wipe, tags="read")',
        "AgentTool ask: tags is a list of texts, not 'read'; write tags=['read']",
    ),
    (
        'AgentTool("ask", args=Wipe, user=5)',
        "AgentTool ask: user is a text, or a function of the payload, not 5",
    ),
    (
        "App(agents=agent)",
        "App: agents is a list of agents, not an object of class Agent; write agents=[...]",
    ),
    ("App(agents=[])", "App(agents=[...]) needs at least one agent"),
    (
        "App(agents=[admin])",
        "App(agents=[...]) takes agents; an object of class Toolset is not one; write Agent(id, planner=...)",
    ),
    (
        "App(agents=[agent, agent])",
        "agent sites.clerk is in App(agents=[...]) twice; give one of them another id",
    ),
    (
        "App(agents=[agent], interceptors=Sites())",
        "App: interceptors is a list of interceptors, not an object of class Sites; write interceptors=[...]",
    ),
    (
        "App(agents=[agent], interceptors=[Sites()])",
        "App(interceptors=[...]) takes objects with async intercept_tool_call(meta, call); an object of class Sites is not one",
    ),
    (
        "App(agents=[agent], services=Sites())",
        "App: services is a list of services, not an object of class Sites; write services=[...]",
    ),
    (
        "App(agents=[agent], services=[Sites])",
        "App(services=[...]) takes objects; Sites is a class, so write Sites()",
    ),
    ("App(agents=[agent], executors=[plan])", "App: executors is a mapping, not a list"),
    (
        'App(agents=[agent], executors={"sites.admin": sync_plan})',
        "App(executors={'sites.admin': ...}) takes an object with async execute(meta, call), or one async function of meta and call; the function sync_plan is neither",
    ),
    (
        "App(agents=[agent], policy_engine=Sites())",
        "App(policy_engine=...) takes an object with `async def decide(self, given)`, which an object of class Sites is not",
    ),
    ('App(agents=[agent], allow_loosening="yes")', "App: allow_loosening is True or False, not 'yes'"),
    (
        'mcp.McpToolset("sites.files", transport="https://name:secret@x.example")',
        "toolset sites.files: transport is an mcp.Stdio, an mcp.Http or an mcp.Sse, not an object of class str; write transport=mcp.Http(url)",
    ),
    (
        'mcp.McpToolset("sites.files", transport="npx")',
        'toolset sites.files: transport is an mcp.Stdio, an mcp.Http or an mcp.Sse, not an object of class str; write transport=mcp.Stdio("program", "argument") or transport=mcp.Http(url)',
    ),
    (
        'mcp.McpToolset("sites.files", transport=mcp.Stdio)',
        "toolset sites.files: transport is an mcp.Stdio, an mcp.Http or an mcp.Sse, not an object of class type; write transport=mcp.Stdio(...)",
    ),
    (
        'mcp.McpToolset("sites.files", transport=mcp.Stdio("x"), timeout=5)',
        "toolset sites.files: timeout is a timedelta, not 5; write timeout=timedelta(seconds=5)",
    ),
    (
        'mcp.McpToolset("sites.files", transport=mcp.Stdio("x"), confirmation="Sure?")',
        'toolset sites.files: confirmation gives a sentence by name or pattern, such as {"delete_*": "Delete {path}?"}',
    ),
    ('mcp.Stdio(["npx", "-y"])', "mcp.Stdio: command is a text, not an object of class list"),
    (
        'mcp.Stdio("npx -y server")',
        "mcp.Stdio: 'npx -y server' is a program and its arguments; write mcp.Stdio('npx', '-y', 'server')",
    ),
    (
        "Agent('sites.clerk', planner=flow(max_repairs=2))",
        "agent sites.clerk: flow(...) lacks its function; write @flow(...) above the function, and its name here",
    ),
    (
        "RepairingPlanner(plan, alternatives={'x': 3})",
        "RepairingPlanner: alternatives maps a tool's id to another's id or to a function of the call, not {'x': 3}; write {find.id: search.id}",
    ),
    ("ToolReference('a.b.c', len)", "ToolReference a.b.c: result is a type, not <built-in function len>"),
    ('mcp.Stdio("npx", 5)', "mcp.Stdio: an argument is a text, not an object of class int"),
    (
        'mcp.Stdio("npx", env={"A": 5})',
        "mcp.Stdio: env is a mapping of name to text, not an object of class dict",
    ),
    ('mcp.Http("x.example")', "mcp.Http: the address has the form http://host[:port]/path, or https://"),
]

# Fields of templates that are none of the payload's.
FIELDS = [
    (
        'admin.tool(confirmation="Wipe {sight}?")(wipe)',
        "tool sites.admin.wipe: confirmation names {sight}, which is no field of the payload; did you mean 'site'?",
    ),
    (
        'admin.tool(confirmation="Wipe {town}?")(wipe)',
        "tool sites.admin.wipe: confirmation names {town}, which is no field of the payload; its fields are site, why",
    ),
    (
        'admin.bind(Sites.count, confirmation="Count {site}?")',
        "tool sites.admin.count: confirmation names {site}, which is no field of the payload; it has no fields",
    ),
    (
        'admin.tool(confirmation="Wipe {site}?", inject=["site"])(wipe)',
        "tool sites.admin.wipe: confirmation names {site}, which is no field of the payload; its fields are why",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask", args=Wipe, confirmation="Ask {whi}?")])',
        "tool sites.asks.ask: confirmation names {whi}, which is no field of the payload; did you mean 'why'?",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask", args=Wipe, system="You know {sitee}.")])',
        "tool sites.asks.ask: system names {sitee}, which is no field of the payload; did you mean 'site'?",
    ),
]

# Functions, types, names and ids that cannot be a tool's or a toolset's.
FUNCTIONS = [
    (
        """def call(a): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter 'a' has no type annotation; write one, such as a: str",
    ),
    (
        """def call(*sites: str): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter *sites takes values without names; write one parameter with a list, such as sites: list[str]",
    ),
    (
        """def call(**sites: str): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter **sites takes any names; write one parameter for each field, or sites: dict[str, str]",
    ),
    (
        """def call(site: str, /): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter 'site' cannot be passed by name; leave out the / after it",
    ),
    (
        """def call(_site: str): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter '_site' starts with '_'; give it another name",
    ),
    (
        """def call(a: ToolCallMeta, b: ToolCallMeta): ...
admin.tool(call)""",
        "tool sites.admin.call: only one parameter can be a ToolCallMeta; two are",
    ),
    (
        """def call(a: "Hidden"): ...
admin.tool(call)""",
        "tool sites.admin.call: an annotation cannot be read (name 'Hidden' is not defined); define its types at module level, not under TYPE_CHECKING",
    ),
    (
        """def call(model_config: int): ...
admin.tool(call)""",
        "tool sites.admin.call: the name of parameter 'model_config' is pydantic's; give it another name",
    ),
    (
        """def call(site: str, over: Sites): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter 'over' has the type Sites, which has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        """def call(site: str, then: Callable[[], None]): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter 'then' has the type Callable[[], None], which has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        """def call(sites: list[Sites]): ...
admin.tool(call)""",
        "tool sites.admin.call: parameter 'sites' has the type list[Sites], which has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        """def call(site: str) -> Sites: ...
admin.tool(call)""",
        "tool sites.admin.call -> result: the type Sites has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        """@dataclass
class Held:
    sites: Sites
def call(held: Held): ...
admin.tool(call)""",
        "tool sites.admin.call: field 'sites' of Held has the type Sites, which has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        'admin.tool("wipe")(wipe)',
        "toolset sites.admin: @tool takes a function, not 'wipe'; options have a name, as in @tool(name=...)",
    ),
    (
        "admin.tool(Sites)",
        "toolset sites.admin: @tool takes a function, not the class Sites; options have a name, as in @tool(name=...)",
    ),
    (
        "admin.bind(Sites().wipe)",
        "toolset sites.admin: bind takes a method of a class (Service.method), or a name; the function wipe is neither",
    ),
    (
        'admin.bind("wipe", args=Wipe)',
        "tool sites.admin.wipe: binding by name needs args= and result=, since the method is not known yet; or bind the method itself: bind(Service.method)",
    ),
    (
        'admin.declare("wipe", args=int, result=str)',
        "tool sites.admin.wipe: a payload must be an object with named fields; int is not; use a pydantic model, a dataclass or a TypedDict",
    ),
    (
        'admin.tool(name="wipe all")(wipe)',
        "tool sites.admin.wipe all: a tool's name has 1 to 100 letters, digits, '_', '-', '.', '/', and begins with a letter, a digit or '_'",
    ),
    (
        """admin.tool(wipe)
admin.tool(wipe)""",
        "tool sites.admin.wipe is declared twice; give one of them another name=",
    ),
    (
        "away.tool(wipe)",
        "tool sites.away.wipe: toolset sites.away is external, so its tools have no code here; use declare(...)",
    ),
    (
        'away.declare("wipe", args=Wipe, result=str, confirmation="Sure?")',
        "tool sites.away.wipe: an external tool is executed outside; leave out confirmation, approvers, four_eyes, local, inject, memory and task_queue",
    ),
    (
        "admin.tool(bounded=True)(wipe)",
        "tool sites.admin.wipe: the result of a bounded tool needs a field `returned`",
    ),
    ('Toolset("admin")', "toolset 'admin': the id must have the form <service>.<toolset>"),
    ("Toolset(5)", "toolset 5: the id must have the form <service>.<toolset>"),
    (
        'agent.export("asks", tools=[AgentTool("ask", args=Wipe)])',
        "toolset 'asks': the id must have the form <service>.<toolset>",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask you", args=Wipe)])',
        "tool sites.asks.ask you: a tool's name has 1 to 100 letters, digits, '_', '-', '.', '/', and begins with a letter, a digit or '_'",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask", args=Wipe), AgentTool("ask", args=Wipe)])',
        "tool sites.asks.ask is declared twice; give one of them another name",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask", args=Sites)])',
        "tool sites.asks.ask: the type Sites has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask", args=Wipe, result=Sites)])',
        "tool sites.asks.ask -> result: the type Sites has no JSON Schema; use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model",
    ),
    (
        'agent.export("sites.asks", tools=[AgentTool("ask", args=Wipe, example={})])',
        "tool sites.asks.ask: the example {} is not valid: /site missing_field",
    ),
]

# What cannot plan, and models that no provider has.
PLANNERS = [
    ('Agent("clerk", planner=plan)', "agent 'clerk': the id must have the form <service>.<agent>"),
    (
        'Agent("sites.clerk", planner=sync_plan)',
        "agent sites.clerk: the planner 'sync_plan' is not async; write async def sync_plan(turn: Turn) -> PlanResult",
    ),
    (
        'Agent("sites.clerk", planner=lambda turn: None)',
        "agent sites.clerk: the planner is a lambda, which is not async; write async def plan(turn: Turn) -> PlanResult",
    ),
    (
        'Agent("sites.clerk", planner=plan_nothing)',
        "agent sites.clerk: the planner 'plan_nothing' takes one argument, the turn; write async def plan_nothing(turn: Turn) -> PlanResult",
    ),
    (
        'Agent("sites.clerk", planner=Planning)',
        "agent sites.clerk: the planner Planning is a class; write Planning(...)",
    ),
    (
        'Agent("sites.clerk", planner=SyncPlanning())',
        "agent sites.clerk: plan_start of the planner SyncPlanning is not async; write async def plan_start(self, turn)",
    ),
    (
        'Agent("sites.clerk", planner=HalfPlanning())',
        "agent sites.clerk: a planner is an object with async plan_start and plan_resume, or one async function of the turn; HalfPlanning has plan_start, but no plan_resume",
    ),
    (
        'Agent("sites.clerk", planner=None)',
        "agent sites.clerk: a planner is an object with async plan_start and plan_resume, or one async function of the turn; NoneType is neither",
    ),
    (
        'Agent("sites.clerk", planner="openai:gpt-5")',
        "agent sites.clerk: the planner 'openai:gpt-5' is a text; for a model write ModelPlanner(...) with its name",
    ),
    (
        "RepairingPlanner(sync_plan)",
        "RepairingPlanner: the planner 'sync_plan' is not async; write async def sync_plan(turn: Turn) -> PlanResult",
    ),
    (
        'ModelPlanner("gpt-5")',
        "ModelPlanner: the model 'gpt-5' has no provider; did you mean 'openai:gpt-5'?",
    ),
    (
        'ModelPlanner("claude-sonnet-4-5")',
        "ModelPlanner: the model 'claude-sonnet-4-5' has no provider; did you mean 'anthropic:claude-sonnet-4-5'?",
    ),
    ('ModelPlanner("openai")', "ModelPlanner: the model 'openai' is only a provider; write 'openai:MODEL'"),
    (
        'ModelPlanner("opnai:gpt-5")',
        "ModelPlanner: there is no provider 'opnai'; did you mean 'openai:gpt-5'?",
    ),
    (
        'ModelPlanner("nowhere:gpt-5")',
        "ModelPlanner: there is no provider 'nowhere'; write PROVIDER:MODEL; providers are anthropic, google, groq, mistral, ollama, openai, openrouter, xai",
    ),
    (
        'ModelPlanner("openai:gpt-5", fallbacks=["gpt-4"])',
        "ModelPlanner: the model 'gpt-4' has no provider; did you mean 'openai:gpt-4'?",
    ),
    (
        'ModelPlanner("openai:gpt-5", fallbacks="anthropic:claude-sonnet-5-5")',
        "ModelPlanner: fallbacks is a list of models, not 'anthropic:claude-sonnet-5-5'",
    ),
    (
        "ModelPlanner(5)",
        "ModelPlanner takes a model by name, such as 'openai:gpt-6.1-terra', or a model object of pydantic-ai; 5 is neither",
    ),
]

# Flows, repairs, and tools by their id.
FLOWS = [
    ("flow(nothing)", "flow nothing: a flow takes one argument; write def nothing(case: Case)"),
    ("flow(two)", "flow two: a flow takes one argument; write def two(case: Case)"),
    ("flow(Sites.wipe)", "flow wipe: a flow takes one argument; write def wipe(case: Case)"),
    ("flow(many)", "flow many: a flow returns its answer, and yields nothing"),
    ("flow(many_async)", "flow many_async: a flow returns its answer, and yields nothing"),
    ("flow(3)", "flow: 3 is no function; a flow is a function of a Case"),
    ("flow(max_repairs=-1)(desk)", "flow desk: max_repairs is a number from 0, not -1"),
    ('flow(max_repairs="3")(desk)', "flow desk: max_repairs is a number from 0, not '3'"),
    (
        'flow(defaults={"role": "x"})(desk)',
        "flow desk: defaults is a mapping of fields by tool id, such as {find.id: {'limit': 3}}, not {'role': 'x'}",
    ),
    ('flow(read_answer="x")(desk)', "flow desk: read_answer is a function of a text and the fields, not 'x'"),
    ('flow(restart_on="why")(desk)', "flow desk: restart_on is a function of a text, not 'why'"),
    (
        "RepairingPlanner(plan, max_repairs=True)",
        "RepairingPlanner: max_repairs is a number from 0, not True",
    ),
    ("RepairingPlanner(plan, max_wait=5)", "RepairingPlanner: max_wait is a timedelta, not 5"),
    (
        "RepairingPlanner(plan, defaults=[1])",
        "RepairingPlanner: defaults is a mapping of fields by tool id, such as {find.id: {'limit': 3}}, not [1]",
    ),
    (
        "RepairingPlanner(plan, read_answer=3)",
        "RepairingPlanner: read_answer is a function of a text and the fields, not 3",
    ),
    (
        'ToolReference("find", str)',
        "ToolReference: 'find' is not a tool id; it has the form <service>.<toolset>.<tool>",
    ),
    ("ToolReference(3, str)", "ToolReference takes a tool's id, not 3; a tool itself needs no reference"),
    ('ToolReference("a.b.c", "str")', "ToolReference a.b.c: result is a type, not 'str'"),
]


MISTAKES = dict([*OPTIONS, *VALUES, *FIELDS, *FUNCTIONS, *PLANNERS, *FLOWS])


def test_each_mistake_is_a_definition_error() -> None:
    """Each mistake raises a `DefinitionError` with exactly this sentence, where it is declared."""
    setup = compile(SETUP, "setup", "exec")
    assert {declaration: sentence_of(declaration, setup) for declaration in MISTAKES} == MISTAKES


def sentence_of(declaration: str, setup: types.CodeType) -> str:
    """The message of the error that a declaration raises."""
    names = {"__name__": __name__}
    exec(setup, names)
    with pytest.raises(DefinitionError) as raised:
        exec(declaration, names)
    return str(raised.value)


def test_the_page_shows_these_sentences() -> None:
    """Each sentence in the table of docs/authoring.md is one of those above."""
    page = (Path(__file__).parents[2] / "docs/authoring.md").read_text()
    rows = re.findall(r"^\| `[^`]+` \| `([^`]+)` \|$", page.partition("## Mistakes")[2], re.MULTILINE)
    assert len(rows) == 5
    assert set(rows) <= {*MISTAKES.values()}
