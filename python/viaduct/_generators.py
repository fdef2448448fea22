"""Networks that are generated, as in `[network]` of a study."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from viaduct import _arguments, _native

COUNT_MAX = 2**32 - 1
"""No network has more nodes of a kind."""


class Generated:
    """The generators of `Network`."""

    __slots__ = ()

    @classmethod
    def _of(cls, native: _native.Network, title: str, nic: str | None) -> Self:
        raise NotImplementedError

    @classmethod
    def torus(
        cls,
        dimensions: Sequence[int],
        *,
        hosts_per_switch: int = 1,
        ports: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a torus; switches are `s3-4`, their hosts `n3-4-0`.

        Parameters
        ----------
        dimensions : sequence of int
            Switches in each dimension.
        hosts_per_switch : int
            Hosts at each.
        ports : int, optional
            Of a switch; as many as it takes, if left out.
        rate, latency : str, optional
            Of all links.
        title, nic : str, optional
            As of `Network`.

        Examples
        --------
        >>> import viaduct as via
        >>> net = via.Network.torus([16, 16], hosts_per_switch=4, ports=8, rate="856 Mbit/s")
        >>> net
        <viaduct network torus of 16x16 switches: 1024 hosts, 256 switches, 1536 links>
        """
        sizes = _sizes(dimensions)
        check_links(rate, latency)
        native = _native.Network.torus(sizes, *_counts(hosts_per_switch, ports))
        native.complete_links(rate, latency)
        words = "x".join(map(str, dimensions))
        return cls._of(native, title or f"torus of {words} switches", nic)

    @classmethod
    def mesh(
        cls,
        dimensions: Sequence[int],
        *,
        hosts_per_switch: int = 1,
        ports: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a mesh: a torus with open edges; parameters as of `torus`."""
        sizes = _sizes(dimensions)
        check_links(rate, latency)
        native = _native.Network.mesh(sizes, *_counts(hosts_per_switch, ports))
        native.complete_links(rate, latency)
        words = "x".join(map(str, dimensions))
        return cls._of(native, title or f"mesh of {words} switches", nic)

    @classmethod
    def chain(
        cls,
        switches: int,
        *,
        hosts_per_switch: int = 1,
        ends_only: bool = False,
        ports: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make switches in a row, with hosts at each or at both ends only."""
        switches = _arguments.whole("switches", switches, 0, COUNT_MAX)
        check_links(rate, latency)
        hosts, ports = _counts(hosts_per_switch, ports)
        native = _native.Network.chain(switches, hosts, ends_only, ports)
        native.complete_links(rate, latency)
        return cls._of(native, title or f"chain of {switches} switches", nic)

    @classmethod
    def single_switch(
        cls,
        hosts: int,
        *,
        ports: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make one switch with hosts."""
        hosts = _arguments.whole("hosts", hosts, 0, COUNT_MAX)
        check_links(rate, latency)
        native = _native.Network.single_switch(hosts, ports_of(ports))
        native.complete_links(rate, latency)
        return cls._of(native, title or "one switch", nic)

    @classmethod
    def fat_tree(
        cls,
        arity: int,
        levels: int,
        *,
        ports: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make the k-ary n-tree: `arity` to the power of `levels` hosts.

        Examples
        --------
        >>> import viaduct as via
        >>> via.Network.fat_tree(4, 3, rate="1 Gbit/s").description
        'fat tree of 3 levels, arity 4, 64 hosts'
        """
        arity = _arguments.whole("arity", arity, 0, COUNT_MAX)
        levels = _arguments.whole("levels", levels, 0, COUNT_MAX)
        check_links(rate, latency)
        native = _native.Network.fat_tree(arity, levels, ports_of(ports))
        native.complete_links(rate, latency)
        return cls._of(native, title or f"fat tree of {levels} levels", nic)

    @classmethod
    def leaf_spine(
        cls,
        hosts: int,
        *,
        hosts_per_switch: int,
        spines: int,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a tree of two levels: leaves with hosts, each joined to every spine."""
        native = _native.Network.leaf_spine(
            _arguments.whole("hosts", hosts, 0, COUNT_MAX),
            _arguments.whole("hosts_per_switch", hosts_per_switch, 0, COUNT_MAX),
            _arguments.whole("spines", spines, 0, COUNT_MAX),
        )
        return cls._made(native, rate, latency, title or f"leaf-spine of {hosts} hosts", nic)

    @classmethod
    def clos(
        cls,
        radix: int,
        *,
        tiers: int = 3,
        oversubscription: int = 1,
        pods: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a tree of equal switches: what is sold as a fat tree of `radix`-port switches.

        Parameters
        ----------
        radix : int
            Ports of every switch, an even number.
        tiers : int
            Levels of switches, 2 or 3.
        oversubscription : int
            Links down of a switch with hosts for each of its links up.
        pods : int, optional
            Pods, or leaves of two tiers; as many as ports, if left out.
        rate, latency : str, optional
            Of all links.
        title, nic : str, optional
            As of `Network`.

        Examples
        --------
        >>> import viaduct as via
        >>> via.Network.clos(8, rate="100 Gbit/s")
        <viaduct network tree of 8-port switches: 128 hosts, 80 switches, 384 links>
        """
        native = _native.Network.clos(
            _arguments.whole("radix", radix, 0, COUNT_MAX),
            _arguments.whole("tiers", tiers, 0, COUNT_MAX),
            _arguments.whole("oversubscription", oversubscription, 0, COUNT_MAX),
            _whole_or_none("pods", pods),
        )
        return cls._made(native, rate, latency, title or f"tree of {radix}-port switches", nic)

    @classmethod
    def rail(
        cls,
        rails: int,
        *,
        servers: int,
        servers_per_unit: int,
        spines: int,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make rails: adapters of one number of all servers of a unit share a leaf.

        Each adapter is a host: adapter r of server s is host s * rails + r.
        """
        native = _native.Network.rail(
            _arguments.whole("rails", rails, 0, COUNT_MAX),
            _arguments.whole("servers", servers, 0, COUNT_MAX),
            _arguments.whole("servers_per_unit", servers_per_unit, 0, COUNT_MAX),
            _arguments.whole("spines", spines, 0, COUNT_MAX),
        )
        return cls._made(native, rate, latency, title or f"{rails} rails of {servers} servers", nic)

    @classmethod
    def dragonfly(
        cls,
        *,
        switches_per_group: int,
        global_links: int,
        hosts_per_switch: int = 1,
        groups: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a dragonfly: full groups, each with links to each other.

        Parameters
        ----------
        switches_per_group, global_links, hosts_per_switch : int
            a switches of a group, h links of each to other groups, and p hosts at each.
        groups : int, optional
            As many as can be joined, a h + 1, if left out.
        rate, latency : str, optional
            Of all links.
        title, nic : str, optional
            As of `Network`.

        Examples
        --------
        >>> import viaduct as via
        >>> net = via.Network.dragonfly(switches_per_group=4, global_links=2, hosts_per_switch=2)
        >>> net.description
        'dragonfly of 9 groups of 4 switches, 2 hosts and 2 global links a switch'
        """
        native = _native.Network.dragonfly(
            _arguments.whole("hosts_per_switch", hosts_per_switch, 0, COUNT_MAX),
            _arguments.whole("switches_per_group", switches_per_group, 0, COUNT_MAX),
            _arguments.whole("global_links", global_links, 0, COUNT_MAX),
            _whole_or_none("groups", groups),
        )
        return cls._made(native, rate, latency, title or "dragonfly", nic)

    @classmethod
    def dragonfly_plus(
        cls,
        radix: int,
        *,
        groups: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a dragonfly whose groups are trees of two levels of `radix`-port switches."""
        native = _native.Network.dragonfly_plus(
            _arguments.whole("radix", radix, 0, COUNT_MAX),
            _whole_or_none("groups", groups),
        )
        return cls._made(native, rate, latency, title or "dragonfly+", nic)

    @classmethod
    def hyperx(
        cls,
        dimensions: Sequence[int],
        *,
        hosts_per_switch: int = 1,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a HyperX: a grid in which all switches of a line are joined to each other."""
        sizes = _sizes(dimensions)
        native = _native.Network.hyperx(
            sizes,
            _arguments.whole("hosts_per_switch", hosts_per_switch, 0, COUNT_MAX),
        )
        return cls._made(native, rate, latency, title or "HyperX", nic)

    @classmethod
    def slim_fly(
        cls,
        order: int,
        *,
        hosts_per_switch: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a Slim Fly over a field of `order` elements: 2 q q switches of diameter 2.

        Without `hosts_per_switch` each switch has half as many as links to others.
        """
        native = _native.Network.slim_fly(
            _arguments.whole("order", order, 0, COUNT_MAX),
            _whole_or_none("hosts_per_switch", hosts_per_switch),
        )
        return cls._made(native, rate, latency, title or f"Slim Fly of order {order}", nic)

    @classmethod
    def polar_fly(
        cls,
        order: int,
        *,
        hosts_per_switch: int | None = None,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a PolarFly over a field of `order` elements: q q + q + 1 switches of diameter 2.

        Without `hosts_per_switch` each switch has half as many as links to others.
        """
        native = _native.Network.polar_fly(
            _arguments.whole("order", order, 0, COUNT_MAX),
            _whole_or_none("hosts_per_switch", hosts_per_switch),
        )
        return cls._made(native, rate, latency, title or f"PolarFly of order {order}", nic)

    @classmethod
    def jellyfish(
        cls,
        switches: int,
        *,
        switch_links: int,
        hosts_per_switch: int = 1,
        seed: int = 1,
        rate: str | None = None,
        latency: str | None = None,
        title: str = "",
        nic: str | None = None,
    ) -> Self:
        """Make a random graph in which each switch has `switch_links` links to others.

        The same `seed` gives the same graph.
        """
        native = _native.Network.jellyfish(
            _arguments.whole("switches", switches, 0, COUNT_MAX),
            _arguments.whole("hosts_per_switch", hosts_per_switch, 0, COUNT_MAX),
            _arguments.whole("switch_links", switch_links, 0, COUNT_MAX),
            _arguments.whole("seed", seed, 0, 2**64 - 1),
        )
        return cls._made(native, rate, latency, title or "jellyfish", nic)

    @classmethod
    def _made(
        cls,
        native: _native.Network,
        rate: str | None,
        latency: str | None,
        title: str,
        nic: str | None,
    ) -> Self:
        check_links(rate, latency)
        native.complete_links(rate, latency)
        return cls._of(native, title, nic)


def _sizes(dimensions: Sequence[int]) -> list[int]:
    if isinstance(dimensions, str) or not isinstance(dimensions, Iterable):
        raise TypeError(
            "dimensions are the switches in each dimension, as in [16, 16], not "
            f"{_arguments.shown(dimensions)}"
        )
    return [_arguments.whole("a dimension", size, 0, COUNT_MAX) for size in dimensions]


def _counts(hosts_per_switch: int, ports: int | None) -> tuple[int, int | None]:
    hosts = _arguments.whole("hosts_per_switch", hosts_per_switch, 0, COUNT_MAX)
    return hosts, ports_of(ports)


def _whole_or_none(what: str, count: int | None) -> int | None:
    return None if count is None else _arguments.whole(what, count, 0, COUNT_MAX)


def ports_of(ports: int | None) -> int | None:
    return _whole_or_none("ports", ports)


def check_links(rate: str | None, latency: str | None) -> None:
    _arguments.quantity("rate", rate, "856 Mbit/s")
    _arguments.quantity("latency", latency, "0.5 us")
