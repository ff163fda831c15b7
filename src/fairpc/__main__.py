"""``python -m fairpc``: the command line."""

from fairpc.cli import main

if __name__ == "__main__":
    main()
