//! Two managers meet by sockets alone, in one process as in two.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use viaduct_processes::deadline::Deadline;
use viaduct_processes::rendezvous::{self, Place};

use super::calls::{datagram_status, reason};
use super::channel::{Channel, Event, EventKind, EventParameters};
use super::wire::{Message, Request};
use super::*;

/// A manager as a process has one, with a channel.
struct Host {
    manager: &'static Manager,
    channel: Arc<Channel>,
}

impl Host {
    fn new() -> Self {
        Self {
            manager: Box::leak(Box::new(Manager::new().unwrap())),
            channel: Arc::new(Channel::new().unwrap()),
        }
    }

    fn endpoint(&self) -> EndpointNumber {
        self.manager.create(&self.channel, 1, Space::Tcp, false)
    }

    fn datagram_endpoint(&self) -> EndpointNumber {
        self.manager.create(&self.channel, 1, Space::Udp, true)
    }

    fn has_event(&self, limit: Duration) -> bool {
        // SAFETY: the channel lives longer.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.channel.descriptor()) };
        let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
        let limit = Timespec::try_from(limit).unwrap();
        rustix::event::poll(&mut descriptors, Some(&limit)).unwrap() > 0
    }

    fn event(&self) -> Event {
        loop {
            assert!(self.has_event(Duration::from_secs(20)), "no event comes");
            // SAFETY: the channel lives longer.
            let descriptor = unsafe { BorrowedFd::borrow_raw(self.channel.descriptor()) };
            rustix::io::read(descriptor, &mut [0_u8; 8]).unwrap();
            if let Some(event) = self.manager.take(&self.channel) {
                return event;
            }
        }
    }

    fn expect(&self, number: EndpointNumber, kind: EventKind, status: i32) -> EventParameters {
        let event = self.event();
        let found = (event.endpoint, event.kind, event.status);
        assert_eq!(found, (number, kind, status));
        event.parameters
    }

    fn listener(&self, at: &str) -> (EndpointNumber, SocketAddr) {
        let number = self.endpoint();
        let at = self.manager.bind(number, at.parse().unwrap()).unwrap();
        self.manager.listen(number, 0).unwrap();
        (number, at)
    }

    fn resolved(&self, number: EndpointNumber, to: SocketAddr) {
        self.manager.resolve_address(number, None, to).unwrap();
        self.expect(number, EventKind::AddressResolved, 0);
        self.manager.resolve_route(number).unwrap();
        self.expect(number, EventKind::RouteResolved, 0);
    }

    fn connecting(&self, to: SocketAddr, said: &str) -> EndpointNumber {
        let number = self.endpoint();
        self.resolved(number, to);
        self.manager
            .connect(number, side(1), parameters(said))
            .unwrap();
        number
    }

    fn request(&self, listener: EndpointNumber) -> (EndpointNumber, EventParameters) {
        let event = self.event();
        assert_eq!(
            (event.endpoint, event.kind),
            (listener, EventKind::ConnectRequest)
        );
        let newcomer = event.newcomer.unwrap();
        self.manager.adopt(newcomer, 2).unwrap();
        (newcomer, event.parameters)
    }
}

fn side(number: u32) -> Side {
    Side {
        gid: [number as u8; 16],
        lid: 0,
        mtu: 5,
        packet_number: number,
        queue_key: 0x0123_4567,
    }
}

fn parameters(said: &str) -> Parameters {
    Parameters {
        queue_pair: 77,
        responder_resources: 3,
        initiator_depth: 5,
        retry_count: 6,
        rnr_retry_count: 7,
        private_data: said.as_bytes().to_vec(),
        ..Parameters::default()
    }
}

fn said(parameters: EventParameters) -> Parameters {
    match parameters {
        EventParameters::Connection(parameters) | EventParameters::Datagram { parameters, .. } => {
            parameters
        }
        other => panic!("nothing was said: {other:?}"),
    }
}

/// Both ends of an established connection.
fn connected(client: &Host, server: &Host) -> (EndpointNumber, EndpointNumber, EndpointNumber) {
    let (listener, at) = server.listener("127.0.0.1:0");
    let active = client.connecting(at, "");
    let (passive, _) = server.request(listener);
    server
        .manager
        .accept(passive, side(2), parameters(""))
        .unwrap();
    client.expect(active, EventKind::ConnectResponse, 0);
    client.manager.ready(active).unwrap();
    server.expect(passive, EventKind::Established, 0);
    (active, passive, listener)
}

