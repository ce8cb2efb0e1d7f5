"""Test an app as it is now by the plans of a recorded history."""

import dataclasses
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from temporalio.converter import PayloadCodec

from sojourn.authoring.app import App
from sojourn.converter.data_converter import data_converter
from sojourn.replay import Finding, Replay, RunReport, files_in, source_of_file

__all__ = ["fail_for_problems", "replays"]


async def replays(
    path: str | PathLike[str], app: App, *, plans: bool = True, codec: PayloadCodec | None = None
) -> None:
    """Assert that an app decides in recorded runs as it decided then.

    Temporal's `Replayer` runs the workflow on each history. Then each planner gets every turn again that it
    got then, and its decision is compared with the recorded one. Policy engines and interceptors run too,
    tools do not. Agents, tools, calls, results and open waits have to fit the app as it is now. Plans that
    failed then, or that the time budget cut off, are not made again.

    A `ModelPlanner` sends no request: give its planner another model with `use_model`, such as the recorded
    exchanges of the run, or pass `plans=False`.

    Args:
        path: A history that `sojourn export RUN --history FILE` wrote, or a folder, for each `*.json` in it.
        app: The app, as it is served.
        plans: Whether the plans are made again.
        codec: Decrypts the payloads of an encrypted history, as for `Client.connect`.

    Raises:
        AssertionError: A history does not replay, or the first difference: the plan, recorded and now.
        FileNotFoundError: There is no such file, or no history in the folder.
        TypeError: `app` is no App.
        ValueError: A file is not a history, or it cannot be decoded, or the beginning of its run's transcript is in
            external storage.
    """
    __tracebackhide__ = True  # pytest shows the difference, not how it was found
    for report in await _reports(path, app, plans=plans, codec=codec):
        for finding in report.findings:
            if finding.kind in ("unreadable", "not_compared"):
                raise ValueError(finding.text)
            if finding.is_problem or finding.kind == "decides_otherwise":
                raise AssertionError(_in_words(report, finding))
        if report.plans_by_model:
            raise AssertionError(
                f"{report.source}: {report.plans_by_model} plans of {report.agent_id} ask a model (ModelMisconfigured: no request "
                "is sent in a replay); give its planner another one with use_model, or pass plans=False"
            )


async def fail_for_problems(
    path: str | PathLike[str],
    app: App,
    *,
    strict: bool = False,
    plans: bool = True,
    codec: PayloadCodec | None = None,
) -> None:
    """Assert that a deploy of an app harms no recorded run, as `sojourn replay` does.

    Args:
        path: A history, or a folder, for each `*.json` in it and in its folders.
        app: The app, as it is served.
        strict: Whether notes fail too, such as plans in code that are others now.
        plans: Whether plans in code are made again.
        codec: Decrypts the payloads of encrypted histories.

    Raises:
        AssertionError: Every problem of every run.
        FileNotFoundError: There is no such file, or no history in the folder.
        TypeError: `app` is no App.
    """
    __tracebackhide__ = True
    wrong = [
        _in_words(report, finding)
        for report in await _reports(path, app, plans=plans, codec=codec)
        for finding in (report.findings if strict else report.problems)
    ]
    if wrong:
        raise AssertionError("\n\n".join(wrong))


async def _reports(
    path: str | PathLike[str], app: App, *, plans: bool, codec: PayloadCodec | None
) -> Sequence[RunReport]:
    if not isinstance(app, App):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
        raise TypeError(f"a replay takes an App, such as the one that is served, not {app!r:.80}")
    sources = [source_of_file(file) for file in files_in(Path(path))]
    converter = dataclasses.replace(data_converter, payload_codec=codec)
    async with Replay(app, converter, plans=plans) as replay:
        return [report async for report in replay.reports(sources)]


def _in_words(report: RunReport, finding: Finding) -> str:
    run = "" if not report.run_id or report.run_id in report.source else f" ({report.run_id})"
    return "\n".join(filter(None, [f"{report.source}{run}: {finding.text}", finding.detail]))
