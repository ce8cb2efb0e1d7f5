"""`python -m sojourn`: the command line."""

from sojourn.cli import main

if __name__ == "__main__":
    main()
