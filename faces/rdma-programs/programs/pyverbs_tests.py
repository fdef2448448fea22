"""Runs rdma-core's own tests, and compares what comes out of each with the stored list.

    pyverbs_tests.py [--accept] [MODULE]...

Without a module it runs all that the list has; --accept writes their outcomes into the list.

The tests are among the documents of Debian's package python3-pyverbs, some of them packed. Images
of containers often leave documents out: the package is fetched again there, and only unpacked.
"""

import gzip
import pathlib
import subprocess
import sys
import tempfile
import unittest

LIST = pathlib.Path(__file__).with_name("pyverbs_tests.txt")
DOCUMENTS = pathlib.Path("usr/share/doc/rdma-core/tests")


def unpack(folder):
    """Puts the tests into a folder as Python reads them, and returns it."""
    documents = pathlib.Path("/") / DOCUMENTS
    if not (documents / "run_tests.py").exists():
        subprocess.run(["apt-get", "--quiet=2", "download", "python3-pyverbs"], cwd=folder, check=True)
        package = next(folder.glob("python3-pyverbs*.deb"))
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
        documents = folder / DOCUMENTS
    tests = folder / "tests"
    tests.mkdir()
    for file in documents.iterdir():
        if file.suffix == ".gz":
            (tests / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        else:
            (tests / file.name).write_bytes(file.read_bytes())
    return tests


class Outcomes(unittest.TextTestResult):
    """What came out of each test, by its name."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.outcomes = {}

    def stopTest(self, test):
        super().stopTest(test)
        failed = [found for found, _ in self.failures + self.errors]
        skipped = [found for found, _ in self.skipped]
        outcome = "failed" if test in failed else "skipped" if test in skipped else "passed"
        self.outcomes[test.id().removeprefix("tests.")] = outcome


def run(folder, modules):
    """Runs the tests of some modules on the first of our devices."""
    sys.path[:0] = [str(folder), str(folder.parent)]
    sys.argv = [sys.argv[0], "--dev", "viaduct0", "--gid", "0"]
    # rdma-core's own starter imports each of its modules here.
    (folder / "__init__.py").write_text("")
    import args_parser

    args_parser.parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromNames([f"tests.{module}" for module in modules])
    runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Outcomes)
    return runner.run(suite).outcomes


def stored():
    """The stored outcomes, by the tests' names."""
    lines = LIST.read_text().splitlines()
    return dict(line.split() for line in lines if line and not line.startswith("#"))


def module_of(name):
    """The module that a test is of."""
    return name.split(".")[0]


def accept(modules, outcomes):
    """Takes these outcomes for those of the modules."""
    kept = {name: outcome for name, outcome in stored().items() if module_of(name) not in modules}
    head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    lines = [f"{name} {outcome}" for name, outcome in sorted((kept | outcomes).items())]
    LIST.write_text("\n".join(head + lines) + "\n")


def main():
    """Returns what the process ends with."""
    arguments = sys.argv[1:]
    is_accepting = "--accept" in arguments
    listed = stored()
    modules = [word for word in arguments if word != "--accept"] or sorted({*map(module_of, listed)})
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(unpack(pathlib.Path(folder)), modules)
    if is_accepting:
        accept(modules, outcomes)
        return 0
    wanted = {name: outcome for name, outcome in listed.items() if module_of(name) in modules}
    names = sorted(wanted.keys() | outcomes.keys())
    wrong = [name for name in names if wanted.get(name) != outcomes.get(name)]
    for name in wrong:
        print(f"{name}: {outcomes.get(name, 'not there')}, and the list says {wanted.get(name, 'nothing')}")
    print(f"{len(names) - len(wrong)} of {len(names)} tests as listed")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
