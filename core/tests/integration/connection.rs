//! Conformance cases of the C interface that concern connections.

use crate::common::*;
use viaduct_core::*;

fn milliseconds(count: u64) -> Timestamp {
    Timestamp::ZERO.after(Timespan::from_milliseconds(count))
}

fn failed(vi: ViId, reason: ConnectFailure) -> Event {
    Event::ConnectFailed { vi, reason }
}

/// Asks for a connection from host 0 without anybody's waiting for it in this call.
fn ask(pair: &mut Pair, discriminator: &str, timeout: Timespan) -> Result<(), ConnectError> {
    let (vi, remote) = (pair.vis[0], address(1, discriminator));
    pair.hosts[0]
        .nic
        .connect_request(vi, address(0, "client"), remote, pair.now, timeout)
}

fn wait(pair: &mut Pair, discriminator: &str, timeout: Timespan) -> WaitId {
    pair.hosts[1]
        .nic
        .connect_wait(address(1, discriminator), pair.now, timeout)
        .unwrap()
}

#[test]
fn each_end_learns_the_others_address_and_attributes() {
    // Case 13; tag and remote access may differ.
    let mut pair = Pair::unconnected();
    let attributes = ViAttributes {
        rdma_write: true,
        ..pair.hosts[1].attributes()
    };
    pair.hosts[1]
        .nic
        .set_vi_attributes(pair.vis[1], attributes)
        .unwrap();
    let wait = wait(&mut pair, "server", Timespan::INFINITE);
    ask(&mut pair, "server", SOON).unwrap();
    assert_eq!(pair.states(), [ViState::ConnectPending, ViState::Idle]);
    pair.carry();
    let remote = |rdma_write| RemoteViAttributes {
        reliability: ReliabilityLevel::Unreliable,
        max_transfer_bytes: TRANSFER_BYTES_MAX,
        rdma_write,
        rdma_read: false,
        quality_of_service: 0,
        extensions: Extensions::NONE,
    };
    let events = pair.hosts[1].events();
    let [
        Event::ConnectionRequested {
            wait: met,
            request,
            client,
            attributes,
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (*met, client, *attributes),
        (wait, &address(0, "client"), remote(false))
    );
    pair.hosts[1].nic.accept(*request, pair.vis[1]).unwrap();
    pair.carry();
    let connected = Event::Connected {
        vi: pair.vis[0],
        attributes: remote(true),
    };
    assert_eq!(pair.hosts[0].events(), [connected]);
    assert_eq!(pair.states(), [ViState::Connected; 2]);
    let [client, server] = pair.vis;
    assert_eq!(pair.hosts[0].nic.peer(client).unwrap().vi, server);
    assert_eq!(pair.hosts[1].nic.peer(server).unwrap().vi, client);
    assert_eq!(
        pair.hosts[1].nic.peer(server).unwrap().host,
        HostAddress::new(0)
    );
}

#[test]
fn a_request_to_a_name_that_nobody_waits_on_fails_at_once() {
    // Cases 14, 15; receives stay posted, and a retry with a waiter succeeds.
    let mut pair = Pair::unconnected();
    let buffer = pair.hosts[0].one(0, 10);
    pair.post_receive(0, buffer, 7);
    let wait = wait(&mut pair, "name", Timespan::INFINITE);
    for discriminator in ["", "nam", "names", "Name", "name\0"] {
        ask(&mut pair, discriminator, SOON).unwrap();
        pair.carry();
        assert_eq!(
            pair.hosts[0].events(),
            [failed(pair.vis[0], ConnectFailure::NoMatch)]
        );
        assert_eq!(pair.states(), [ViState::Idle; 2]);
        assert_eq!(pair.hosts[0].nic.poll_timeout(), None);
    }
    assert_eq!(pair.hosts[1].events(), []);
    assert!(pair.hosts[1].nic.cancel_wait(wait));
    assert!(!pair.hosts[1].nic.cancel_wait(wait));
    assert_eq!(pair.receive_done(0), Done::NotDone);
    pair.connect();
    let message = pair.hosts[1].one(0, 10);
    pair.post_send(1, message, 0);
    assert_eq!(pair.deliver(1), []);
    assert_eq!(pair.receive_done(0).completion().unwrap().cookie, 7);
}

#[test]
fn the_host_asked_for_is_part_of_the_match() {
    let mut pair = Pair::unconnected();
    let elsewhere = Address::new(HostAddress::new(9), b"name");
    pair.hosts[1]
        .nic
        .connect_wait(elsewhere, pair.now, Timespan::INFINITE)
        .unwrap();
    ask(&mut pair, "name", SOON).unwrap();
    pair.carry();
    assert_eq!(
        pair.hosts[0].events(),
        [failed(pair.vis[0], ConnectFailure::NoMatch)]
    );
}

#[test]
fn a_request_is_checked_before_it_is_sent() {
    // Cases 16, 22; discriminators at the limit and one past it.
    let mut pair = Pair::unconnected_with(NicAttributes {
        max_discriminator_bytes: 6,
        ..NicAttributes::default()
    });
    assert_eq!(
        ask(&mut pair, "server", Timespan::ZERO),
        Err(ConnectError::NoTime)
    );
    let long = Err(ConnectError::DiscriminatorTooLong { limit_bytes: 6 });
    assert_eq!(ask(&mut pair, "servers", SOON), long);
    let server = &mut pair.hosts[1].nic;
    let refused = server.connect_wait(address(1, "servers"), Timestamp::ZERO, SOON);
    assert_eq!(refused.map(|_| ()), long);
    assert_eq!(server.poll_timeout(), None);
    assert_eq!(pair.states()[0], ViState::Idle);
    assert_eq!(pair.hosts[0].nic.poll_transmit(), None);
    pair.connect();
    let connected = Err(ConnectError::InvalidState {
        state: ViState::Connected,
    });
    assert_eq!(ask(&mut pair, "server", SOON), connected);
    let client = pair.hosts[0].vi();
    let request = pair.request(client, "server").unwrap();
    assert_eq!(pair.hosts[1].nic.accept(request, pair.vis[1]), connected);
    let other = pair.hosts[1].vi();
    assert_eq!(
        pair.hosts[1].nic.accept(request, other),
        Ok(()),
        "the request is still open"
    );
}

#[test]
fn a_server_that_does_not_answer_times_the_client_out() {
    // Case 17; the VI can be used again, and the late accept says what happened.
    let mut pair = Pair::unconnected();
    wait(&mut pair, "server", Timespan::INFINITE);
    ask(&mut pair, "server", Timespan::from_milliseconds(200)).unwrap();
    pair.carry();
    let events = pair.hosts[1].events();
    let [Event::ConnectionRequested { request, .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(pair.hosts[0].nic.poll_timeout(), Some(milliseconds(200)));
    pair.advance_to(Timestamp::from_picoseconds(
        milliseconds(200).picoseconds() - 1,
    ));
    assert_eq!(pair.states()[0], ViState::ConnectPending);
    pair.advance_to(milliseconds(200));
    assert_eq!(
        pair.hosts[0].events(),
        [failed(pair.vis[0], ConnectFailure::TimedOut)]
    );
    assert_eq!(pair.states(), [ViState::Idle; 2]);
    let accepted = pair.hosts[1].nic.accept(request, pair.vis[1]);
    assert_eq!(accepted, Err(ConnectError::RequestWithdrawn));
    let accepted = pair.hosts[1].nic.accept(request, pair.vis[1]);
    assert_eq!(accepted, Err(ConnectError::UnknownRequest));
    assert_eq!(pair.states(), [ViState::Idle; 2]);
    pair.connect();
}

#[test]
fn an_accept_that_crosses_the_clients_giving_up_is_taken_back() {
    let mut pair = Pair::unconnected();
    let request = pair.request(pair.vis[0], "server").unwrap();
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.hosts[1].nic.accept(request, pair.vis[1]).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle, ViState::Error]);
    let vi = pair.vis[1];
    assert_eq!(pair.hosts[1].events(), [Event::ConnectionLost { vi }]);
    assert_eq!(pair.hosts[0].events(), []);
}

#[test]
fn a_wait_that_nobody_meets_times_out() {
    // Case 18.
    let mut pair = Pair::unconnected();
    let long = wait(&mut pair, "server", Timespan::from_milliseconds(300));
    let short = wait(&mut pair, "server", Timespan::from_milliseconds(200));
    assert_eq!(pair.hosts[1].nic.poll_timeout(), Some(milliseconds(200)));
    pair.advance_to(milliseconds(199));
    assert_eq!(pair.hosts[1].events(), []);
    pair.advance_to(milliseconds(200));
    assert_eq!(
        pair.hosts[1].events(),
        [Event::WaitTimedOut { wait: short }]
    );
    pair.advance_to(milliseconds(1000));
    assert_eq!(pair.hosts[1].events(), [Event::WaitTimedOut { wait: long }]);
    assert_eq!(pair.hosts[1].nic.poll_timeout(), None);
    ask(&mut pair, "server", SOON).unwrap();
    pair.carry();
    assert_eq!(
        pair.hosts[0].events(),
        [failed(pair.vis[0], ConnectFailure::NoMatch)]
    );
}

#[test]
fn a_rejected_client_is_idle_and_can_try_again() {
    // Case 19.
    let mut pair = Pair::unconnected();
    let request = pair.request(pair.vis[0], "server").unwrap();
    pair.hosts[1].nic.reject(request).unwrap();
    pair.carry();
    assert_eq!(
        pair.hosts[0].events(),
        [failed(pair.vis[0], ConnectFailure::Rejected)]
    );
    assert_eq!(pair.states(), [ViState::Idle; 2]);
    pair.connect();
}

#[test]
fn a_vi_that_does_not_fit_is_refused_and_the_client_waits_on() {
    // Cases 20, 21: what differs is set right, and the same request is accepted.
    let mut pair = Pair::unconnected_with(NicAttributes {
        qualities_of_service: 2,
        ..NicAttributes::default()
    });
    let fitting = pair.hosts[1].attributes();
    let request = pair.request(pair.vis[0], "server").unwrap();
    let unfitting = [
        (
            ViAttributes {
                max_transfer_bytes: TRANSFER_BYTES_MAX - 1,
                ..fitting
            },
            ConnectError::MaxTransferDiffers {
                remote_bytes: TRANSFER_BYTES_MAX,
            },
        ),
        (
            ViAttributes {
                quality_of_service: 1,
                ..fitting
            },
            ConnectError::QualityOfServiceDiffers { remote: 0 },
        ),
    ];
    for (attributes, error) in unfitting {
        pair.hosts[1]
            .nic
            .set_vi_attributes(pair.vis[1], attributes)
            .unwrap();
        assert_eq!(pair.hosts[1].nic.accept(request, pair.vis[1]), Err(error));
        pair.carry();
        assert_eq!(pair.hosts[0].events(), []);
        assert_eq!(pair.states(), [ViState::ConnectPending, ViState::Idle]);
    }
    pair.hosts[1]
        .nic
        .set_vi_attributes(pair.vis[1], fitting)
        .unwrap();
    assert_eq!(pair.hosts[1].nic.accept(request, pair.vis[1]), Ok(()));
    pair.carry();
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn a_request_of_another_reliability_level_is_refused() {
    // Case 20: after a change of attributes a second accept of the same request succeeds.
    let mut pair = Pair::unconnected();
    let level = ReliabilityLevel::ReliableDelivery;
    let (client, server) = (pair.vis[0], pair.vis[1]);
    let reliable = |host: &Host| ViAttributes {
        reliability: level,
        ..host.attributes()
    };
    let attributes = reliable(&pair.hosts[0]);
    let nic = &mut pair.hosts[0].nic;
    nic.set_vi_attributes(client, attributes).unwrap();
    let request = pair.request(client, "server").unwrap();
    assert_eq!(
        pair.hosts[1].nic.accept(request, server),
        Err(ConnectError::ReliabilityDiffers { remote: level })
    );
    pair.carry();
    assert_eq!(pair.states(), [ViState::ConnectPending, ViState::Idle]);
    let attributes = reliable(&pair.hosts[1]);
    let nic = &mut pair.hosts[1].nic;
    nic.set_vi_attributes(server, attributes).unwrap();
    nic.accept(request, server).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn each_wait_takes_one_request_and_the_oldest_wait_goes_first() {
    let mut pair = Pair::unconnected();
    let waits = [(); 2].map(|()| wait(&mut pair, "server", Timespan::INFINITE));
    let clients = [(); 3].map(|()| pair.hosts[0].vi());
    for client in clients {
        let remote = address(1, "server");
        let nic = &mut pair.hosts[0].nic;
        nic.connect_request(client, address(0, ""), remote, pair.now, SOON)
            .unwrap();
    }
    pair.carry();
    let met = pair.hosts[1].events().into_iter().map(|event| match event {
        Event::ConnectionRequested { wait, .. } => wait,
        other => panic!("{other:?}"),
    });
    assert_eq!(met.collect::<Vec<_>>(), waits);
    assert_eq!(
        pair.hosts[0].events(),
        [failed(clients[2], ConnectFailure::NoMatch)]
    );
}

#[test]
fn a_request_is_kept_for_the_grace_period() {
    let mut pair = Pair::unconnected_with(NicAttributes {
        connect_grace: Timespan::from_milliseconds(5),
        ..NicAttributes::default()
    });
    ask(&mut pair, "server", SOON).unwrap();
    pair.carry();
    assert_eq!(pair.states()[0], ViState::ConnectPending);
    assert_eq!(pair.hosts[1].nic.poll_timeout(), Some(milliseconds(5)));
    // In time: a wait finds the request.
    pair.advance_to(milliseconds(4));
    let met = wait(&mut pair, "server", Timespan::INFINITE);
    let events = pair.hosts[1].events();
    let [Event::ConnectionRequested { wait, request, .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(wait, met);
    assert_eq!(pair.hosts[1].nic.poll_timeout(), None);
    pair.hosts[1].nic.accept(request, pair.vis[1]).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Connected; 2]);
    // Too late: nobody came.
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.carry();
    pair.hosts[0].events();
    ask(&mut pair, "server", SOON).unwrap();
    pair.carry();
    pair.advance_to(milliseconds(9));
    assert_eq!(
        pair.hosts[0].events(),
        [failed(pair.vis[0], ConnectFailure::NoMatch)]
    );
    // Withdrawn meanwhile: a wait finds nothing.
    ask(&mut pair, "server", SOON).unwrap();
    pair.carry();
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.carry();
    wait_finds_nothing(&mut pair);
}

fn wait_finds_nothing(pair: &mut Pair) {
    pair.hosts[1].events();
    wait(pair, "server", Timespan::INFINITE);
    assert_eq!(pair.hosts[1].events(), []);
}

#[test]
fn a_disconnect_gives_every_descriptor_back_once_in_order_as_flushed() {
    // Case 49, with sends under way; the VI connects again afterwards.
    let mut pair = Pair::connected();
    for cookie in 0..5 {
        pair.post_receive(0, Segments::none(), 10 + cookie);
    }
    for cookie in 0..4 {
        pair.post_send(0, Segments::none(), cookie);
    }
    let (nic, vi) = (&mut pair.hosts[0].nic, pair.vis[0]);
    let works = [(); 3].map(|()| nic.start_send(vi).unwrap().work);
    assert!(nic.finish_send(vi, works[0], SendOutcome::Sent));
    assert!(nic.finish_send(vi, works[2], SendOutcome::Sent));
    nic.disconnect(vi).unwrap();
    assert!(!nic.finish_send(vi, works[1], SendOutcome::Sent), "flushed");
    assert_eq!(pair.states()[0], ViState::Idle);
    let [sends, receives] = pair.drain(0);
    // What had finished keeps its own status.
    assert_eq!(sends, [(0, 0x01), (1, 0x21), (2, 0x01), (3, 0x21)]);
    let flushed: Vec<_> = (10..15).map(|cookie| (cookie, 0x0001_0021)).collect();
    assert_eq!(receives, flushed);
    assert_eq!(pair.send_done(0), Done::Empty);
    assert_eq!(pair.receive_done(0), Done::Empty);
    assert_eq!(pair.hosts[0].events(), []);
    pair.carry();
    pair.hosts[1].nic.disconnect(pair.vis[1]).unwrap();
    pair.connect();
}

#[test]
fn a_peers_disconnect_breaks_the_connection_once() {
    // Case 50.
    let mut pair = Pair::connected();
    pair.post_receive(1, Segments::none(), 1);
    pair.post_send(1, Segments::none(), 2);
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle, ViState::Error]);
    let vi = pair.vis[1];
    assert_eq!(pair.hosts[1].events(), [Event::ConnectionLost { vi }]);
    assert_eq!(pair.hosts[1].nic.peer(vi), None);
    assert_eq!(pair.drain(1), [vec![(2, 0x21)], vec![(1, 0x0001_0021)]]);
    pair.hosts[1].nic.disconnect(vi).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle; 2]);
    assert_eq!(pair.hosts[0].events(), []);
    pair.connect();
}

