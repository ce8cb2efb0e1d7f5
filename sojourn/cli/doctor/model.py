"""The model: which agents one decides, whether it can be made, and which variables say so; nothing is asked."""

import os
import sys
from importlib.util import find_spec

from temporalio.exceptions import ApplicationError

from sojourn.authoring.app import App
from sojourn.cli.doctor.check import Check

__all__ = ["MODEL_VARIABLES", "check_model"]

MODEL_VARIABLES = (
    "SOJOURN_MODEL",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "OLLAMA_BASE_URL",
    "VLLM_BASE_URL",
)
"""What chooses a model, or leads to one; only their names are told."""


def check_model(app: App | None) -> Check:
    """The app's models, made as a run makes them, and what is set."""
    said = ", ".join(name for name in MODEL_VARIABLES if os.environ.get(name))
    said = f"{said} set" if said else "no variable is set"
    if find_spec("pydantic_ai") is None:
        return Check(
            "model", None, f"{said}; planners are code", "pip install 'sojourn[models]' to have a model plan"
        )
    if app is None:
        return Check("model", None, said)
    named, wrong = _models(app)
    told = "; ".join(f"{', '.join(agents)} by {model}" for model, agents in named.items())
    if wrong:
        reasons = [f"{', '.join(named[model])}: {reason}" for model, reason in wrong.items()]
        return Check("model", False, f"{told}; {said}", " ".join(reasons))
    return Check("model", True if named else None, f"{told or 'no agent has one'}; {said}")


def _models(app: App) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The agents by their model, and for what reason it cannot be made."""
    named: dict[str, list[str]] = {}
    wrong: dict[str, str] = {}
    if "sojourn.models" not in sys.modules:  # then no planner is one, and importing it takes a second
        return named, wrong
    from sojourn.models import ModelPlanner

    for agent in (app.agent(id) for id in app.list_agents()):
        if agent and isinstance(agent.planner, ModelPlanner):
            named.setdefault(agent.planner.model_name, []).append(agent.id)
            try:
                agent.planner.check()
            except ApplicationError as error:
                wrong[agent.planner.model_name] = error.message
    return named, wrong
