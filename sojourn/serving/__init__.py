"""Keep a worker's process sound, in its memory, its event loop and its exit.

The package decides when a cached run is evicted and when a blocked process ends. It may import the Temporal
SDK's worker, no agent. Begin with `sojourn.worker`, which uses each of these.
"""