#[test]
fn both_ends_may_disconnect_at_once() {
    let mut pair = Pair::connected();
    for side in 0..2 {
        pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
    }
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle; 2]);
    assert_eq!(pair.hosts[0].events(), []);
    assert_eq!(pair.hosts[1].events(), []);
    pair.connect();
}

#[test]
fn a_lost_host_breaks_what_leads_to_it() {
    // Case 51: connections are lost, requests to it fail, its own requests are withdrawn.
    let mut pair = Pair::connected();
    let pending = pair.hosts[0].vi();
    let request = pair.request(pending, "other").unwrap();
    pair.hosts[0]
        .nic
        .handle_host_unreachable(HostAddress::new(1));
    pair.hosts[1]
        .nic
        .handle_host_unreachable(HostAddress::new(0));
    let lost = |vi| Event::ConnectionLost { vi };
    let not_reachable = failed(pending, ConnectFailure::NotReachable);
    assert_eq!(pair.hosts[0].events(), [not_reachable, lost(pair.vis[0])]);
    assert_eq!(pair.hosts[1].events(), [lost(pair.vis[1])]);
    assert_eq!(pair.states(), [ViState::Error; 2]);
    assert_eq!(pair.hosts[0].state(pending), ViState::Idle);
    let server = pair.hosts[1].vi();
    let accepted = pair.hosts[1].nic.accept(request, server);
    assert_eq!(accepted, Err(ConnectError::RequestWithdrawn));
}

