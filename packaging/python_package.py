"""Builds the Python package: what maturin builds, with the libraries for RDMA programs.

They are no part of the extension module. Programs that `viaduct rdma` starts load them, from the
package's folder `rdma`. On other machines than Linux on x86-64 the package has none, nor has one
that is built from a source package.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = [
    "viaduct-ibverbs",
    "viaduct-rdmacm",
    "viaduct-rdma-paths",
    "viaduct-simulated-time",
]


def build_libraries() -> None:
    """Make the libraries in the folder of the package, unless they are for another machine."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return
    # A source package holds what the extension module is made of, and no more.
    if not (ROOT / "faces/ibverbs").is_dir():
        return
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    words = [word for package in PACKAGES for word in ("--package", package)]
    subprocess.run(["cargo", "build", "--release", "--locked", *words], cwd=ROOT, check=True)
    folder = ROOT / "python/viaduct/rdma"
    subprocess.run(
        [ROOT / "packaging/link-verbs.sh", ROOT / target / "release", folder], check=True
    )
    # A package has no links, and a copy would be a second library in one process, with devices of
    # its own: the name without a version is a library that asks for the one with it.
    for name in [path for path in folder.glob("*.so") if path.is_symlink()]:
        library = name.resolve()
        name.unlink()
        words = ["-shared", "-nostdlib", "-Wl,--no-as-needed", "-o", name, library]
        subprocess.run([os.environ.get("CC", "cc"), *words], check=True)


def build_wheel(directory: str, *arguments: Any) -> str:
    """As PEP 517 asks."""
    build_libraries()
    return maturin.build_wheel(directory, *arguments)


def build_editable(directory: str, *arguments: Any) -> str:
    """As PEP 660 asks."""
    build_libraries()
    return maturin.build_editable(directory, *arguments)
