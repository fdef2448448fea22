"""The package brings the libraries for RDMA programs, and its command finds them."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import viaduct

CHECK = Path(__file__).parents[2] / "examples/rdma-in-ci/check.sh"

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the libraries are for Linux on x86-64",
)


def launched(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "viaduct", "rdma", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_libraries_are_in_the_package() -> None:
    folder = Path(viaduct.__file__).parent / "rdma"
    for name in ["libibverbs.so.1", "librdmacm.so.1", "libviaduct-rdma-paths.so"]:
        assert (folder / name).is_file(), name
    loaded = launched("--", "sh", "-c", "echo $LD_LIBRARY_PATH").stdout
    assert loaded.split(":")[0].strip() == str(folder)


SAME = """
import ctypes
names = ["libibverbs.so", "libibverbs.so.1"]
one, other = (ctypes.CDLL(name).ibv_open_device for name in names)
address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
print(address(one) == address(other))
"""


def test_a_library_without_its_version_is_the_same_one() -> None:
    ended = launched("--", sys.executable, "-c", SAME)
    assert ended.stdout == "True\n", ended.stderr


@pytest.mark.skipif(shutil.which("rping") is None, reason="rping is not installed")
def test_command_runs_rdma_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIADUCT_RENDEZVOUS", str(tmp_path))
    ended = launched("--require-rdma", "--", "sh", str(CHECK), "--rping")
    assert ended.returncode == 0, ended.stderr
