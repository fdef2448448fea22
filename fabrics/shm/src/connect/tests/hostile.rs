//! Peers that do not keep to the rules.

use std::os::fd::AsFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use viaduct_provider::via::ConnectFailure;

use super::*;
use crate::rendezvous::Listener;
use crate::segment::Segment;
use crate::wire::{self, Accept, Process};

fn raw_socket(address: &Address) -> OwnedFd {
    let limit = Deadline::after(SOON);
    let started = Instant::now();
    loop {
        let name = meeting::server(address);
        if let Some(socket) = rendezvous::connect(&place(), name, limit, || false).unwrap() {
            return socket;
        }
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
}

fn next(socket: &OwnedFd) -> (Handshake, Vec<OwnedFd>) {
    let started = Instant::now();
    loop {
        if let Some(heard) = handshake::hear(socket).unwrap() {
            return heard;
        }
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
}

fn wait_for_the_end(socket: &OwnedFd) {
    let started = Instant::now();
    loop {
        match wire::receive(socket.as_fd(), &mut [0; wire::MESSAGE_BYTES_MAX]) {
            Ok(received) if received.length == 0 => return,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
            _ => {}
        }
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
}

/// A client in this process that speaks byte by byte.
struct RawClient {
    link: OwnedFd,
    accept: Accept,
}

impl RawClient {
    /// Connects to `vi` over a link of its own.
    fn connect(server: &'static Host, vi: &Arc<TestVi>, discriminator: &str) -> Self {
        let address = at(server, discriminator);
        thread::scope(|scope| {
            scope.spawn(|| {
                let incoming = server.connect_wait(1, &address, SOON).unwrap();
                let accepted = server.connect_accept(incoming.connection, &vi.handle());
                accepted.unwrap();
            });
            let link = raw_socket(&address);
            handshake::say(&link, &raw_request(&address)).unwrap();
            assert_eq!(next(&link).0, Handshake::Taken);
            let (message, descriptors) = next(&link);
            let Handshake::Accept(accept) = message else {
                panic!("{message:?}");
            };
            assert!(accept.new_link && descriptors.len() == 3);
            let doorbells = Segment::create("viaduct-test", 4096).unwrap();
            let established = Handshake::Established {
                key: accept.key,
                trusted: true,
            };
            let packet = established.packet();
            wire::send(link.as_fd(), packet.bytes(), &[doorbells.fd()]).unwrap();
            Self { link, accept }
        })
    }

    fn say(&self, message: &LinkMessage) {
        wire::send(self.link.as_fd(), message.packet().bytes(), &[]).unwrap();
    }
}

fn raw_request(address: &Address) -> Handshake {
    let vi = TestVi::new(9);
    Handshake::Request(Request {
        peer_to_peer: false,
        process: Process {
            nonce: crate::host::random().unwrap(),
            nonce_address: 16,
            protected: false,
        },
        end: vi.local_end().facts(),
        local: address.clone(),
        remote: address.clone(),
    })
}

#[test]
fn garbage_on_a_link_ends_that_link_alone() {
    let server = host();
    let bystander = (TestVi::new(1), TestVi::new(2));
    connect((server, &bystander.0), (server, &bystander.1), "bystander");
    let memory = Segment::create("viaduct-test", 4096).unwrap();
    let unsealed = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let bytes = |message: LinkMessage| message.packet().bytes().to_vec();
    let segment = |length| bytes(LinkMessage::Segment { id: 1, length });
    let chunk = |index| bytes(LinkMessage::Chunk { index });
    let attacks = [
        (vec![], vec![]),
        (vec![0; 17], vec![]),
        (vec![1; wire::MESSAGE_BYTES_MAX + 1], vec![]),
        (bytes(LinkMessage::Kick { channel: 0 }), vec![memory.fd()]),
        (segment(4096), vec![memory.fd(), memory.fd()]),
        (segment(4096), vec![unsealed.as_fd()]),
        (segment(1 << 60), vec![memory.fd()]),
        (segment(0), vec![memory.fd()]),
        (chunk(1), vec![]),
        (chunk(0), vec![memory.fd()]),
        (bytes(LinkMessage::Regions { nic: 1 }), vec![memory.fd()]),
    ];
    for (index, (bytes, descriptors)) in attacks.into_iter().enumerate() {
        let victim = TestVi::new(3);
        let client = RawClient::connect(server, &victim, "garbage");
        wire::send(client.link.as_fd(), &bytes, &descriptors).unwrap();
        victim.wait_until(|state| state.closed.len() == 1);
        let expected = match bytes[..] {
            // An empty packet looks like the end of the stream.
            [] => CloseReason::Died,
            _ => CloseReason::Misbehaved,
        };
        let reason = locked(&victim.state).closed[0].1;
        assert_eq!(reason, expected, "attack {index}");
        wait_for_the_end(&client.link);
        victim.disconnect();
    }
    assert!(bystander.0.end().0.is_alive() && bystander.1.end().0.is_alive());
    assert!(locked(&bystander.0.state).closed.is_empty());
    assert_eq!(server.links().len(), 2);
}

#[test]
fn messages_about_nothing_are_harmless() {
    let server = host();
    let victim = TestVi::new(1);
    let client = RawClient::connect(server, &victim, "about nothing");
    let connection = client.accept.connection;
    let close = |channel, connection, reason| LinkMessage::Close {
        channel,
        connection,
        reason,
    };
    let acknowledge = |channel| LinkMessage::CloseAck {
        channel,
        connection,
    };
    let event = |channel, code| LinkMessage::Event {
        channel,
        code,
        operation: 8,
    };
    for channel in [1, 2, 3, 127, 128, 1 << 20, u32::MAX] {
        client.say(&close(channel, connection, CloseReason::Died));
        client.say(&acknowledge(channel));
        client.say(&LinkMessage::Kick { channel });
        client.say(&event(channel, 1));
        client.say(&LinkMessage::SegmentGone { id: channel });
        client.say(&LinkMessage::RegionsGone { nic: 1 });
        // A descriptor may be lost on the way.
        client.say(&LinkMessage::Regions { nic: 1 });
        client.say(&LinkMessage::Segment {
            id: channel,
            length: 4096,
        });
    }
    // Other connections of the right channel, and an acknowledgement of nothing.
    let channel = client.accept.channel;
    for other in [connection - 1, connection + 1, 0] {
        client.say(&close(channel, other, CloseReason::Died));
    }
    client.say(&acknowledge(channel));
    client.say(&event(channel, 7));
    victim.wait_until(|state| state.events == [(7, 8)]);
    assert!(locked(&victim.state).closed.is_empty());
    client.say(&close(channel, connection, CloseReason::Broken));
    client.say(&close(channel, connection, CloseReason::Broken));
    victim.wait_until(|state| state.closed == [(connection, CloseReason::Broken)]);
}

#[test]
fn a_flood_harms_nobody_else() {
    let server = host();
    let victim = TestVi::new(1);
    let client = RawClient::connect(server, &victim, "flood");
    let pair = (TestVi::new(2), TestVi::new(3));
    let other = host();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let kick = LinkMessage::Kick { channel: 0 }.packet();
            while !stop.load(Ordering::Relaxed) {
                let _ = wire::send(client.link.as_fd(), kick.bytes(), &[]);
            }
        });
        for _ in 0..20 {
            connect((other, &pair.0), (server, &pair.1), "beside the flood");
            pair.0.disconnect();
            pair.1.wait_until(|state| !state.closed.is_empty());
            pair.1.disconnect();
            locked(&pair.1.state).closed.clear();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(victim.end().0.is_alive());
}

#[test]
fn a_peer_that_asks_for_answers_and_takes_none_loses_its_link() {
    // Goal: what waits for a peer that never reads does not grow for ever.
    let server = host();
    let victim = TestVi::new(1);
    let client = RawClient::connect(server, &victim, "no answers");
    let close = LinkMessage::Close {
        channel: 1,
        connection: 1,
        reason: CloseReason::Disconnected,
    };
    let packet = close.packet();
    let started = Instant::now();
    while locked(&victim.state).closed.is_empty() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the queue still grows"
        );
        let _ = wire::send(client.link.as_fd(), packet.bytes(), &[]);
    }
}

