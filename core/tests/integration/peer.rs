//! Connecting peer to peer.

use crate::common::*;
use viaduct_core::*;

/// One side asks for the other, under names that match crosswise.
fn ask(pair: &mut Pair, side: usize, vi: ViId, timeout: Timespan) -> Result<(), ConnectError> {
    let (local, remote) = (address(side, "peer"), address(1 - side, "peer"));
    let now = pair.now;
    let nic = &mut pair.hosts[side].nic;
    nic.connect_peer_request(vi, local, remote, now, timeout)
}

fn connected(event: &Event) -> Option<ViId> {
    match event {
        Event::Connected { vi, .. } => Some(*vi),
        _ => None,
    }
}

/// A message each way.
fn exchange(pair: &mut Pair) {
    for side in 0..2 {
        let buffer = pair.hosts[1 - side].one(0, 10);
        pair.post_receive(1 - side, buffer, 1);
        let message = pair.hosts[side].one(0, 10);
        pair.post_send(side, message, 2);
        assert_eq!(pair.deliver(side), []);
        assert_eq!(pair.drain(side)[0], [(2, 1)]);
        assert_eq!(pair.drain(1 - side)[1], [(1, 0x0001_0001)]);
    }
}

#[test]
fn peers_that_ask_for_each_other_are_connected_whoever_comes_first() {
    // Case 69; also when both requests are on their way at once.
    for first in [0, 1] {
        for is_carried_between in [true, false] {
            let mut pair = Pair::unconnected();
            let vi = pair.vis[first];
            ask(&mut pair, first, vi, SOON).unwrap();
            assert_eq!(pair.states()[first], ViState::ConnectPending);
            if is_carried_between {
                pair.carry();
                assert_eq!(pair.hosts[first].events(), [], "not done");
            }
            let vi = pair.vis[1 - first];
            ask(&mut pair, 1 - first, vi, SOON).unwrap();
            pair.carry();
            for side in 0..2 {
                let vi = pair.vis[side];
                let attributes = pair.hosts[1 - side].attributes().for_peer();
                let events = pair.hosts[side].events();
                assert_eq!(events, [Event::Connected { vi, attributes }]);
                assert_eq!(pair.hosts[side].nic.poll_timeout(), None);
            }
            assert_eq!(pair.states(), [ViState::Connected; 2]);
            exchange(&mut pair);
        }
    }
}

#[test]
fn many_peers_connect_whatever_the_order_of_asking() {
    // Case 71, with equal addresses too: the oldest of each side meet.
    let mut pair = Pair::unconnected();
    let vis: Vec<[ViId; 2]> = (0..16)
        .map(|_| [pair.hosts[0].vi(), pair.hosts[1].vi()])
        .collect();
    for pairs in &vis {
        ask(&mut pair, 0, pairs[0], SOON).unwrap();
    }
    pair.carry();
    for pairs in vis.iter().rev() {
        ask(&mut pair, 1, pairs[1], SOON).unwrap();
    }
    pair.carry();
    for (pairs, reversed) in vis.iter().zip(vis.iter().rev()) {
        assert_eq!(pair.hosts[0].nic.peer(pairs[0]).unwrap().vi, reversed[1]);
        assert_eq!(pair.hosts[1].nic.peer(reversed[1]).unwrap().vi, pairs[0]);
    }
    let told = pair.hosts[0].events();
    assert_eq!(told.iter().filter_map(connected).count(), 16);
}