#[test]
fn descriptors_posted_in_error_come_back_flushed_at_once() {
    // Case 52; a send without a connection too, while receives stay.
    let mut pair = Pair::unconnected();
    pair.post_send(1, Segments::none(), 1);
    assert_eq!(pair.drain(1)[0], [(1, 0x21)]);
    pair.post_receive(1, Segments::none(), 2);
    assert_eq!(pair.receive_done(1), Done::NotDone);
    pair.connect();
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.carry();
    pair.post_send(1, Segments::none(), 3);
    pair.post_receive(1, Segments::none(), 4);
    assert_eq!(
        pair.drain(1),
        [vec![(3, 0x21)], vec![(2, 0x0001_0021), (4, 0x0001_0021)]]
    );
}

#[test]
fn an_idle_vi_is_drained_by_a_disconnect() {
    let mut pair = Pair::unconnected();
    pair.post_receive(0, Segments::none(), 1);
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    assert_eq!(pair.drain(0)[1], [(1, 0x0001_0021)]);
    assert_eq!(pair.receive_done(0), Done::Empty);
    assert_eq!(pair.hosts[0].nic.poll_transmit(), None);
}

#[test]
fn only_an_idle_or_broken_vi_can_be_destroyed_or_changed() {
    // Case 53.
    let mut pair = Pair::unconnected();
    let attributes = pair.hosts[0].attributes();
    ask(&mut pair, "nobody", SOON).unwrap();
    let state = ViState::ConnectPending;
    let nic = &mut pair.hosts[0].nic;
    assert_eq!(
        nic.destroy_vi(pair.vis[0]),
        Err(ViError::InvalidState { state })
    );
    let set = nic.set_vi_attributes(pair.vis[0], attributes);
    assert_eq!(set, Err(ViError::InvalidState { state }));
    pair.carry();
    pair.hosts[0].events();
    pair.connect();
    let state = ViState::Connected;
    let destroyed = pair.hosts[0].nic.destroy_vi(pair.vis[0]);
    assert_eq!(destroyed, Err(ViError::InvalidState { state }));
    pair.post_receive(1, Segments::none(), 1);
    pair.post_send(0, Segments::none(), 1);
    assert_eq!(pair.deliver(0), [], "still works");
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.carry();
    assert_eq!(pair.states()[1], ViState::Error);
    pair.post_receive(1, Segments::none(), 2);
    assert_eq!(
        pair.hosts[1].nic.destroy_vi(pair.vis[1]),
        Ok(()),
        "with descriptors left"
    );
    assert_eq!(
        pair.hosts[1].events(),
        [],
        "nothing is told of a VI that is gone"
    );
    assert_eq!(pair.hosts[0].nic.destroy_vi(pair.vis[0]), Ok(()));
}

