"""A program that serves its app by `App.serve()`."""

from logging_app import app

if __name__ == "__main__":
    app.serve()