#[test]
fn both_sides_learn_what_the_other_said() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let active = client.connecting(at, "hello");
    let (passive, asked) = server.request(listener);
    let asked = said(asked);
    assert_eq!((asked.responder_resources, asked.initiator_depth), (5, 3));
    assert_eq!((asked.queue_pair, asked.retry_count), (77, 6));
    assert_eq!(asked.private_data.len(), 56);
    assert!(asked.private_data.starts_with(b"hello\0\0"));
    let ends = server.manager.ends(passive).unwrap();
    assert_eq!(ends.remote, Some(side(1)));
    assert_eq!(ends.source, Some(at));
    assert_eq!(
        ends.destination,
        client.manager.ends(active).unwrap().source
    );
    server
        .manager
        .accept(passive, side(2), parameters("welcome"))
        .unwrap();
    let answer = said(client.expect(active, EventKind::ConnectResponse, 0));
    assert_eq!(answer.private_data.len(), 196);
    assert!(answer.private_data.starts_with(b"welcome\0"));
    assert_eq!(client.manager.ends(active).unwrap().remote, Some(side(2)));
    client.manager.ready(active).unwrap();
    server.expect(passive, EventKind::Established, 0);
    assert_eq!(client.manager.ready(active), Err(Refusal(libc::EINVAL)));
}

#[test]
fn both_sides_are_told_of_an_end_once() {
    let (client, server) = (Host::new(), Host::new());
    let (active, passive, _) = connected(&client, &server);
    client.manager.disconnect(active).unwrap();
    client.expect(active, EventKind::Disconnected, 0);
    server.expect(passive, EventKind::Disconnected, 0);
    server.manager.disconnect(passive).unwrap();
    for (host, number) in [(&client, active), (&server, passive)] {
        host.manager.destroy(number).unwrap();
        assert!(!host.has_event(Duration::ZERO));
    }
}

#[test]
fn both_may_end_at_once() {
    let (client, server) = (Host::new(), Host::new());
    let (active, passive, _) = connected(&client, &server);
    client.manager.disconnect(active).unwrap();
    server.manager.disconnect(passive).unwrap();
    client.expect(active, EventKind::Disconnected, 0);
    server.expect(passive, EventKind::Disconnected, 0);
}

#[test]
fn a_destroyed_end_is_a_disconnected_one_for_its_peer() {
    let (client, server) = (Host::new(), Host::new());
    let (active, passive, _) = connected(&client, &server);
    server.manager.destroy(passive).unwrap();
    client.expect(active, EventKind::Disconnected, 0);
}

#[test]
fn a_rejected_request_says_why() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let active = client.connecting(at, "");
    let (passive, _) = server.request(listener);
    server
        .manager
        .reject(passive, reason::ECE_NOT_SUPPORTED, b"no".to_vec())
        .unwrap();
    let why = said(client.expect(active, EventKind::Rejected, 35));
    assert_eq!(why.private_data.len(), 148);
    assert!(why.private_data.starts_with(b"no\0"));
    assert_eq!(
        server.manager.accept(passive, side(2), parameters("")),
        Err(Refusal(libc::EINVAL))
    );
}

#[test]
fn a_request_that_is_destroyed_is_rejected() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let active = client.connecting(at, "");
    let (passive, _) = server.request(listener);
    server.manager.destroy(passive).unwrap();
    client.expect(active, EventKind::Rejected, reason::CONSUMER_DEFINED as i32);
}

#[test]
fn who_gives_up_before_the_answer_is_not_accepted() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let active = client.connecting(at, "");
    let (passive, _) = server.request(listener);
    client.manager.destroy(active).unwrap();
    // The thread hears it at some time; a connection that was accepted before is rejected after.
    if server
        .manager
        .accept(passive, side(2), parameters(""))
        .is_ok()
    {
        let event = server.event();
        assert!(matches!(
            event.kind,
            EventKind::Rejected | EventKind::Unreachable
        ));
    }
}

