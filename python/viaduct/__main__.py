"""The command `viaduct`, as `python -m viaduct` and as the script that the package installs."""

import os
import sys
from pathlib import Path

from viaduct import _native


def main() -> int:
    """Run the command with the arguments of this process and give its exit code."""
    # How it starts itself again, as the other process of a measurement.
    itself = [sys.executable, "-m", "viaduct"]
    # The libraries for RDMA programs, which the command would look for beside the interpreter.
    libraries = Path(__file__).parent / "rdma"
    if libraries.is_dir():
        os.environ.setdefault("VIADUCT_RDMA_LIBRARIES", str(libraries))
    return _native.command(itself, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