#[test]
fn bad_requests_do_not_reach_the_program() {
    let server = host();
    let address = at(server, "bad requests");
    let elsewhere = at(server, "elsewhere");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.connect_wait(1, &address, SOON).unwrap());
        // Silent ones, more than there is room for; they stay.
        let silent: Vec<_> = (0..150).map(|_| raw_socket(&address)).collect();
        let garbage = raw_socket(&address);
        wire::send(garbage.as_fd(), &[32, 1, 0, 0, 0, 9], &[]).unwrap();
        let early = raw_socket(&address);
        handshake::say(&early, &Handshake::Taken).unwrap();
        let other = raw_socket(&address);
        handshake::say(&other, &raw_request(&elsewhere)).unwrap();
        let mut asked = raw_request(&address);
        // This one leaves at once.
        handshake::say(&raw_socket(&address), &asked).unwrap();
        let peer = raw_socket(&address);
        if let Handshake::Request(request) = &mut asked {
            request.peer_to_peer = true;
        }
        handshake::say(&peer, &asked).unwrap();
        assert_eq!(next(&other).0, Handshake::NoMatch);
        assert_eq!(next(&peer).0, Handshake::NoMatch);
        wait_for_the_end(&garbage);
        wait_for_the_end(&early);
        assert!(!waiting.is_finished());
        let asking = scope.spawn(|| code(request(server, &TestVi::new(1), &address)));
        let incoming = waiting.join().unwrap();
        server.connect_reject(incoming.connection).unwrap();
        assert_eq!(asking.join().unwrap(), ReturnCode::Reject);
        drop(silent);
    });
}

