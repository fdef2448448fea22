"""Networks by rule, as NetworkX sees them."""

import pickle
from typing import Any

import networkx
import pytest
import viaduct as via

TRAFFIC = via.Traffic(size="1 KiB", rate=1000, to=via.uniform())


def switches_of(net: via.Network) -> Any:
    graph = net.to_networkx()
    return graph.subgraph([node for node, kind in graph.nodes("kind") if kind == "switch"])


def all_of_them() -> list[via.Network]:
    rate: Any = {"rate": "10 Gbit/s"}
    return [
        via.Network.leaf_spine(12, hosts_per_switch=3, spines=2, **rate),
        via.Network.clos(4, **rate),
        via.Network.clos(10, tiers=2, oversubscription=4, pods=2, **rate),
        via.Network.rail(2, servers=6, servers_per_unit=2, spines=2, **rate),
        via.Network.dragonfly(switches_per_group=4, global_links=2, hosts_per_switch=2, **rate),
        via.Network.dragonfly_plus(4, groups=3, **rate),
        via.Network.hyperx([3, 2], hosts_per_switch=2, **rate),
        via.Network.slim_fly(4, hosts_per_switch=1, **rate),
        via.Network.polar_fly(3, hosts_per_switch=1, **rate),
        via.Network.jellyfish(10, switch_links=3, hosts_per_switch=2, seed=7, **rate),
    ]


def test_graphs_that_networkx_knows_are_the_same() -> None:
    same = networkx.is_isomorphic
    slim_fly = via.Network.slim_fly(5, hosts_per_switch=1)
    assert same(switches_of(slim_fly), networkx.hoffman_singleton_graph())
    cube = via.Network.hyperx([2, 2, 2])
    assert same(switches_of(cube), networkx.hypercube_graph(3))
    assert same(switches_of(via.Network.hyperx([6])), networkx.complete_graph(6))
    leaf_spine = via.Network.leaf_spine(8, hosts_per_switch=2, spines=3)
    assert same(switches_of(leaf_spine), networkx.complete_bipartite_graph(4, 3))


@pytest.mark.parametrize(
    ("net", "diameter", "mean"),
    [
        (via.Network.slim_fly(5), 2, 91 / 49),
        (via.Network.slim_fly(7), 2, 1.88660),
        (via.Network.dragonfly(switches_per_group=4, global_links=2), 3, 2.34286),
        (via.Network.hyperx([8, 8]), 2, 1.77778),
        (via.Network.polar_fly(7), 2, 1.85965),
        (via.Network.dragonfly_plus(8), 5, 3.10741),
    ],
    ids=lambda value: value.title if isinstance(value, via.Network) else None,
)
def test_diameters_and_mean_distances_are_the_published_ones(
    net: via.Network, diameter: int, mean: float
) -> None:
    graph = switches_of(net)
    assert networkx.diameter(graph) == diameter
    assert networkx.average_shortest_path_length(graph) == pytest.approx(mean, abs=1e-5)


def test_each_runs_and_a_pickled_one_gives_the_same() -> None:
    for net in all_of_them():
        again = pickle.loads(pickle.dumps(net))
        assert again.description == net.description
        first, second = (it.run(traffic=TRAFFIC, until="2 ms", seed=3) for it in (net, again))
        assert first.digest == second.digest, net.description
        assert first.messages.delivered > 0


def test_a_size_that_does_not_exist_names_the_nearest() -> None:
    with pytest.raises(via.ScenarioError, match="nearest are 5 and 7"):
        via.Network.slim_fly(6)
    with pytest.raises(via.ScenarioError, match="nearest are 6 and 8"):
        via.Network.clos(7)
    with pytest.raises(TypeError, match="order"):
        via.Network.slim_fly("five")  # type: ignore[arg-type]