#[test]
fn where_nobody_listens_a_request_is_rejected() {
    let (client, server) = (Host::new(), Host::new());
    let bound = server.endpoint();
    let at = server
        .manager
        .bind(bound, "127.0.0.1:0".parse().unwrap())
        .unwrap();
    let only_bound = client.connecting(at, "");
    client.expect(
        only_bound,
        EventKind::Rejected,
        reason::NOBODY_LISTENS as i32,
    );
    server.manager.destroy(bound).unwrap();
    let free = client.connecting(at, "");
    client.expect(free, EventKind::Rejected, reason::NOBODY_LISTENS as i32);
    assert_eq!(
        client.manager.connect(free, side(1), parameters("")),
        Err(Refusal(libc::EINVAL))
    );
}

#[test]
fn who_listens_a_moment_later_is_found() {
    let (client, server) = (Host::new(), Host::new());
    let (first, at) = server.listener("127.0.0.1:0");
    // On a machine that is too busy the moment may be over before.
    let is_found = (0..20).any(|_| {
        server.manager.destroy(first).ok();
        let active = client.connecting(at, "");
        let listener = server.endpoint();
        server.manager.bind(listener, at).unwrap();
        server.manager.listen(listener, 0).unwrap();
        let is_found = server.has_event(Duration::from_secs(2));
        server.manager.destroy(listener).unwrap();
        client.manager.destroy(active).unwrap();
        is_found
    });
    assert!(is_found);
}

#[test]
fn who_has_bound_and_listens_a_moment_later_is_found() {
    let (client, server) = (Host::new(), Host::new());
    // On a machine that is too busy the moment may be over before.
    let is_found = (0..20).any(|_| {
        let listener = server.endpoint();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let at = server.manager.bind(listener, any).unwrap();
        let active = client.connecting(at, "");
        let is_told = client.has_event(Duration::from_millis(50));
        server.manager.listen(listener, 0).unwrap();
        let is_found = server.has_event(Duration::from_secs(2));
        server.manager.destroy(listener).unwrap();
        client.manager.destroy(active).unwrap();
        !is_told && is_found
    });
    assert!(is_found);
}

#[test]
fn an_address_of_another_machine_is_out_of_reach() {
    let client = Host::new();
    let number = client.endpoint();
    // An address that is kept for documents.
    let there = "192.0.2.9:7471".parse().unwrap();
    client.manager.resolve_address(number, None, there).unwrap();
    let event = client.event();
    assert_eq!(event.kind, EventKind::AddressError);
    assert!(event.status < 0, "{}", event.status);
    // It may be resolved again.
    client.resolved(number, "127.0.0.1:7471".parse().unwrap());
}

#[test]
fn a_port_is_taken_while_it_is_bound_and_free_at_once_after() {
    let (one, other) = (Host::new(), Host::new());
    for ip in ["127.0.0.1", "0.0.0.0", "127.0.0.9", "[::1]", "[::]"] {
        let (listener, at) = one.listener(&format!("{ip}:0"));
        assert!((32768..=60999).contains(&at.port()));
        let number = other.endpoint();
        let refused = other.manager.bind(number, at).unwrap_err();
        assert_eq!(refused, Refusal(libc::EADDRINUSE), "{ip}");
        // Where the any-address is bound, the loopback is, and the other way round.
        let related = match ip {
            "0.0.0.0" => Some("127.0.0.1"),
            "127.0.0.1" => Some("0.0.0.0"),
            "[::]" => Some("127.0.0.1"),
            _ => None,
        };
        if let Some(related) = related {
            let related = format!("{related}:{}", at.port()).parse().unwrap();
            let refused = other.manager.bind(number, related).unwrap_err();
            assert_eq!(refused, Refusal(libc::EADDRINUSE), "{ip} {related}");
        }
        one.manager.destroy(listener).unwrap();
        other.manager.bind(number, at).unwrap();
        other.manager.destroy(number).unwrap();
    }
}

#[test]
fn ports_of_different_spaces_and_addresses_are_different() {
    let (one, other) = (Host::new(), Host::new());
    let (_, at) = one.listener("127.0.0.1:0");
    let datagrams = other.datagram_endpoint();
    other.manager.bind(datagrams, at).unwrap();
    let elsewhere: SocketAddr = format!("127.0.0.2:{}", at.port()).parse().unwrap();
    let number = other.endpoint();
    other.manager.bind(number, elsewhere).unwrap();
    other.manager.listen(number, 0).unwrap();
    let client = Host::new();
    client.connecting(elsewhere, "to the other");
    let (_, asked) = other.request(number);
    assert!(said(asked).private_data.starts_with(b"to the other"));
}

