//! Generated networks by their numbers and names.

use crate::{ChainHosts, DIMENSIONS_MAX, HostId, Node, Ports, Topology, TopologyError, TreeShape};

fn names(topology: &Topology, source: u32, target: u32) -> Vec<String> {
    let mut path = Vec::new();
    topology.route(HostId(source), HostId(target), &mut path);
    path.iter().map(|&link| topology.link_name(link)).collect()
}

#[test]
fn study_torus_has_its_counts() {
    let torus = Topology::torus(&[16, 16], 4, Ports(8)).unwrap();
    assert_eq!(torus.host_count(), 1024);
    assert_eq!(torus.switch_count(), 256);
    assert_eq!(torus.switch_link_count(), 1024);
    assert_eq!(torus.link_count(), 1024 + 2048);
    assert_eq!(
        torus.description(),
        "torus of 16x16 switches, 4 hosts a switch"
    );
}

#[test]
fn four_hop_chain_goes_straight() {
    let chain = Topology::chain(5, ChainHosts::Ends(1), Ports(2)).unwrap();
    assert_eq!(
        names(&chain, 0, 1),
        [
            "n0-0 -> s0",
            "s0 -> s1",
            "s1 -> s2",
            "s2 -> s3",
            "s3 -> s4",
            "s4 -> n4-0"
        ]
    );
    assert_eq!(
        names(&chain, 1, 0),
        [
            "n4-0 -> s4",
            "s4 -> s3",
            "s3 -> s2",
            "s2 -> s1",
            "s1 -> s0",
            "s0 -> n0-0"
        ]
    );
    assert_eq!(chain.straight_line(HostId(0), 0, 4), Some(HostId(1)));
    assert_eq!(chain.straight_line(HostId(0), 0, 3), None);
    assert_eq!(chain.straight_line(HostId(0), 0, 5), None);
    assert_eq!(chain.straight_line(HostId(1), 1, 4), Some(HostId(0)));
    assert_eq!(chain.directions(), 2);
}

#[test]
fn torus_routes_first_dimension_first_and_the_shorter_way() {
    let torus = Topology::torus(&[5, 4], 1, Ports(5)).unwrap();
    // (0, 0) to (3, 2): two back in x, exactly half in y goes up.
    let target = 3 + 5 * 2;
    assert_eq!(
        names(&torus, 0, target),
        [
            "n0-0-0 -> s0-0",
            "s0-0 -> s4-0",
            "s4-0 -> s3-0",
            "s3-0 -> s3-1",
            "s3-1 -> s3-2",
            "s3-2 -> n3-2-0"
        ]
    );
}

#[test]
fn fat_tree_goes_up_by_the_digits_of_the_target() {
    let tree = Topology::fat_tree(
        TreeShape {
            arity: 2,
            levels: 3,
        },
        Ports(4),
    )
    .unwrap();
    assert_eq!(
        (tree.host_count(), tree.switch_count(), tree.link_count()),
        (8, 12, 48)
    );
    // Host 0 to 5 = binary 101: port 1 at level 0, port 0 at level 1.
    assert_eq!(
        names(&tree, 0, 5),
        [
            "n0 -> s0-0",
            "s0-0 -> s1-1",
            "s1-1 -> s2-1",
            "s2-1 -> s1-3",
            "s1-3 -> s0-2",
            "s0-2 -> n5"
        ]
    );
    assert_eq!(names(&tree, 4, 5), ["n4 -> s0-2", "s0-2 -> n5"]);
    assert_eq!(names(&tree, 3, 3), ["n3 -> s0-1", "s0-1 -> n3"]);
}

