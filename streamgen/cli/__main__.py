"""`python -m streamgen.cli` is the `streamgen` command."""

from streamgen.cli import main

main()
