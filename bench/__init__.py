"""Measures against bare Temporal, and against peers that plug in, in one run."""
