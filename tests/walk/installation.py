"""Installation: build the wheel of the tree, and install it alone into a clean environment."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

__all__ = ["bare_environment", "build_wheel", "install"]

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Build the wheel of the tree into a folder."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def install(wheel: Path, folder: Path, *, extras: str = "", more: tuple[str, ...] = ()) -> Path:
    """Install the wheel and what it needs, at the pinned versions, and return the environment's bin.

    Args:
        wheel: The wheel.
        folder: An empty folder, which gets the environment.
        extras: Of the wheel, as in `[server,mcp]`.
        more: Further packages.
    """
    venv = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(venv, check=True, env=bare_environment())
    binaries = folder / "venv" / "bin"
    # Pip refuses to install a local wheel beside hashed constraints; `make setup` has checked the hashes.
    pins = folder / "pins.txt"
    pins.write_text(re.sub(r" \\\n +--hash=\S+", "", (ROOT / "constraints.txt").read_text()))
    options = ["--quiet", "--constraint", pins, f"{wheel}{extras}", *more]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--python", binaries / "python", *options]
    pip = [sys.executable, "-m", "pip", "--python", binaries / "python", "install", "--no-compile", *options]
    done = _run(uv, folder, UV_DEFAULT_INDEX=_index_of_pip())
    if done.returncode != 0:  # pip may succeed by its other settings, which uv does not read
        done = _run(pip, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    _lend_bytecode(Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")})))
    return binaries


def _lend_bytecode(packages: Path) -> None:
    """Copy what this process's Python has compiled; it compiles anew what is not of the same file."""
    ours = Path(sysconfig.get_path("purelib"))
    for compiled in ours.rglob("__pycache__"):
        theirs = packages / compiled.relative_to(ours)
        if theirs.parent.is_dir() and not theirs.exists():
            shutil.copytree(compiled, theirs)


def bare_environment() -> dict[str, str]:
    """Return this process's environment without what points into its own Python or server."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV_", "TEMPORAL_", "SOJOURN_"))
    }


def _run(command: list[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an installer in a folder and an environment in which nothing of this tree can be imported."""
    settings = environment | bare_environment()
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=settings)


def _index_of_pip() -> str:
    """Return the index URL in pip's settings, which uv does not read; empty if there is none."""
    listed = [sys.executable, "-m", "pip", "config", "list"]
    settings = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    return "".join(re.findall(r"\.index.url='(.*)'", settings)[-1:])
