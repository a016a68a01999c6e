"""`python -m bertvision` is `bertvision`."""

from bertvision.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