#[test]
fn a_client_that_answers_nonsense_is_not_connected() {
    let server = host();
    let address = at(server, "nonsense");
    let not_memory = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let established = |key| Handshake::Established { key, trusted: true };
    for answer in 0..6 {
        let vi = TestVi::new(1);
        thread::scope(|scope| {
            let accepting = scope.spawn(|| {
                let incoming = server.connect_wait(1, &address, SOON).unwrap();
                server.connect_accept(incoming.connection, &vi.handle())
            });
            let socket = raw_socket(&address);
            handshake::say(&socket, &raw_request(&address)).unwrap();
            assert_eq!(next(&socket).0, Handshake::Taken);
            let Handshake::Accept(accept) = next(&socket).0 else {
                panic!("no accept");
            };
            match answer {
                0 => handshake::say(&socket, &Handshake::LinkGone).unwrap(),
                1 => handshake::say(&socket, &established(!accept.key)).unwrap(),
                // Without its doorbells, or with something else.
                2 => handshake::say(&socket, &established(accept.key)).unwrap(),
                3 => {
                    let packet = established(accept.key).packet();
                    wire::send(socket.as_fd(), packet.bytes(), &[not_memory.as_fd()]).unwrap();
                }
                4 => wire::send(socket.as_fd(), b"nonsense", &[]).unwrap(),
                _ => drop(socket),
            }
            let end = code(accepting.join().unwrap());
            assert!(matches!(end, ReturnCode::Timeout | ReturnCode::Resource));
        });
        assert!(vi.is_idle());
    }
    assert!(server.links().is_empty());
}

/// What `connect_request` says when a raw server answers with this.
fn ask_raw_server(
    client: &'static Host,
    vi: &Arc<TestVi>,
    answer: &[u8],
    memory: Option<&OwnedFd>,
) -> ReturnCode {
    let address = at(client, "nonsense server");
    let listener = Listener::bind(&place(), meeting::server(&address)).unwrap();
    thread::scope(|scope| {
        let asking = scope.spawn(|| client.connect_request(&vi.handle(), &address, &address, SOON));
        let socket = loop {
            if let Some(socket) = listener.accept().unwrap() {
                break socket;
            }
            thread::yield_now();
        };
        assert!(matches!(next(&socket).0, Handshake::Request(_)));
        let descriptors: Vec<_> = memory.iter().flat_map(|m| [m.as_fd(); 3]).collect();
        wire::send(socket.as_fd(), answer, &descriptors).unwrap();
        let end = code(asking.join().unwrap());
        assert!(vi.is_idle());
        end
    })
}

#[test]
fn a_server_that_answers_nonsense_is_not_connected() {
    let only = host();
    let vi = TestVi::new(1);
    let facts = vi.local_end().facts();
    let mut other = facts;
    other.attributes.max_transfer_bytes += 1;
    let accept = |end, channel| {
        Handshake::Accept(Accept {
            process: only.process(),
            end,
            link: 1,
            new_link: true,
            key: 2,
            trusted: true,
            channel,
            connection: 3,
        })
    };
    for (answer, expected) in [
        (Handshake::Reject, ReturnCode::Reject),
        (Handshake::NoMatch, ReturnCode::NoMatch),
        (Handshake::LinkGone, ReturnCode::Timeout),
        (Handshake::Differs(facts.attributes), ReturnCode::Timeout),
        (Handshake::Differs(other.attributes), ReturnCode::InvalidMtu),
        (accept(other, 0), ReturnCode::Timeout),
        // Its descriptors were lost.
        (accept(facts, 0), ReturnCode::Resource),
        (raw_request(&Address::default()), ReturnCode::Timeout),
    ] {
        let end = ask_raw_server(only, &vi, answer.packet().bytes(), None);
        assert_eq!(end, expected, "{answer:?}");
    }
    assert_eq!(
        ask_raw_server(only, &vi, b"nonsense", None),
        ReturnCode::Timeout
    );
    let memory = Segment::create("viaduct-test", 8 << 20).unwrap();
    let memory = memory.fd().try_clone_to_owned().unwrap();
    let not_memory = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    // What is no memory, a channel of the client's own, and one that lies in no chunk.
    for (memory, channel) in [(&not_memory, 0), (&memory, 1), (&memory, 2 * 64)] {
        let answer = accept(facts, channel).packet();
        let end = ask_raw_server(only, &vi, answer.bytes(), Some(memory));
        assert_eq!(end, ReturnCode::Timeout);
    }
    assert!(only.links().is_empty());
}

