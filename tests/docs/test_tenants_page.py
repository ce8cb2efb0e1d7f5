"""docs/tenants.md: its app has the quotas of the page, and its file says the same."""

import re
import tomllib
from pathlib import Path

from sojourn import TenantQuota
from sojourn.authoring.tenants import TenantsFile

PAGE = Path(__file__).parents[2] / "docs" / "tenants.md"


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
