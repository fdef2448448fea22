"""Accounts of the messages that programs send on simulated hosts."""

from __future__ import annotations

import pickle
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import viaduct as via

Yields = Generator[via.Operation, Any, Any]
WRITES = 20
SET_UP = 4
"""Messages in which the ends of a queue pair tell each other who and when they are ready."""


def writes(host: via.Host) -> Yields:
    pair, region = host.queue_pair(), host.region(4096)
    target = yield pair.connect("offers")
    for number in range(WRITES):
        pair.post_write(region, target, immediate=number)
    for _ in range(WRITES):
        yield pair.send_done()
    return host.now_us


def offers(host: via.Host) -> Yields:
    pair, region = host.queue_pair(), host.region(4096, remote_write=True)
    for _ in range(WRITES):
        pair.post_receive(region)
    yield pair.accept(private_data=region.remote())
    for _ in range(WRITES):
        yield pair.receive_done()
    return pair.peer


def made() -> via.Cluster:
    return via.cluster("sim:rnic-gen5", {"writes": writes, "offers": offers})


def account_of(cluster: via.Cluster) -> via.Account:
    account = cluster.run(account=True).account
    assert account is not None
    return account


def test_each_post_is_a_message_and_watching_changes_nothing() -> None:
    watched, alone = made().run(account=True), made().run()
    assert alone.account is None
    assert (watched.returned, watched.end_us) == (alone.returned, alone.end_us)
    account = watched.account
    assert account is not None
    posted = WRITES + SET_UP
    assert account.messages == via.Counts(posted, posted, 0, 0)
    assert sum(account.breakdown_us.values()) == pytest.approx(account.latency_us.mean)
    assert account.study == "sim:rnic-gen5"
    assert account_of(made()).digest == account.digest


def test_acknowledgements_are_on_the_links_back() -> None:
    table = list(account_of(made()).links)
    carried = {(row["from"], row["to"]): row["wire_bytes"] for row in table}
    # Frames have headers of 30 bytes. In the set-up one end tells its number, and the other 16
    # bytes of its region, too; then each says that it is ready.
    assert carried["n0-0", "s0"] == WRITES * (4096 + 30) + (4 + 30) + 30
    assert carried["n0-1", "s0"] == WRITES * 30 + (20 + 30) + 30


def test_one_message_is_explained_by_running_again() -> None:
    account = account_of(made())
    numbered = account.why(WRITES).document
    assert numbered["message"]["message"] == WRITES
    assert numbered["message"]["size_bytes"] == 4096
    slowest = account.why()
    # A message of the set-up, whose receiver waited for its own connection.
    assert "the slowest of 24 measured" in str(slowest)
    assert slowest.document["latency_ps"] >= numbered["latency_ps"]
    with pytest.raises(via.RunError, match=f"numbers are 0 to {WRITES + SET_UP - 1}"):
        account.why(1000)


def test_a_program_that_fails_when_it_runs_again_says_so() -> None:
    runs = []

    def fickle(host: via.Host) -> Yields:
        runs.append(host.name)
        if len(runs) > 1:
            raise KeyError("not again")
        return (yield from writes(host))

    account = account_of(via.cluster("sim:rnic-gen5", {"writes": fickle, "offers": offers}))
    with pytest.raises(KeyError, match="not again"):
        account.why()
    with pytest.raises(KeyError, match="not again"):
        account.trace("/dev/null")


def test_files_are_written(tmp_path: Path) -> None:
    account = account_of(made())
    page, trace = tmp_path / "page.html", tmp_path / "trace.pftrace"
    account.report(page)
    assert "Programs over sim:rnic-gen5" in page.read_text()
    assert account.trace(trace, messages=5) == 5
    assert trace.stat().st_size > 100
    with pytest.raises(OSError, match="cannot write"):
        account.report(tmp_path / "nowhere" / "page.html")
    with pytest.raises(via.RunError, match=r"account\.report"):
        account.save(tmp_path / "directory")
    with pytest.raises(via.RunError, match="no graph"):
        account.critical_path()


def test_what_was_pickled_has_its_tables_and_no_programs() -> None:
    account = account_of(made())
    kept = pickle.loads(pickle.dumps(account))
    assert (kept.digest, str(kept)) == (account.digest, str(account))
    assert list(kept.sample) == list(account.sample)
    with pytest.raises(via.RunError, match="in the process that ran them"):
        kept.why()


def test_programs_between_processes_have_none() -> None:
    with pytest.raises(ValueError, match="simulated hosts alone"):
        via.cluster("shm", [writes]).run(account=True)
    with pytest.raises(TypeError, match="account is True or False"):
        made().run(account=1)  # type: ignore[arg-type]
