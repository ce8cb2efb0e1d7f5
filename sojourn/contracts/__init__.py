"""Everything that crosses a durable boundary: frozen records, one noun a file.

Records that only Sojourn writes and reads derive from `Record`: they ignore unknown
fields, because during every deploy an old and a new worker share a queue. What a
person, planner or client hands in derives from `Input` and refuses unknown fields.
On the wire, defaults are left out, so a default here never changes (a test holds them).
"""
