"""Web console, served beside the API and behind its security middleware.

On its pages people see what agents do, make the decisions they may make, and talk to agents.

The package decides what a page shows and what its forms do. It reads what the `Service` lets the visitor
see, what the feeds follow and what the catalogue says, and keeps nothing that another process would not
find in Temporal. Without a script every page can be read and every form sent. With it pages are live. It
may import everything of `sojourn.http`, which does not know it: `sojourn.asgi` adds it to the
application. Begin at `routes/runs.py`: a page is a function of a `Visit`. `views/` renders our records
as plain values, with pure functions. `templates/` and `static/` have the rest. `site.py` puts it behind
the security middleware.
"""
