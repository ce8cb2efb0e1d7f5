"""Keep a worker's process sound, and what its tenants share fair.

The package decides when a cached run is evicted, when a blocked process ends, and which tenant gets a
slot. It may import the Temporal SDK's worker, no agent. Begin with `sojourn.worker`, which uses most of these.
"""
