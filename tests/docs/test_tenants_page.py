"""docs/tenants.md: its programs, settings and file do what the page says."""

import re
import tomllib

import yaml
from temporalio.common import Priority

from sojourn import Agent, App, PlanResult, TenantQuota
from sojourn.authoring.tenants import TenantsFile
from sojourn.checks.service import check_fairness
from sojourn.server import DYNAMIC_CONFIG
from tests.docs.conftest import DOCS, blocks_of

PAGE = DOCS / "tenants.md"


def test_the_app_and_the_file_of_the_page(module_of, tmp_path):
    """Both give each tenant 50 runs and 120 starts a minute, and the named one 200 runs."""
    app = module_of("tenants.md", "shop").app
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert tomllib.loads(text)
    (tmp_path / "tenants.toml").write_text(text)
    for tenants in (app.tenants, TenantsFile(str(tmp_path / "tenants.toml"))):
        assert tenants.quota_of("globex") == TenantQuota(runs=50, starts_per_minute=120)
        assert tenants.quota_of("acme") == TenantQuota(runs=200)
        assert tenants.quota_of("") is None


async def clerk(turn) -> PlanResult:
    return PlanResult.final("none")


async def test_the_program_and_the_check_of_the_page(serve, blocks):
    """The run has the priority, and a server with the setting has the line of `sojourn doctor --fairness`."""
    client = await serve(App(agents=[Agent("shop.clerk", planner=clerk)]))
    scope: dict = {}
    for program in blocks("tenants.md"):
        exec(program, scope)
    run = await scope["start_report"](client)
    described = await client.temporal.get_workflow_handle(run.id).describe()
    expected = Priority(priority_key=5)._to_proto()
    assert described.raw_description.workflow_execution_info.priority == expected
    check = await check_fairness(client.temporal)
    assert f"✓ {check.name}: {check.found}\n" in (DOCS / "tenants.md").read_text()


def test_the_setting_of_the_page():
    """It is the one of the development server."""
    (text,) = blocks_of("tenants.md", "yaml")
    ((key, [value]),) = yaml.safe_load(text).items()
    assert DYNAMIC_CONFIG[key] == value["value"]