#[test]
fn a_peer_that_nobody_answers_times_out_and_can_ask_again() {
    // Case 70.
    let mut pair = Pair::unconnected();
    let vi = pair.vis[0];
    let buffer = pair.hosts[0].one(0, 10);
    pair.post_receive(0, buffer, 7);
    let limit = Timespan::from_milliseconds(200);
    assert_eq!(
        ask(&mut pair, 0, vi, Timespan::ZERO),
        Err(ConnectError::NoTime)
    );
    ask(&mut pair, 0, vi, limit).unwrap();
    let pending = ViState::ConnectPending;
    assert_eq!(
        ask(&mut pair, 0, vi, limit),
        Err(ConnectError::InvalidState { state: pending })
    );
    pair.carry();
    let deadline = Timestamp::ZERO.after(limit);
    assert_eq!(pair.hosts[0].nic.poll_timeout(), Some(deadline));
    pair.advance_to(deadline);
    let reason = ConnectFailure::TimedOut;
    assert_eq!(
        pair.hosts[0].events(),
        [Event::ConnectFailed { vi, reason }]
    );
    assert_eq!(pair.states(), [ViState::Idle; 2]);
    assert_eq!(pair.receive_done(0), Done::NotDone, "receives stay");
    // What it had asked is withdrawn: the other must not meet it.
    let other = pair.vis[1];
    ask(&mut pair, 1, other, SOON).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle, ViState::ConnectPending]);
    ask(&mut pair, 0, vi, limit).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn peers_that_do_not_fit_are_both_told() {
    type Change = fn(&mut ViAttributes);
    type Difference = fn(&ViAttributes) -> ConnectError;
    let changes: [(Change, Difference); 3] = [
        (
            |a| a.reliability = ReliabilityLevel::ReliableDelivery,
            |a| ConnectError::ReliabilityDiffers {
                remote: a.reliability,
            },
        ),
        (
            |a| a.max_transfer_bytes = 5,
            |a| ConnectError::MaxTransferDiffers {
                remote_bytes: a.max_transfer_bytes,
            },
        ),
        (
            |a| a.quality_of_service = 1,
            |a| ConnectError::QualityOfServiceDiffers {
                remote: a.quality_of_service,
            },
        ),
    ];
    for (change, error) in changes {
        for first in [0, 1] {
            let mut pair = Pair::unconnected_with(NicAttributes {
                qualities_of_service: 2,
                ..NicAttributes::default()
            });
            let mut changed = pair.hosts[1].attributes();
            change(&mut changed);
            let nic = &mut pair.hosts[1].nic;
            nic.set_vi_attributes(pair.vis[1], changed).unwrap();
            for side in [first, 1 - first] {
                let vi = pair.vis[side];
                ask(&mut pair, side, vi, SOON).unwrap();
            }
            pair.carry();
            let plain = pair.hosts[0].attributes();
            for (side, remote) in [(0, changed), (1, plain)] {
                let vi = pair.vis[side];
                let reason = ConnectFailure::Differs(error(&remote));
                let events = pair.hosts[side].events();
                assert_eq!(events, [Event::ConnectFailed { vi, reason }]);
                assert_eq!(pair.hosts[side].nic.poll_timeout(), None);
            }
            assert_eq!(pair.states(), [ViState::Idle; 2]);
        }
    }
}

#[test]
fn a_peer_and_a_waiting_server_do_not_meet() {
    let mut pair = Pair::unconnected();
    let name = address(1, "peer");
    pair.hosts[1]
        .nic
        .connect_wait(name, pair.now, Timespan::INFINITE)
        .unwrap();
    let vi = pair.vis[0];
    ask(&mut pair, 0, vi, SOON).unwrap();
    pair.carry();
    assert_eq!(pair.hosts[1].events(), []);
    assert_eq!(pair.states()[0], ViState::ConnectPending);
    // Nor does a client meet a peer.
    let client = pair.hosts[1].vi();
    let (local, remote) = (address(1, "peer"), address(0, "peer"));
    let now = pair.now;
    let nic = &mut pair.hosts[1].nic;
    nic.connect_request(client, local, remote, now, SOON)
        .unwrap();
    pair.carry();
    let reason = ConnectFailure::NoMatch;
    assert_eq!(
        pair.hosts[1].events(),
        [Event::ConnectFailed { vi: client, reason }]
    );
}

