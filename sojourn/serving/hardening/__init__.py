"""The code for rare failures of workers, one file for each failure.

Without it, calls still run and runs still end.

- `loop_watch.py`: a tool blocks the event loop, or the machine was suspended, so that no heartbeat is sent.
- `loop_guard.py`: code that a tool left behind cancels the worker, or keeps its process from ending.
- `workflow_tasks.py`: a query advances a run between two workflow tasks (a fault of the SDK), or a large task blocks the loop.
- `threads.py`: one sync tool takes all threads, or never returns.
- `overtime.py`: a coroutine that is out of time ignores its cancellation.
- `attempt.py`: the server has given the attempt to another worker while this one stood still.
- `lost_workers.py`: earlier attempts were lost with their workers, and may have had an effect.

The package may import what `sojourn.serving` may. `sojourn.worker` and the activities use each of
these.
"""
