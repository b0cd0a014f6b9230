"""`python -m semppl` is the command `semppl`."""

from semppl.cli import main

if __name__ == "__main__":
    main()
