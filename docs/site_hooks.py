"""Hooks of MkDocs: pages of the repository outside docs/ are on the site, and links between all pages lead there.

In the repository a link is a path, so that it works wherever the files are read. On the site a link whose text is a file
name gets the title of the page, and a link to source code, which the site does not have, becomes plain text. In a search,
pages that explain come before those that list.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]

OUTSIDE = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/README.md": "benchmarks.md",
}
"""The pages outside docs/, with their names on the site."""

_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/."""
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs names it
    """Turn each link between files of the repository into one between pages of the site."""
    name = page.file.src_uri
    if name.startswith(("reference/", "dev/", "changelog")):
        page.meta["search"] = {"boost": 0.05}
    homes = {site: path for path, site in OUTSIDE.items()}
    here = posixpath.dirname(homes.get(name, f"docs/{name}"))

    def on_site(link: re.Match[str]) -> str:
        text, path, anchor = link[1], posixpath.normpath(posixpath.join(here, link[2])), link[3] or ""
        target = OUTSIDE.get(path) or path.removeprefix("docs/")
        if target == path:  # neither a page that is added nor in docs/
            return text
        file = files.get_file_from_path(target)
        if text == posixpath.basename(path) and file:
            text = str(getattr(file.page, "title", None) or text)
        return f"[{text}]({posixpath.relpath(target, posixpath.dirname(name))}{anchor})"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(on_site, part) for part in parts)
