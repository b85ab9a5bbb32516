"""`python -m wmtk.cli`: the command without its script."""

from wmtk.cli.main import main

main()
