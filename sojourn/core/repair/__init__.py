"""Repairs of failed calls that a planner may make by itself: a payload mended safely, a call made again or replaced.

It decides what is safe to change without asking; it knows payloads, forms and the transcript's last step, no policy.
Begin with `calls.py`; what is safe in a payload is in `payload.py`.
"""
