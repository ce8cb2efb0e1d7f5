"""The effects: Temporal activity definitions."""