#[test]
fn too_few_ports_name_the_switch() {
    let error = |result: Result<Topology, TopologyError>| result.unwrap_err().to_string();
    assert_eq!(
        error(Topology::torus(&[16, 16], 4, Ports(7))),
        "switch s0-0 needs 8 ports (4 hosts, 4 switches) but has 7: \
         raise the ports of a switch to at least 8, or attach less to it"
    );
    assert!(Topology::torus(&[16, 16], 4, Ports(8)).is_ok());
    assert!(
        error(Topology::mesh(&[3, 3], 1, Ports(4)))
            .starts_with("switch s1-1 needs 5 ports (1 host, 4 switches) but has 4")
    );
    assert!(Topology::mesh(&[3, 3], 1, Ports(5)).is_ok());
    assert!(Topology::mesh(&[2, 2], 1, Ports(3)).is_ok());
    assert!(Topology::torus(&[2, 1, 3], 1, Ports(4)).is_ok());
    assert!(Topology::torus(&[2, 1, 3], 1, Ports(3)).is_err());
    assert!(
        error(Topology::chain(5, ChainHosts::Ends(1), Ports(1)))
            .starts_with("switch s0 needs 2 ports (1 host, 1 switch) but has 1")
    );
    assert!(
        error(Topology::single_switch(9, Ports(8)))
            .starts_with("switch s0 needs 9 ports (9 hosts, 0 switches) but has 8")
    );
    let tree = TreeShape {
        arity: 4,
        levels: 2,
    };
    assert!(
        error(Topology::fat_tree(tree, Ports(7)))
            .starts_with("switch s0-0 needs 8 ports (4 hosts, 4 switches) but has 7")
    );
    assert!(
        Topology::fat_tree(
            TreeShape {
                arity: 4,
                levels: 1
            },
            Ports(4)
        )
        .is_ok()
    );
}

#[test]
fn counts_beyond_the_numbers_are_refused() {
    let ports = Ports(u32::MAX);
    assert_eq!(
        Topology::torus(&[u32::MAX, u32::MAX, u32::MAX], 1, ports)
            .unwrap_err()
            .to_string(),
        "the number of switches: 18446744073709551615 is more than the limit of 4294967294; \
         make the network smaller: links, switches and hosts have 32-bit numbers"
    );
    assert!(Topology::torus(&[1 << 30], 2, ports).is_err());
    assert!(Topology::single_switch(u32::MAX, ports).is_err());
    assert!(Topology::chain(1 << 31, ChainHosts::Ends(1), ports).is_err());
    assert!(Topology::chain((1 << 31) - 4, ChainHosts::Ends(1), ports).is_ok());
    assert!(
        Topology::fat_tree(
            TreeShape {
                arity: 2,
                levels: 32
            },
            ports
        )
        .is_err()
    );
    assert!(
        Topology::fat_tree(
            TreeShape {
                arity: 2,
                levels: 31
            },
            ports
        )
        .is_err()
    );
    assert!(
        Topology::fat_tree(
            TreeShape {
                arity: u32::MAX,
                levels: 2
            },
            ports
        )
        .is_err()
    );
    assert!(Topology::mesh(&[1; DIMENSIONS_MAX], 1, ports).is_ok());
    assert!(Topology::mesh(&[1; DIMENSIONS_MAX + 1], 1, ports).is_err());
    for sizes in [&[][..], &[0], &[4, 0]] {
        assert!(Topology::mesh(sizes, 1, ports).is_err());
    }
    assert_eq!(
        Topology::mesh(&[2], 0, ports).unwrap_err().to_string(),
        "the number of hosts at a switch is 0, but must be at least 1"
    );
    assert!(
        Topology::fat_tree(
            TreeShape {
                arity: 1,
                levels: 2
            },
            ports
        )
        .is_err()
    );
    assert!(
        Topology::fat_tree(
            TreeShape {
                arity: 2,
                levels: 0
            },
            ports
        )
        .is_err()
    );
}

#[test]
fn million_hosts_have_their_counts() {
    let torus = Topology::torus(&[512, 512], 4, Ports(8)).unwrap();
    assert_eq!(torus.host_count(), 1 << 20);
    assert_eq!(torus.link_count(), 3 << 20);
    let target = torus.straight_line(HostId(3), 3, 4).unwrap();
    assert_eq!(torus.node_name(Node::Host(target)), "n0-508-3");
    assert_eq!(torus.path_length(HostId(3), target), Some(6));
}

#[test]
fn neighbours_are_corresponding_hosts_and_none_twice() {
    let torus = Topology::torus(&[2, 3, 1], 2, Ports(8)).unwrap();
    let neighbours: Vec<u32> = torus.neighbours(HostId(1)).map(|host| host.0).collect();
    // Host 1 of switch (0, 0): switch (1, 0), then (0, 1) and (0, 2).
    assert_eq!(neighbours, [3, 5, 9]);
    let mesh = Topology::mesh(&[3, 3], 1, Ports(8)).unwrap();
    let neighbours: Vec<u32> = mesh.neighbours(HostId(0)).map(|host| host.0).collect();
    assert_eq!(neighbours, [1, 3]);
    let tree = Topology::fat_tree(
        TreeShape {
            arity: 2,
            levels: 2,
        },
        Ports(4),
    )
    .unwrap();
    assert_eq!(tree.neighbours(HostId(0)).count(), 0);
}
