"""Links to executions in Temporal's UI, whose address the operator configures."""

from urllib.parse import quote, urlsplit

from sojourn.errors import DefinitionError

__all__ = ["execution_url", "ui_address"]


def ui_address(url: str) -> str:
    """Return the address of Temporal's UI, as a prefix of links.

    Raises:
        DefinitionError: It is not the address of a web page.
    """
    try:
        parts = urlsplit(url)
        is_page = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_page = is_page and not (parts.query or parts.fragment or " " in url) and url.isprintable()
    except ValueError:
        is_page = False
    if not is_page:
        raise DefinitionError(
            f"the address of Temporal's UI is an http or https URL, such as https://temporal.example.org, not {url!r}"
        )
    return url.rstrip("/")


def execution_url(address: str, namespace: str, workflow_id: str, run_id: str) -> str:
    """Return the URL of the page of Temporal's UI that shows an execution.

    Args:
        address: The address that `ui_address` returned.
        namespace: The namespace.
        workflow_id: The workflow id, which is Sojourn's run id.
        run_id: Temporal's run id of the execution. Defaults to the latest one.
    """
    place = "/".join(quote(each, safe="") for each in (workflow_id, run_id) if each)
    return f"{address}/namespaces/{quote(namespace, safe='')}/workflows/{place}"
