"""``python -m headgate``: the `headgate` command, for where its script is not on the path."""

from headgate.cli import main

if __name__ == "__main__":
    main()