#[test]
fn both_addresses_must_match_crosswise() {
    let mut pair = Pair::unconnected();
    let vi = pair.vis[0];
    ask(&mut pair, 0, vi, SOON).unwrap();
    for (own, asked) in [("peer", "pee"), ("peers", "peer"), ("", "peer")] {
        let vi = pair.hosts[1].vi();
        let now = pair.now;
        let nic = &mut pair.hosts[1].nic;
        nic.connect_peer_request(vi, address(1, own), address(0, asked), now, SOON)
            .unwrap();
        pair.carry();
        assert_eq!(pair.hosts[1].events(), []);
    }
    assert_eq!(pair.hosts[0].events(), []);
}

#[test]
fn a_third_host_cannot_step_in() {
    let mut pair = Pair::unconnected();
    let vi = pair.vis[0];
    ask(&mut pair, 0, vi, SOON).unwrap();
    let other = pair.vis[1];
    ask(&mut pair, 1, other, SOON).unwrap();
    let Transmit { message, .. } = pair.hosts[1].nic.poll_transmit().unwrap();
    let stranger = HostAddress::new(9);
    let nic = &mut pair.hosts[0].nic;
    nic.handle_connection_message(stranger, message.clone(), pair.now);
    assert_eq!(nic.vi_state(vi), Some(ViState::ConnectPending));
    nic.handle_connection_message(HostAddress::new(1), message, pair.now);
    assert_eq!(nic.vi_state(vi), Some(ViState::Connected));
}

#[test]
fn giving_up_while_the_other_connects_leaves_no_half_connection() {
    let mut pair = Pair::unconnected();
    let [early, late] = pair.vis;
    ask(&mut pair, 0, early, SOON).unwrap();
    pair.carry();
    // The withdrawal and the other's request cross.
    pair.hosts[0].nic.disconnect(early).unwrap();
    ask(&mut pair, 1, late, SOON).unwrap();
    assert_eq!(pair.states(), [ViState::Idle, ViState::Connected]);
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle, ViState::Error]);
    let events = pair.hosts[1].events();
    assert_eq!(events.last(), Some(&Event::ConnectionLost { vi: late }));
    // Nothing of it is left to be met.
    ask(&mut pair, 0, early, SOON).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::ConnectPending, ViState::Error]);
    pair.hosts[1].nic.disconnect(late).unwrap();
    ask(&mut pair, 1, late, SOON).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Connected; 2]);
    exchange(&mut pair);
}

#[test]
fn a_peers_host_that_cannot_be_reached_ends_the_attempt() {
    let mut pair = Pair::unconnected();
    let vi = pair.vis[0];
    ask(&mut pair, 0, vi, SOON).unwrap();
    pair.carry();
    pair.hosts[0]
        .nic
        .handle_host_unreachable(HostAddress::new(1));
    let reason = ConnectFailure::NotReachable;
    assert_eq!(
        pair.hosts[0].events(),
        [Event::ConnectFailed { vi, reason }]
    );
    pair.hosts[1]
        .nic
        .handle_host_unreachable(HostAddress::new(0));
    let other = pair.vis[1];
    ask(&mut pair, 1, other, SOON).unwrap();
    assert_eq!(pair.states()[1], ViState::ConnectPending, "forgotten");
}

#[test]
fn two_vis_of_one_nic_connect_as_peers() {
    // Under two names, and both under one; a VI does not meet itself.
    for names in [["a", "b"], ["a", "a"]] {
        let mut pair = Pair::unconnected();
        let vis = [pair.vis[0], pair.hosts[0].vi()];
        for (vi, own, asked) in [(vis[0], names[0], names[1]), (vis[1], names[1], names[0])] {
            let (local, remote) = (address(0, own), address(0, asked));
            let now = pair.now;
            let nic = &mut pair.hosts[0].nic;
            nic.connect_peer_request(vi, local, remote, now, SOON)
                .unwrap();
            pair.carry();
            if vi == vis[0] {
                assert_eq!(pair.hosts[0].state(vi), ViState::ConnectPending);
            }
        }
        for (vi, other) in [(vis[0], vis[1]), (vis[1], vis[0])] {
            assert_eq!(pair.hosts[0].state(vi), ViState::Connected);
            assert_eq!(pair.hosts[0].nic.peer(vi).unwrap().vi, other);
        }
    }
}
