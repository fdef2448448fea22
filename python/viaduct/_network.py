"""Networks made by loops, from arrays, and from graphs of other libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self

from viaduct import _arguments, _html, _native
from viaduct._applications import Application
from viaduct._errors import ScenarioError
from viaduct._generators import COUNT_MAX, Generated, check_links, ports_of
from viaduct._graph import Graph
from viaduct._messages import Messages
from viaduct._result import Result
from viaduct._study import Progress, Setting, Study, _texts
from viaduct._traffic import Host, Traffic

Node = int | str
"""A node: the number that adding it gave, or its name."""


class Network(Generated):
    """Hosts, switches and the links between them.

    A host has one link, to a switch. Nodes are named by the numbers that adding them gives: hosts
    count from 0, as in tables and patterns of traffic; switches from 2**30, so that one is never
    taken for the other.

    A network that is a chain, mesh, torus, fat tree or single switch, its nodes added in the order
    of the generator, is routed by that network's rule, whatever their names, and knows straight
    lines (`hops`, `neighbours`). Any other is routed by shortest paths, with flows spread over
    equal ones (`network.equal_paths`). `description` says which it is.

    Parameters
    ----------
    title : str
        One line that names it.
    nic : str, optional
        The hosts' hardware: a preset of `viaduct.models()` or a file.
    directed : bool
        Whether links lead from the first node to the second alone.
    parallel_links : bool
        Whether two switches may have several.

    Examples
    --------
    >>> import viaduct as via
    >>> net = via.Network("a ring of five")
    >>> switches = [net.switch(f"s{i}", ports=3) for i in range(5)]
    >>> for i, switch in enumerate(switches):
    ...     net.link(net.host(f"n{i}"), switch, rate="1 Gbit/s")
    ...     net.link(switch, switches[(i + 1) % 5], rate="1 Gbit/s")
    >>> net.description
    'torus of 5 switches, 1 host a switch'
    >>> traffic = via.Traffic(size="4 KiB", rate=2000, to=via.hops(2))
    >>> result = net.run(traffic=traffic, until="50 ms", seed=1)
    >>> result.messages.delivered == result.messages.posted
    True
    """

    __slots__ = ("_groups", "_network", "_nic", "_said", "title")

    def __init__(
        self,
        title: str = "",
        *,
        nic: str | None = None,
        directed: bool = False,
        parallel_links: bool = False,
    ) -> None:
        _arguments.text("title", title, "a ring")
        _arguments.text("nic", nic, "giganet-clan")
        self.title = title
        self._network = _native.Network(directed, parallel_links)
        self._nic = nic
        # Hosts whose hardware is not the network's, by what it is.
        self._groups: dict[str, list[int]] = {}
        self._said: dict[str, Any] = {}

    @classmethod
    def _of(cls, native: _native.Network, title: str, nic: str | None) -> Self:
        network = cls(title, nic=nic)
        network._network = native
        return network

    # Nodes and links.

    def switch(self, name: str | None = None, *, ports: int | None = None) -> int:
        """Add a switch.

        Parameters
        ----------
        name : str, optional
            `s` and its number among switches, if left out.
        ports : int, optional
            As many as it takes, if left out.

        Returns
        -------
        int
            Its number, from 2**30 on.
        """
        _arguments.text("the name of a switch", name, "s0")
        return self._network.add_switch(name, ports_of(ports))

    def host(self, name: str | None = None, *, nic: str | None = None) -> int:
        """Add a host.

        Parameters
        ----------
        name : str, optional
            `n` and its number, if left out.
        nic : str, optional
            The hardware, where it is not the network's: a preset or a file, of the mechanism that
            all have. If the network has none, the first that a host names is the network's.

        Returns
        -------
        int
            Its number, from 0 on.
        """
        _arguments.text("the name of a host", name, "n0")
        _arguments.text("nic", nic, "giganet-clan")
        number = self._network.add_host(name)
        self._take_nic(nic, [number])
        return number

    def switches(self, count: int, *, ports: int | None = None) -> Any:
        """Add switches; an array of their numbers comes back, without NumPy a range."""
        count = _arguments.whole("count", count, 0, COUNT_MAX)
        return _numbers(self._network.add_switches(count, ports_of(ports)), count)

    def hosts(self, count: int, *, nic: str | None = None) -> Any:
        """Add hosts; an array of their numbers comes back, without NumPy a range.

        `nic` is as of `host`.
        """
        count = _arguments.whole("count", count, 0, COUNT_MAX)
        _arguments.text("nic", nic, "giganet-clan")
        first = self._network.add_hosts(count)
        self._take_nic(nic, range(first, first + count))
        return _numbers(first, count)

    def _take_nic(self, nic: str | None, hosts: Iterable[int]) -> None:
        """Keep which hardware hosts have; the first that is named is the network's."""
        if self._nic is None:
            self._nic = nic
        elif nic is not None and nic != self._nic:
            self._groups.setdefault(nic, []).extend(hosts)

    def link(
        self, a: Node, b: Node, *, rate: str | None = None, latency: str | None = None
    ) -> None:
        """Link two nodes, both ways; in a directed network from `a` to `b`.

        Parameters
        ----------
        a, b : int or str
            The nodes, by number or name.
        rate : str, optional
            After line coding: `"856 Mbit/s"`. What most links have becomes `links.rate` of the
            study, and of those of hosts `links.host_rate`, so that it can be set and swept.
        latency : str, optional
            Propagation of the signal; what most have becomes `links.propagation`.

        Raises
        ------
        ScenarioError
            If there is no such node, or a text is no rate or time.
        """
        check_links(rate, latency)
        self._network.link(a, b, rate, latency)

    def links(self, a: Any, b: Any, *, rate: str | None = None, latency: str | None = None) -> None:
        """Link nodes pair by pair: as `link`, of arrays.

        Parameters
        ----------
        a, b : array of int
            Numbers of nodes, in any integer type and shape, of equally many; or a single node,
            which is linked with each of the others. A million links take some 12 bytes each.
        rate, latency : str, optional
            Of all these links.

        Examples
        --------
        >>> import numpy as np
        >>> import viaduct as via
        >>> net = via.Network("a torus from arrays")
        >>> s = net.switches(64).reshape(8, 8)
        >>> net.links(net.hosts(256), np.repeat(s, 4), rate="856 Mbit/s")
        >>> for axis in (0, 1):
        ...     net.links(s, np.roll(s, -1, axis), rate="856 Mbit/s")
        >>> net.description
        'torus of 8x8 switches, 4 hosts a switch'
        """
        check_links(rate, latency)
        self._network.links(a, b, rate, latency)

    def name_of(self, node: Node) -> str:
        """Give the name of a node."""
        return self._network.name_of(self.number_of(node))

    def number_of(self, node: Node) -> int:
        """Give the number of a node."""
        return self._network.find(node) if isinstance(node, str) else int(node)

    @property
    def host_count(self) -> int:
        """Hosts so far."""
        return self._network.counts[0]

    @property
    def switch_count(self) -> int:
        """Switches so far."""
        return self._network.counts[1]

    @property
    def link_count(self) -> int:
        """Links so far, those of hosts included."""
        return self._network.counts[2]

    @property
    def description(self) -> str:
        """What it is, in words; for that it is checked as a whole, which may raise an error."""
        return self._network.description()

    @property
    def memory_bytes(self) -> int:
        """Bytes that it takes in a run, routes included; checked as `description`."""
        return self._network.memory_bytes()

    def __repr__(self) -> str:
        """Give the title and the counts."""
        hosts, switches, links = self._network.counts
        return f"<viaduct network {self.title}: {hosts} hosts, {switches} switches, {links} links>"

    def _repr_html_(self) -> str:
        counts = zip(("hosts", "switches", "links"), self._network.counts, strict=True)
        rows = [(name, count) for name, count in counts]
        return _html.table(f"viaduct network {self.title}", (), rows)

    # Studies on it.

    def study(
        self,
        traffic: Traffic | Messages | Application | None = None,
        *,
        until: str | None = None,
        warmup: str | None = None,
        seed: int | None = None,
        set: Mapping[str, Setting] | None = None,
    ) -> Study:
        """Make a study on this network: the class that `viaduct.study` gives.

        What is left out is as it was said before, in this method or in `run`; without arguments the
        last study comes back.

        Parameters
        ----------
        traffic : Traffic, Messages, Collective, Program or Trace
            What the hosts send.
        until : str
            End of simulated time; a collective, a program and a trace need none.
        warmup : str, optional
            Messages posted before it are not counted.
        seed : int, optional
            Seed of all random streams, 1 if left out.
        set : mapping, optional
            Any other setting: `{"switches.delay": "0.5 us", "hosts.prepost": 16}`.

        Raises
        ------
        ScenarioError
            If the network or a setting is wrong.

        Examples
        --------
        >>> import viaduct as via
        >>> net = via.Network.torus([4, 4], rate="856 Mbit/s")
        >>> study = net.study(via.Traffic(size="1 KiB", rate=100, to=via.uniform()), until="1 s")
        >>> study["network.dimensions"], study["links.rate"]
        ('[4, 4]', '856 Mbit/s')
        """
        # Looked at before it is kept: what is wrong is not said again the next time.
        if traffic is not None and not isinstance(traffic, (Traffic, Messages, Application)):
            raise TypeError(
                "traffic is viaduct.Traffic(...), Messages(...), collective(...), program(...) or "
                f"trace(...), not {_arguments.shown(traffic)}"
            )
        _arguments.quantity("until", until, "10 ms")
        _arguments.quantity("warmup", warmup, "1 ms")
        _arguments.settings(set)
        seed = _arguments.seed(seed)
        said = {"traffic": traffic, "until": until, "warmup": warmup, "seed": seed, "set": set}
        self._said |= {key: value for key, value in said.items() if value is not None}
        ends_itself = isinstance(self._said.get("traffic"), Application)
        for key in ("traffic",) if ends_itself else ("traffic", "until"):
            if key not in self._said:
                raise ScenarioError(
                    f"error: `{key}` was not said\n"
                    'help: net.study(via.Traffic(size="1 KiB", rate=100, to=via.uniform()), '
                    'until="1 s")'
                )
        run = {key: self._said.get(key) for key in ("until", "warmup", "seed")}
        tables = {
            "study": {"title": self.title},
            "run": run,
            "hosts": {"nic": self._nic},
            "traffic": self._said["traffic"].keys(self._host_number),
        }
        name = re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "network"
        settings = _texts(self._said.get("set"))
        traffic = self._said["traffic"]
        messages = traffic._native if isinstance(traffic, Messages) else None
        graph = traffic._native if isinstance(traffic, Graph) else None
        text = _toml(tables)
        for nic, hosts in self._groups.items():
            group = {"hosts": _ranges(hosts), "nic": nic}
            text += _toml({"[host_group]": group})
        return Study._of(self._network.study(name, text, messages, graph, settings))

    def run(
        self,
        *,
        traffic: Traffic | Messages | Application | None = None,
        until: str | None = None,
        warmup: str | None = None,
        seed: int | None = None,
        set: Mapping[str, Setting] | None = None,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> Result:
        """Run a study on it: the parameters of `study`, and `progress` of `Study.run`."""
        made = self.study(traffic, until=until, warmup=warmup, seed=seed, set=set)
        return made.run(progress=progress)

    def _host_number(self, host: Host) -> int:
        number = self.number_of(host)
        if number >= _SWITCH_FIRST:
            raise ScenarioError(
                f"error: {self.name_of(number)} is a switch, and traffic is between hosts\n"
                "help: name a host, or its number"
            )
        return number

    # Other libraries and files.

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        hosts_per_switch: int | None = None,
        ports: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Network:
        """Make a network of a NetworkX graph.

        Parameters
        ----------
        graph : networkx.Graph
            Nodes have an attribute `kind`, `host` or `switch`, and may have `ports`; edges may have
            `rate` and `latency`.
        hosts_per_switch : int, optional
            Nodes without a `kind` are switches, and each switch gets so many hosts.
        ports : int, optional
            Of switches that have no attribute `ports`.
        rate, latency : str, optional
            Of links that have no such attribute, those to added hosts included.
        title, nic : str, optional
            As of `Network`.

        Examples
        --------
        >>> import networkx as nx
        >>> import viaduct as via
        >>> jellyfish = nx.random_regular_graph(4, 20, seed=1)
        >>> net = via.Network.from_networkx(jellyfish, hosts_per_switch=2, rate="10 Gbit/s")
        >>> net.description
        'graph of 20 switches, 40 hosts'
        >>> net.to_networkx().number_of_edges()
        80
        """
        multigraph = graph.is_multigraph()
        network = cls(
            title or str(graph.name or "graph"),
            nic=nic,
            directed=graph.is_directed(),
            parallel_links=multigraph,
        )
        default = None if hosts_per_switch is None else "switch"
        numbers: dict[Any, int] = {}
        switches = []
        for node, attributes in graph.nodes(data=True):
            name = _name(node)
            kind = attributes.get("kind", default)
            if kind == "host":
                numbers[node] = network.host(name)
            elif kind == "switch":
                numbers[node] = network.switch(name, ports=_ports(attributes, ports))
                switches.append((name, numbers[node]))
            else:
                what = "no kind" if kind is None else f"the kind {kind!r}"
                raise ScenarioError(
                    f"error: the node {name} has {what}\n"
                    'help: graph.nodes[node]["kind"] = "host" or "switch"; or give hosts_per_switch'
                )
            network._note_unused("node", attributes, ("kind", "ports"))
        for name, switch in switches:
            for index in range(hosts_per_switch or 0):
                host = network.host(f"n{name}-{index}")
                network.link(host, switch)
                if graph.is_directed():
                    network.link(switch, host)
        for a, b, attributes in graph.edges(data=True):
            given = {key: attributes.get(key) for key in ("rate", "latency")}
            network.link(numbers[a], numbers[b], **given)
            network._note_unused("edge", attributes, ("rate", "latency"))
        network._network.complete_links(rate, latency)
        return network

    def to_networkx(self) -> Any:
        """Give a NetworkX graph with the attributes that `from_networkx` reads."""
        import networkx

        graph = networkx.node_link_graph(self.to_node_link(), edges="edges")
        graph.name = self.title
        return graph

    @classmethod
    def from_node_link(
        cls,
        source: str | PathLike[str] | Mapping[str, Any],
        *,
        title: str = "",
        nic: str | None = None,
    ) -> Network:
        """Read node-link JSON, as NetworkX writes it: a file, or what it holds.

        Examples
        --------
        >>> import viaduct as via
        >>> ring = via.Network.torus([5], rate="1 Gbit/s")
        >>> via.Network.from_node_link(ring.to_node_link()).description
        'torus of 5 switches, 1 host a switch'
        """
        if isinstance(source, Mapping):
            native = _native.Network.read("node-link data", json.dumps(source), "json")
            return cls._of(native, title or "graph", nic)
        return cls._read(source, "json", title, nic)

    @classmethod
    def from_graphml(
        cls, path: str | PathLike[str], *, title: str = "", nic: str | None = None
    ) -> Network:
        """Read a GraphML file, with the attributes that `from_networkx` reads."""
        return cls._read(path, "graphml", title, nic)

    @classmethod
    def from_edge_list(
        cls, path: str | PathLike[str], *, title: str = "", nic: str | None = None
    ) -> Network:
        """Read a file with one link per line, as `network.file` of a study may be."""
        return cls._read(path, "list", title, nic)

    @classmethod
    def _read(cls, path: str | PathLike[str], kind: str, title: str, nic: str | None) -> Network:
        path = fspath(path)
        text = Path(path).read_text(encoding="utf-8")
        return cls._of(_native.Network.read(path, text, kind), title or Path(path).stem, nic)

    def to_node_link(self) -> dict[str, Any]:
        """Give what `networkx.node_link_data` would, for `json.dump` or `from_node_link`."""
        graph: dict[str, Any] = json.loads(self._network.node_link_json())
        return graph

    def write_node_link(self, path: str | PathLike[str]) -> None:
        """Write it as node-link JSON, which `network.file` of a study may be."""
        Path(path).write_text(self._network.node_link_json(), encoding="utf-8")

    def write_graphml(self, path: str | PathLike[str]) -> None:
        """Write it as GraphML."""
        Path(path).write_text(self._network.graphml(), encoding="utf-8")

    def _note_unused(
        self, owner: str, attributes: Mapping[str, Any], known: tuple[str, ...]
    ) -> None:
        for attribute in attributes:
            if attribute not in known:
                self._network.note_unused(owner, str(attribute))


_SWITCH_FIRST = 2**30


def _numbers(first: int, count: int) -> Any:
    try:
        import numpy
    except ImportError:
        return range(first, first + count)
    return numpy.arange(first, first + count)


def _name(node: Any) -> str:
    """Name a node of NetworkX: points of its grids are tuples."""
    return "-".join(map(str, node)) if isinstance(node, tuple) else str(node)


def _ports(attributes: Mapping[str, Any], default: int | None) -> int | None:
    ports = attributes.get("ports", default)
    return None if ports is None else int(ports)


def _ranges(numbers: Sequence[int]) -> str:
    """Write numbers as a study names hosts: `0-7, 12`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def _toml(tables: Mapping[str, Mapping[str, object]]) -> str:
    """Write tables of TOML; what is None is left out."""
    lines = []
    for table, keys in tables.items():
        lines.append(f"[{table}]")
        lines += [f"{key} = {_value(value)}" for key, value in keys.items() if value is not None]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A string of JSON is one of TOML, but for this.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return repr(value)
