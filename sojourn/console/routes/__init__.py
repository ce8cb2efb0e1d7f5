"""The pages, one room a file: each asks the service and its feeds, makes views, and answers with a template.

A file has `pages = Pages()`; a function below `@pages.get(path)` or `@pages.post(path, role=...)` is a page, or what a form does. It may
import everything of the console but `../site.py`, which has the list of the files. Begin at `runs.py`.
"""