#[test]
fn a_client_that_leaves_without_reading_is_gone_and_no_lack_of_resources() {
    for reads in [true, false] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = AddressFamily::UNIX;
        let (server, client) =
            rustix::net::socketpair(family, SocketType::SEQPACKET, flags, None).unwrap();
        handshake::say(&server, &Handshake::Taken).unwrap();
        if reads {
            next(&client);
        }
        drop(client);
        let sent = wire::send(server.as_fd(), b"accept", &[]).unwrap_err();
        let failure = Failure::from(sent);
        assert!(
            matches!(failure, Failure::Ended(ConnectFailure::TimedOut)),
            "{failure:?}"
        );
    }
}

#[test]
fn a_server_that_gives_up_is_not_waited_for() {
    // Goal: a client that was offered a channel, but not yet its memory, notices that its server
    // has gone, whatever its own patience.
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "given up");
    let address = at(right, "gives up");
    let listener = Listener::bind(&place(), meeting::server(&address)).unwrap();
    let asking_vi = TestVi::new(3);
    let patience = Duration::from_secs(60);
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let vi = asking_vi.handle();
            let started = Instant::now();
            let asked = left.connect_request(&vi, &at(left, "client"), &address, Some(patience));
            (code(asked), started.elapsed())
        });
        let socket = loop {
            if let Some(socket) = listener.accept().unwrap() {
                break socket;
            }
            thread::yield_now();
        };
        assert!(matches!(next(&socket).0, Handshake::Request(_)));
        let accept = Handshake::Accept(Accept {
            process: right.process(),
            end: server.local_end().facts(),
            link: server.end().0.id(),
            new_link: false,
            key: 0,
            trusted: true,
            // In a chunk that never comes.
            channel: 2 * 64,
            connection: 4,
        });
        handshake::say(&socket, &accept).unwrap();
        drop(socket);
        let (end, took) = asking.join().unwrap();
        assert_eq!(end, ReturnCode::Timeout);
        assert!(took < patience / 2, "{took:?}");
    });
    assert!(asking_vi.is_idle());
    exchange(&client, &server);
}

#[test]
fn a_link_that_one_side_has_lost_is_made_anew() {
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "lost link");
    let (link, ..) = client.end();
    left.forget(&link);
    let (second, third) = (TestVi::new(3), TestVi::new(4));
    connect((left, &second), (right, &third), "lost link");
    exchange(&second, &third);
    assert!(!Arc::ptr_eq(&link, &second.end().0));
    exchange(&client, &server);
}

#[test]
fn the_nonce_of_another_process_opens_nothing() {
    // Goal: a client that claims to be a process that has a link gets no channel on it without
    // the key, and the real one loses nothing.
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "impostor");
    let address = at(right, "impostor");
    let vi = TestVi::new(3);
    thread::scope(|scope| {
        let accepting = scope.spawn(|| {
            let incoming = right.connect_wait(1, &address, SOON).unwrap();
            right.connect_accept(incoming.connection, &vi.handle())
        });
        let socket = raw_socket(&address);
        let mut asked = raw_request(&address);
        if let Handshake::Request(request) = &mut asked {
            request.process.nonce = left.process().nonce;
        }
        handshake::say(&socket, &asked).unwrap();
        assert_eq!(next(&socket).0, Handshake::Taken);
        let Handshake::Accept(accept) = next(&socket).0 else {
            panic!("no accept");
        };
        assert!(!accept.new_link);
        let guess = Handshake::Established {
            key: accept.key,
            trusted: true,
        };
        handshake::say(&socket, &guess).unwrap();
        assert_eq!(code(accepting.join().unwrap()), ReturnCode::Timeout);
    });
    exchange(&client, &server);
    let started = Instant::now();
    // The impostor's channel comes back when the real process has acknowledged its end.
    while server.end().0.channels_in_use() > 1 {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
}

#[test]
fn a_socket_of_another_kind_is_refused() {
    let address = Address::new(viaduct_provider::via::HostAddress::new(3), b"kind");
    let listener = Listener::bind(&place(), meeting::server(&address)).unwrap();
    let prefix = format!("viaduct-test-{}", std::process::id());
    let name = format!("{prefix}-{}", meeting::server(&address));
    let name = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let connect = |kind| {
        let family = AddressFamily::UNIX;
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(socket, &name).is_ok()
    };
    assert!(!connect(SocketType::STREAM));
    assert!(connect(SocketType::SEQPACKET));
    assert!(listener.accept().unwrap().is_some());
}