#[test]
fn a_message_of_an_earlier_connection_is_not_delivered() {
    let mut pair = Pair::connected();
    pair.post_send(0, Segments::none(), 0);
    let late = pair.hosts[0].nic.start_send(pair.vis[0]).unwrap();
    for side in 0..2 {
        pair.hosts[side].nic.disconnect(pair.vis[side]).unwrap();
    }
    pair.carry();
    let arrive = |pair: &mut Pair| pair.arrive(late.peer, &late.header, &[]).err();
    assert_eq!(arrive(&mut pair), Some(DropReason::NotConnected), "idle");
    pair.post_receive(1, Segments::none(), 1);
    pair.connect();
    assert_eq!(
        arrive(&mut pair),
        Some(DropReason::NotConnected),
        "connected anew"
    );
    assert_eq!(pair.receive_done(1), Done::NotDone);
    pair.drain(0);
    pair.post_send(0, Segments::none(), 2);
    assert_eq!(pair.deliver(0), []);
}

#[test]
fn a_disconnect_of_an_earlier_connection_is_ignored() {
    let mut pair = Pair::connected();
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    let late = pair.hosts[0].nic.poll_transmit().unwrap().message;
    pair.hosts[1].nic.disconnect(pair.vis[1]).unwrap();
    pair.carry();
    pair.connect();
    pair.hosts[1]
        .nic
        .handle_connection_message(HostAddress::new(0), late, pair.now);
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn a_third_host_cannot_answer_or_end_what_is_not_its_own() {
    let mut pair = Pair::unconnected();
    let stranger = HostAddress::new(7);
    wait(&mut pair, "server", Timespan::INFINITE);
    ask(&mut pair, "server", SOON).unwrap();
    let Transmit {
        message: request, ..
    } = pair.hosts[0].nic.poll_transmit().unwrap();
    let ConnectionMessage::Request {
        connection: to,
        attributes,
        ..
    } = request
    else {
        panic!("{request:?}")
    };
    let (client, server) = (pair.vis[0], pair.vis[1]);
    let nic = &mut pair.hosts[0].nic;
    nic.handle_connection_message(stranger, ConnectionMessage::Reject { to }, pair.now);
    nic.handle_connection_message(stranger, ConnectionMessage::NoMatch { to }, pair.now);
    let accept = ConnectionMessage::Accept {
        to,
        vi: server,
        connection: to,
        attributes,
    };
    nic.handle_connection_message(stranger, accept, pair.now);
    assert_eq!(nic.vi_state(client), Some(ViState::ConnectPending));
    let answer = nic.poll_transmit().unwrap();
    let disconnect = ConnectionMessage::Disconnect {
        vi: server,
        connection: to,
    };
    assert_eq!((answer.to, answer.message), (stranger, disconnect));
    // A request that comes twice counts once.
    for _ in 0..2 {
        let from = HostAddress::new(0);
        pair.hosts[1]
            .nic
            .handle_connection_message(from, request.clone(), pair.now);
    }
    let events = pair.hosts[1].events();
    let [Event::ConnectionRequested { request, .. }] = events[..] else {
        panic!("{events:?}")
    };
    pair.hosts[1].nic.accept(request, server).unwrap();
    pair.carry();
    let connection = pair.hosts[0].nic.peer(client).unwrap().connection;
    let disconnect = ConnectionMessage::Disconnect {
        vi: server,
        connection,
    };
    pair.hosts[1]
        .nic
        .handle_connection_message(stranger, disconnect, pair.now);
    assert_eq!(pair.states(), [ViState::Connected; 2]);
}

#[test]
fn two_vis_of_one_nic_connect() {
    let mut pair = Pair::unconnected();
    let host = &mut pair.hosts[0];
    let (client, server) = (host.vi(), host.vi());
    let here = address(0, "here");
    host.nic
        .connect_wait(here.clone(), pair.now, Timespan::INFINITE)
        .unwrap();
    host.nic
        .connect_request(client, address(0, ""), here, pair.now, SOON)
        .unwrap();
    pair.carry();
    let events = pair.hosts[0].events();
    let [Event::ConnectionRequested { request, .. }] = events[..] else {
        panic!("{events:?}")
    };
    // Not with itself: it is not idle.
    let itself = pair.hosts[0].nic.accept(request, client);
    let state = ViState::ConnectPending;
    assert_eq!(itself, Err(ConnectError::InvalidState { state }));
    pair.hosts[0].nic.accept(request, server).unwrap();
    pair.carry();
    let receive = Descriptor::receive(Segments::none(), 1);
    pair.hosts[0].nic.post_receive(server, receive).unwrap();
    let send = Descriptor::send(Segments::none(), 2);
    pair.hosts[0].nic.post_send(client, send).unwrap();
    assert_eq!(pair.deliver_from(0, client), []);
    assert_eq!(
        pair.hosts[0]
            .nic
            .receive_done(server)
            .completion()
            .unwrap()
            .cookie,
        1
    );
}

#[test]
fn an_accept_that_changes_what_was_agreed_is_refused() {
    let mut pair = Pair::unconnected();
    let request = pair.request(pair.vis[0], "server").unwrap();
    pair.hosts[1].nic.accept(request, pair.vis[1]).unwrap();
    let Transmit { message, .. } = pair.hosts[1].nic.poll_transmit().unwrap();
    let ConnectionMessage::Accept {
        to,
        vi,
        connection,
        attributes,
    } = message
    else {
        panic!("{message:?}")
    };
    let attributes = RemoteViAttributes {
        max_transfer_bytes: 1,
        ..attributes
    };
    let message = ConnectionMessage::Accept {
        to,
        vi,
        connection,
        attributes,
    };
    pair.hosts[0]
        .nic
        .handle_connection_message(HostAddress::new(1), message, pair.now);
    pair.carry();
    assert_eq!(pair.states(), [ViState::ConnectPending, ViState::Error]);
    pair.advance_to(milliseconds(20_000));
    assert_eq!(
        pair.hosts[0].events(),
        [failed(pair.vis[0], ConnectFailure::TimedOut)]
    );
}

fn introduced(pair: &mut Pair) -> [Introduction; 2] {
    [0, 1].map(|host| {
        let vi = pair.vis[host];
        let own = HostAddress::new(host as u64);
        pair.hosts[host].nic.introduce(own, vi).unwrap()
    })
}

#[test]
fn introduced_vis_are_connected_as_by_request_and_acceptance() {
    let mut pair = Pair::unconnected();
    let ends = introduced(&mut pair);
    assert_eq!(ends[0].vi(), pair.vis[0]);
    assert_eq!(pair.states(), [ViState::Idle, ViState::Idle]);
    pair.hosts[0].nic.connect_to(&ends[0], &ends[1]).unwrap();
    pair.hosts[1].nic.connect_to(&ends[1], &ends[0]).unwrap();
    assert_eq!(pair.states(), [ViState::Connected, ViState::Connected]);
    for (host, other) in [(0, 1), (1, 0)] {
        let peer = pair.hosts[host].nic.peer(pair.vis[host]).unwrap();
        assert_eq!(peer.vi, pair.vis[other]);
        assert_eq!(peer.host, HostAddress::new(other as u64));
        assert_eq!(pair.hosts[host].events(), []);
        assert!(pair.hosts[host].nic.poll_transmit().is_none());
    }
    pair.hosts[0].nic.disconnect(pair.vis[0]).unwrap();
    pair.carry();
    assert_eq!(pair.states(), [ViState::Idle, ViState::Error]);
}

#[test]
fn only_idle_vis_that_fit_each_other_are_introduced() {
    let mut pair = Pair::unconnected();
    let reliable = ViAttributes {
        reliability: ReliabilityLevel::ReliableDelivery,
        ..pair.hosts[1].attributes()
    };
    let vi = pair.vis[1];
    pair.hosts[1].nic.set_vi_attributes(vi, reliable).unwrap();
    let ends = introduced(&mut pair);
    let refused = pair.hosts[0].nic.connect_to(&ends[0], &ends[1]);
    let remote = ReliabilityLevel::ReliableDelivery;
    assert_eq!(refused, Err(ConnectError::ReliabilityDiffers { remote }));
    let mut pair = Pair::connected();
    let (vi, own) = (pair.vis[0], HostAddress::new(0));
    let state = ViState::Connected;
    let refused = pair.hosts[0].nic.introduce(own, vi);
    assert_eq!(refused, Err(ConnectError::InvalidState { state }));
}
