"""``python -m ffsim`` is the command `ffsim`."""

from ffsim.cli import main

main()
