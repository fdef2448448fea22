"""The command `viaduct`, as `python -m viaduct` and as the script that the package installs."""

import sys

from viaduct import _native


def main() -> int:
    """Run the command with the arguments of this process and give its exit code."""
    # How it starts itself again, as the other process of a measurement.
    itself = [sys.executable, "-m", "viaduct"]
    return _native.command(itself, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
