"""Web console, served beside the API and behind its security middleware.

On its pages people see what agents do, make the decisions they may make, and talk to agents.

The package decides the content of pages and the actions of forms. It reads the data that the `Service` lets
the visitor see, the feeds and the catalogue. It stores nothing that another process would not find in
Temporal. Without a script every page can be read and every form sent. With it pages are live. The package
may import everything of `sojourn.http`, which does not import it: `sojourn.asgi` adds it to the
application. Begin at `routes/runs.py`: a page is a function of a `Visit`. `views/` renders our records
as plain values, with pure functions. `templates/` and `static/` have the rest. `site.py` puts it behind
the security middleware.
"""