#[test]
fn a_listener_on_the_any_address_hears_all() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("0.0.0.0:0");
    let (both, at_both) = server.listener("[::]:0");
    for ip in ["127.0.0.1", "127.9.9.9", "0.0.0.0"] {
        for (listener, port) in [(listener, at.port()), (both, at_both.port())] {
            let to: SocketAddr = format!("{ip}:{port}").parse().unwrap();
            client.connecting(to, ip);
            let (passive, asked) = server.request(listener);
            assert!(said(asked).private_data.starts_with(ip.as_bytes()));
            let source = server.manager.ends(passive).unwrap().source.unwrap();
            assert!(source.ip().is_loopback(), "{source}");
        }
    }
    let to: SocketAddr = format!("[::1]:{}", at_both.port()).parse().unwrap();
    client.connecting(to, "six");
    server.request(both);
    let to: SocketAddr = format!("[::1]:{}", at.port()).parse().unwrap();
    let refused = client.connecting(to, "six");
    client.expect(refused, EventKind::Rejected, reason::NOBODY_LISTENS as i32);
}

#[test]
fn a_listener_of_one_family_does_not_hear_the_other() {
    let (client, server) = (Host::new(), Host::new());
    let listener = server.endpoint();
    server.manager.hear_one_family(listener, true).unwrap();
    let at = server
        .manager
        .bind(listener, "[::]:0".parse().unwrap())
        .unwrap();
    server.manager.listen(listener, 0).unwrap();
    let to: SocketAddr = format!("127.0.0.1:{}", at.port()).parse().unwrap();
    let refused = client.connecting(to, "");
    client.expect(refused, EventKind::Rejected, reason::NOBODY_LISTENS as i32);
}

#[test]
fn ports_that_all_share_are_bound_twice_and_heard_once() {
    let server = Host::new();
    let numbers = [server.endpoint(), server.endpoint()];
    let mut at = "127.0.0.1:0".parse().unwrap();
    for number in numbers {
        server.manager.reuse_port(number, true).unwrap();
        at = server.manager.bind(number, at).unwrap();
    }
    server.manager.listen(numbers[0], 0).unwrap();
    let refused = server.manager.listen(numbers[1], 0).unwrap_err();
    assert_eq!(refused, Refusal(libc::EADDRINUSE));
    // It is bound as long as one of them lives.
    server.manager.destroy(numbers[0]).unwrap();
    let stranger = server.endpoint();
    assert_eq!(
        server.manager.bind(stranger, at),
        Err(Refusal(libc::EADDRINUSE))
    );
    server.manager.listen(numbers[1], 0).unwrap();
}

#[test]
fn requests_beyond_the_backlog_are_rejected() {
    let (client, server) = (Host::new(), Host::new());
    let listener = server.endpoint();
    let at = server
        .manager
        .bind(listener, "127.0.0.1:0".parse().unwrap())
        .unwrap();
    server.manager.listen(listener, 2).unwrap();
    client.connecting(at, "first");
    client.connecting(at, "second");
    let third = client.connecting(at, "third");
    client.expect(third, EventKind::Rejected, reason::CONSUMER_DEFINED as i32);
    server.request(listener);
    client.connecting(at, "fourth");
    server.request(listener);
    let (_, asked) = server.request(listener);
    assert!(said(asked).private_data.starts_with(b"fourth"));
}

#[test]
fn a_destroyed_listener_rejects_who_waits_and_its_channel_is_empty() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let numbers = [client.connecting(at, ""), client.connecting(at, "")];
    assert!(server.has_event(Duration::from_secs(20)));
    assert_eq!(server.manager.destroy(listener), Ok(0));
    for number in numbers {
        let event = client.event();
        assert!(matches!(
            event.kind,
            EventKind::Rejected | EventKind::Unreachable
        ));
        assert!(numbers.contains(&event.endpoint), "{number:?}");
    }
    assert!(!server.has_event(Duration::ZERO));
}

#[test]
fn events_are_counted_and_move_with_their_endpoint() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    client.connecting(at, "first");
    let (_, _) = server.request(listener);
    client.connecting(at, "second");
    assert!(server.has_event(Duration::from_secs(20)));
    let elsewhere = Host {
        manager: server.manager,
        channel: Arc::new(Channel::new().unwrap()),
    };
    let moved = server.manager.migrate(listener, &elsewhere.channel);
    assert_eq!(moved, Ok(1));
    assert!(!server.has_event(Duration::ZERO));
    let (_, asked) = elsewhere.request(listener);
    assert!(said(asked).private_data.starts_with(b"second"));
    assert_eq!(server.manager.destroy(listener), Ok(2));
}

