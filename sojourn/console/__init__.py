"""The console: pages where people see what agents do, decide what they may, and talk to them; served beside the API, under its security middleware.

The package decides what a page shows and what its forms do. It knows what the `Service` lets the visitor see, what the feeds follow
and what the catalogue says, and keeps nothing that another process would not find in Temporal. Without a script every page can be read and
every form sent; with it pages are live. It may import everything of `sojourn.http`, which does not know it: `sojourn.asgi` adds it to the application.
Begin at `routes/runs.py`: a page is a function of a `Visit`. `views/` has what pages show of our records, as pure functions;
`templates/` and `static/` have the rest; `site.py` puts it behind the security middleware.
"""
