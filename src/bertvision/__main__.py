"""Makes `python -m bertvision` the same as the command `bertvision`."""

from bertvision.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