#[test]
fn datagrams_learn_number_and_key_or_why_not() {
    let (client, server) = (Host::new(), Host::new());
    let listener = server.datagram_endpoint();
    let at = server
        .manager
        .bind(listener, "127.0.0.1:0".parse().unwrap())
        .unwrap();
    let ask = |said| {
        let active = client.datagram_endpoint();
        client.resolved(active, at);
        client
            .manager
            .connect(active, side(1), parameters(said))
            .unwrap();
        active
    };
    let active = ask("");
    let status = datagram_status::NOBODY_LISTENS as i32;
    client.expect(active, EventKind::Unreachable, status);
    server.manager.listen(listener, 0).unwrap();

    let active = ask("which?");
    let (passive, asked) = server.request(listener);
    assert_eq!(said(asked).private_data.len(), 180);
    server
        .manager
        .accept(passive, side(2), parameters("this"))
        .unwrap();
    let answer = client.expect(active, EventKind::Established, 0);
    let EventParameters::Datagram {
        parameters,
        queue_key,
    } = answer
    else {
        panic!("{answer:?}");
    };
    assert_eq!((parameters.queue_pair, queue_key), (77, 0x0123_4567));
    assert_eq!(parameters.private_data.len(), 136);
    assert!(parameters.private_data.starts_with(b"this\0"));
    assert_eq!(client.manager.ends(active).unwrap().remote, Some(side(2)));

    let active = ask("");
    let (passive, _) = server.request(listener);
    server
        .manager
        .reject(passive, reason::CONSUMER_DEFINED, Vec::new())
        .unwrap();
    client.expect(
        active,
        EventKind::Unreachable,
        datagram_status::REJECTED as i32,
    );
}

#[test]
fn more_private_data_than_fits_is_refused() {
    let (client, server) = (Host::new(), Host::new());
    let (_, at) = server.listener("127.0.0.1:0");
    let number = client.endpoint();
    client.resolved(number, at);
    let refused = client
        .manager
        .connect(number, side(1), parameters(&"x".repeat(57)));
    assert_eq!(refused, Err(Refusal(libc::EINVAL)));
    client
        .manager
        .connect(number, side(1), parameters(&"x".repeat(56)))
        .unwrap();
}

#[test]
fn calls_in_the_wrong_state_are_refused() {
    let host = Host::new();
    let invalid = Err(Refusal(libc::EINVAL));
    let number = host.endpoint();
    assert_eq!(host.manager.resolve_route(number), invalid);
    assert_eq!(
        host.manager.connect(number, side(1), parameters("")),
        invalid
    );
    assert_eq!(
        host.manager.accept(number, side(1), parameters("")),
        invalid
    );
    assert_eq!(host.manager.reject(number, 28, Vec::new()), invalid);
    assert_eq!(host.manager.disconnect(number), invalid);
    assert_eq!(host.manager.establish_early(number), invalid);
    assert_eq!(
        host.manager.bind(number, "192.0.2.1:0".parse().unwrap()),
        Err(Refusal(libc::EADDRNOTAVAIL))
    );
    let at = host
        .manager
        .bind(number, "127.0.0.1:0".parse().unwrap())
        .unwrap();
    assert_eq!(host.manager.bind(number, at).map(drop), invalid);
    assert_eq!(
        host.manager
            .resolve_address(number, None, "[::1]:1".parse().unwrap()),
        invalid
    );
    host.manager.listen(number, 0).unwrap();
    assert_eq!(host.manager.listen(number, 0).map(drop), invalid);
    assert_eq!(host.manager.resolve_address(number, None, at), invalid);
    host.manager.destroy(number).unwrap();
    assert_eq!(host.manager.destroy(number).map(drop), invalid);
}

#[test]
fn a_connection_may_be_taken_as_established_early() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let active = client.connecting(at, "");
    let (passive, _) = server.request(listener);
    server
        .manager
        .accept(passive, side(2), parameters(""))
        .unwrap();
    server.manager.establish_early(passive).unwrap();
    server.expect(passive, EventKind::Established, 0);
    assert_eq!(
        server.manager.establish_early(passive),
        Err(Refusal(libc::EISCONN))
    );
    client.expect(active, EventKind::ConnectResponse, 0);
    client.manager.ready(active).unwrap();
    client.manager.disconnect(active).unwrap();
    server.expect(passive, EventKind::Disconnected, 0);
}

