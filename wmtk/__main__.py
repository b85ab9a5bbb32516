"""`python -m wmtk`: the `wmtk` command."""

from wmtk.cli.main import main

if __name__ == "__main__":
    main()
