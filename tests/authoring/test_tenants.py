"""Quotas as they are declared, in code and in a file that changes."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sojourn import Agent, App, TenantQuota, Tenants
from sojourn.authoring import tenants as module
from sojourn.authoring.tenants import TenantsFile
from sojourn.errors import DefinitionError
from sojourn.testing.scripted import ScriptedPlanner


def test_a_tenant_has_its_own_quota_or_the_default():
    """A named one has nothing of the default, and a quota that limits nothing is none."""
    tenants = Tenants(default=TenantQuota(runs=1), of={"acme": TenantQuota(runs=5), "free": TenantQuota()})
    assert tenants.quota_of("globex") == TenantQuota(runs=1)
    assert tenants.quota_of("acme") == TenantQuota(runs=5)
    assert tenants.quota_of("free") is None
    assert tenants.quota_of("") is None


@pytest.mark.parametrize(
    "field",
    [
        {"runs": 0},
        {"runs": 5_001},
        {"run": 1},
        {"when_full": "maybe"},
        {"max_waiting": 0},
        {"max_waiting": 5_001},
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(field):
    """Where it is declared, by its field."""
    with pytest.raises(DefinitionError, match=f"TenantQuota: .*{next(iter(field))}"):
        TenantQuota(**field)


def write(path: Path, text: str, moment: int) -> None:
    """Write the file, and make its time another one."""
    path.write_text(text)
    os.utime(path, (moment, moment))


def test_a_file_is_read_again_when_it_changes(tmp_path, monkeypatch):
    """A fault is logged once and changes nothing, and the file counts again once it is mended."""
    monkeypatch.setattr(module, "READ_EVERY", 0.0)
    path = tmp_path / "tenants.toml"
    write(path, "[default]\nruns = 2\n", 1)
    tenants = TenantsFile(str(path))
    assert tenants.quota_of("acme") == TenantQuota(runs=2)
    write(path, "[tenants.acme]\nruns = 3\n", 2)
    assert (tenants.quota_of("acme"), tenants.quota_of("globex")) == (TenantQuota(runs=3), None)
    with capture_logs() as logs:
        write(path, "[tenants.acme]\nruns = -1\n", 3)
        assert [tenants.quota_of("acme") for _ in range(3)] == [TenantQuota(runs=3)] * 3
        path.unlink()
        assert tenants.quota_of("acme") == TenantQuota(runs=3)
    assert [entry["event"] for entry in logs] == ["tenants_not_read"] * 2
    write(path, "[default]\nruns = 9\n", 4)
    assert tenants.quota_of("acme") == TenantQuota(runs=9)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("runs = 2", "there is no table runs"),
        ("[default]\nrunz = 2", "there is no field default.runz"),
        ("[tenants]\nacme = 2", "of.acme"),
        ("[default", "cannot be read"),
    ],
)
def test_a_file_with_a_fault_is_refused_at_the_start(tmp_path, text, fault):
    """The error names the file and the fault."""
    path = tmp_path / "tenants.toml"
    path.write_text(text)
    with pytest.raises(DefinitionError, match=rf"tenants\.toml: .*{fault}"):
        TenantsFile(str(path))


def test_the_setting_names_the_file_of_an_app_that_declares_none(tmp_path, monkeypatch):
    """An app that declares its quotas has those."""
    path = tmp_path / "tenants.toml"
    path.write_text("[default]\nruns = 2\n")
    monkeypatch.setenv("SOJOURN_TENANTS", str(path))
    agent = Agent("shop.clerk", planner=ScriptedPlanner([]))
    assert App(agents=[agent]).tenants.quota_of("acme") == TenantQuota(runs=2)
    declared = Tenants(default=TenantQuota(runs=5))
    assert App(agents=[agent], tenants=declared).tenants is declared
    monkeypatch.delenv("SOJOURN_TENANTS")
    assert App(agents=[agent]).tenants is None