/// A socket to whoever listens there, as a stranger would open one.
fn stranger(host: &Host, at: SocketAddr) -> OwnedFd {
    let name = host.manager.ports.names(Space::Tcp, at)[0];
    let deadline = Deadline::after(Some(Duration::from_secs(20)));
    let place = Place::from_environment();
    rendezvous::connect(&place, name, deadline, || false)
        .unwrap()
        .unwrap()
}

fn is_closed(socket: &OwnedFd) -> bool {
    let mut descriptors = [PollFd::new(socket, PollFlags::IN)];
    let limit = Timespec::try_from(Duration::from_secs(20)).unwrap();
    assert!(rustix::event::poll(&mut descriptors, Some(&limit)).unwrap() > 0);
    matches!(world::hear(socket), world::Heard::End)
}

#[test]
fn strangers_who_say_garbage_are_shown_out_and_harm_nobody() {
    let (client, server) = (Host::new(), Host::new());
    let (listener, at) = server.listener("127.0.0.1:0");
    let lie = |destination: &str, space| {
        Message::Request(Box::new(Request {
            space,
            is_datagram: false,
            source: "127.0.0.1:1".parse().unwrap(),
            destination: destination.parse().unwrap(),
            side: side(1),
            parameters: parameters(""),
        }))
        .encode()
    };
    let other_port = format!("127.0.0.1:{}", at.port() ^ 1);
    let other_ip = format!("127.0.0.2:{}", at.port());
    let packets = [
        vec![0],
        vec![0xff; 4096],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        Message::Ready.encode(),
        Message::Disconnect.encode(),
        Message::Response {
            side: side(1),
            parameters: parameters(""),
        }
        .encode(),
        lie(&other_port, Space::Tcp),
        lie(&other_ip, Space::Tcp),
        lie(&at.to_string(), Space::Udp),
    ];
    for packet in &packets {
        let socket = stranger(&server, at);
        rustix::net::send(&socket, packet, rustix::net::SendFlags::NOSIGNAL).unwrap();
        assert!(is_closed(&socket), "{packet:?}");
    }
    // Some say nothing and stay; some say garbage when a connection is under way.
    let silent: Vec<_> = (0..300).map(|_| stranger(&server, at)).collect();
    let asking = stranger(&server, at);
    let request = lie(&at.to_string(), Space::Tcp);
    rustix::net::send(&asking, &request, rustix::net::SendFlags::NOSIGNAL).unwrap();
    let (passive, _) = server.request(listener);
    server
        .manager
        .accept(passive, side(2), parameters(""))
        .unwrap();
    rustix::net::send(&asking, &[1, 2, 3], rustix::net::SendFlags::NOSIGNAL).unwrap();
    server.expect(passive, EventKind::Unreachable, -libc::ETIMEDOUT);
    let active = client.connecting(at, "honest");
    let (passive, asked) = server.request(listener);
    assert!(said(asked).private_data.starts_with(b"honest"));
    server
        .manager
        .accept(passive, side(2), parameters(""))
        .unwrap();
    client.expect(active, EventKind::ConnectResponse, 0);
    drop(silent);
}

#[test]
fn a_server_that_says_garbage_is_out_of_reach() {
    let client = Host::new();
    let at: SocketAddr = "127.0.0.1:61717".parse().unwrap();
    let name = client.manager.ports.names(Space::Tcp, at)[0];
    let liar = rendezvous::Listener::bind(&Place::from_environment(), name).unwrap();
    for packet in [vec![9; 600], Message::Ready.encode(), vec![1]] {
        let active = client.connecting(at, "");
        let socket = liar.accept().unwrap().unwrap();
        rustix::net::send(&socket, &packet, rustix::net::SendFlags::NOSIGNAL).unwrap();
        client.expect(active, EventKind::Unreachable, -libc::ETIMEDOUT);
    }
    // One that closes says nothing at all.
    let active = client.connecting(at, "");
    drop(liar.accept().unwrap().unwrap());
    client.expect(active, EventKind::Unreachable, -libc::ETIMEDOUT);
}
