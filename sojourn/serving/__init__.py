"""What keeps a worker's process sound: its memory, its event loop, its registration and its end.

It decides when a cached run is dropped and when a blocked process ends; it knows the Temporal SDK's worker, no agent.
Begin with `sojourn.worker`, which uses each of these.
"""
