"""A wrong type is answered in a sentence that says what is wanted."""

from collections.abc import Callable
from typing import Any

import pytest
import viaduct as via

A: Any = via
"""The package without its types: what the checker would refuse is what is tried here."""


def net() -> Any:
    return via.Network.torus([4, 4], rate="856 Mbit/s")


def traffic(**keys: Any) -> Any:
    return A.Traffic(**{"size": "1 KiB", "rate": 100, "to": via.uniform(), **keys})


CASES: list[tuple[Callable[[], object], str]] = [
    (lambda: A.study("two-hosts", set=["traffic.size=1"]), r"set is a dictionary .*, not \['tra"),
    (lambda: A.Study("two-hosts").run(), r'a Study is made by viaduct.study\("torus-1024"\)'),
    (lambda: A.Cluster("shm", {}), "a Cluster is made by viaduct.cluster"),
    (lambda: A.Sweep(), "a Sweep is made by viaduct.sweep"),
    (lambda: via.study("two-hosts").run(set=A.uniform), "set is a dictionary"),
    (lambda: A.sweep("two-hosts", set=[1]), "set is a dictionary"),
    (lambda: A.study("two-hosts", set={3: 4}), 'a key of set is a text, as in "traffic.size"'),
    (lambda: net().study(traffic(), until="1 ms", set=["a"]), "set is a dictionary"),
    (
        lambda: A.study("two-hosts").run(seed="1"),
        r"seed is a whole number from 0 to 2\*\*64 - 1, n",
    ),
    (lambda: A.study("two-hosts").run(seed=1.5), "seed is a whole number .*not 1.5"),
    (lambda: A.study("two-hosts").run(seed=True), "seed is a whole number"),
    (lambda: net().run(traffic=traffic(), until="1 ms", seed="1"), "seed is a whole number"),
    (lambda: A.sweep("two-hosts", size=["1 B", "2 B"], seed="1"), "seed is a whole number"),
    (lambda: A.sweep("two-hosts", seeds="2"), "seeds is a whole number from 1 to 100000, not '2'"),
    (lambda: A.cluster("sim:clan-pio", [lambda host: None]).run(seed="1"), "seed is a whole"),
    (lambda: A.Network.torus([4, 4], rate=4e11), 'rate is a text with its unit, .*"856 Mbit/s"'),
    (lambda: net().link(0, 1, rate=4e11), "rate is a text with its unit"),
    (lambda: A.Network.chain(3, latency=1e-6), 'latency is a text with its unit, as in "0.5 us"'),
    (lambda: traffic(size=1.5), 'size is a text with its unit, as in "32 KiB", not 1.5'),
    (lambda: traffic(interval=3), "interval is a text with its unit"),
    (lambda: traffic(rate=[1]), "rate is a number of messages a second and process"),
    (lambda: traffic(burst=3), "traffic has no key 'burst'; its keys are arrivals, .*window"),
    (lambda: net().study(traffic(), until=1), 'until is a text with its unit, as in "10 ms"'),
    (lambda: net().study("uniform", until="1 ms"), r"traffic is viaduct.Traffic\(...\)"),
    (lambda: A.study(3), 'a study is read by its name, as in "torus-1024"'),
    (lambda: A.parse_study(3), "the text of a study is a text"),
    (lambda: A.Network.torus(4), r"dimensions are .*as in \[16, 16\], not 4"),
    (lambda: A.Network.torus([4.5, 4]), "a dimension is a whole number"),
    (lambda: A.Network("x").hosts("3"), "count is a whole number"),
    (lambda: A.Network("x").switch(ports="8"), "ports is a whole number"),
    (lambda: A.hops("3"), "hops is a whole number from 1 on"),
    (lambda: A.pairs([1, 2]), "pairs are of a source and a target"),
    (lambda: A.cluster(3, []), "on is a fabric's name"),
    (lambda: A.study("two-hosts").run(progress=3), "progress is True, False, None or a function"),
]


@pytest.mark.parametrize(("call", "told"), CASES, ids=[str(place) for place in range(len(CASES))])
def test_a_wrong_type_is_told_in_a_sentence(call: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        call()


def test_numbers_of_other_libraries_are_numbers() -> None:
    import numpy

    result = via.study("two-hosts").run(seed=int(numpy.uint64(7)))
    assert A.study("two-hosts").run(seed=numpy.uint64(7)).digest == result.digest
    assert A.Network.torus(numpy.array([4, 4]), rate="1 Gbit/s").host_count == 16


def test_an_absurd_rate_is_refused() -> None:
    with pytest.raises(via.ScenarioError, match=r"more than 10\^10 a second"):
        net().study(traffic(rate=4e11), until="1 ms")
    with pytest.raises(via.ScenarioError, match=r"more than 10\^10 a second"):
        via.study("torus-1024", set={"traffic.rate": 4e11})


def test_a_wrong_argument_is_forgotten() -> None:
    study = net()
    with pytest.raises(TypeError):
        study.study(traffic(), until="1 ms", set=["a"])
    assert study.study(traffic(), until="1 ms")["traffic.size"] == "1 KiB"
