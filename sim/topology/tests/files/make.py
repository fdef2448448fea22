"""Write the NetworkX files that tests/integration/networkx.rs reads, into the folder given (NetworkX 3.6.1)."""

import json
import sys
from pathlib import Path

import networkx as nx

out = Path(sys.argv[1])

grid = nx.grid_2d_graph(3, 3)
nx.set_node_attributes(grid, "switch", "kind")
nx.set_node_attributes(grid, 8, "ports")
for x, y in list(grid):
    grid.add_node(f"n{x}-{y}", kind="host")
    grid.add_edge(f"n{x}-{y}", (x, y), rate="856 Mbit/s", latency="0.5 us")
grid.edges[(0, 0), (1, 0)]["weight"] = 2
(out / "networkx-grid.json").write_text(json.dumps(nx.node_link_data(grid)))
(out / "networkx-grid-links.json").write_text(json.dumps(nx.node_link_data(grid, edges="links")))

# GraphML has no tuples as names.
named = nx.relabel_nodes(grid, lambda node: node if isinstance(node, str) else f"{node[0]}-{node[1]}")
nx.write_graphml(named, out / "networkx-grid.graphml")
nx.write_graphml(named.to_directed(), out / "networkx-directed.graphml")

multi = nx.MultiGraph()
multi.add_nodes_from([0, 1], kind="switch")
multi.add_nodes_from(["a", "b"], kind="host")
multi.add_edges_from([("a", 0), ("b", 1)])
multi.add_edge(0, 1, rate="1 Gbit/s")
multi.add_edge(0, 1, rate="2 Gbit/s")
(out / "networkx-multi.json").write_text(json.dumps(nx.node_link_data(multi)))
nx.write_graphml(multi, out / "networkx-multi.graphml")
