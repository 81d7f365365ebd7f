"""``python -m nsmath``: the command line."""

from nsmath.cli.main import main

if __name__ == "__main__":
    main()
