"""Pages of the console, one file for each section.

Each page asks the service and its feeds, makes views, and answers with a template.

A file has `pages = Pages()`. A function below `@pages.get(path)` or `@pages.post(path, role=...)` is a
page, or the effect of a form. It may import everything of the console but `../site.py`, which has the
list of the files. Begin at `runs.py`.
"""
