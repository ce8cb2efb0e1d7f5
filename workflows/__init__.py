"""The durable shell: Temporal workflow definitions."""
