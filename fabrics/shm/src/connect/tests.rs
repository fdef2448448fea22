use std::sync::Condvar;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::Instant;

use viaduct_provider::via::{NicAttributes, ProtectionTag, ReliabilityLevel};

use super::*;
use crate::link::LinkMessage;

mod hostile;
mod processes;

const SOON: Option<Duration> = Some(Duration::from_secs(20));

/// Hosts of one test process meet here, and no others.
fn place() -> Place {
    static PREFIX: std::sync::OnceLock<&'static str> = std::sync::OnceLock::new();
    let prefix = PREFIX.get_or_init(|| format!("viaduct-test-{}", std::process::id()).leak());
    Place::Abstract(prefix)
}

fn host() -> &'static Host {
    Host::start(place(), false).unwrap()
}

fn at(host: &Host, discriminator: &str) -> Address {
    Address::new(host.address(), discriminator.as_bytes())
}

/// Where the ends of a test's channel say who they are.
const NUMBERS_AT: usize = 128;

#[derive(Debug, Default)]
struct Seen {
    pending: bool,
    end: Option<ChannelEnd>,
    has_regions: bool,
    closed: Vec<(u64, CloseReason)>,
    events: Vec<(u8, u32)>,
}

/// What the data path is to a connection.
struct TestVi {
    number: u64,
    attributes: Mutex<ViAttributes>,
    regions: Option<Arc<RegionTable>>,
    kicks: AtomicU32,
    state: Mutex<Seen>,
    changed: Condvar,
}

impl TestVi {
    fn new(number: u64) -> Arc<Self> {
        Self::with(number, None)
    }

    fn with(number: u64, regions: Option<Arc<RegionTable>>) -> Arc<Self> {
        let tag = ProtectionTag::from_bits(5);
        Arc::new(Self {
            number,
            attributes: Mutex::new(ViAttributes::unreliable(tag, 4096)),
            regions,
            kicks: AtomicU32::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn handle(self: &Arc<Self>) -> Arc<dyn Connectable> {
        self.clone()
    }

    fn is_idle(&self) -> bool {
        let state = locked(&self.state);
        !state.pending && state.end.is_none()
    }

    fn wait_until(&self, what: impl Fn(&Seen) -> bool) {
        let state = locked(&self.state);
        let (state, timeout) = self
            .changed
            .wait_timeout_while(state, SOON.unwrap(), |state| !what(state))
            .unwrap();
        assert!(!timeout.timed_out(), "{state:?}");
    }

    fn end(&self) -> (Arc<Link>, u32, u64, NonNull<u8>) {
        let state = locked(&self.state);
        let end = state.end.as_ref().unwrap();
        (end.link.clone(), end.channel, end.connection, end.block)
    }

    /// Who is at the other end, once it is connected.
    fn remote_vi(&self) -> u64 {
        let state = locked(&self.state);
        let end = state.end.as_ref().unwrap();
        let at = NUMBERS_AT + 8 * (end.side == Side::First) as usize;
        // SAFETY: inside the block; the other end has written before it was connected.
        unsafe { end.block.add(at).cast::<u64>().read_volatile() }
    }

    fn disconnect(&self) {
        let end = locked(&self.state).end.take();
        if let Some(end) = end {
            let reason = CloseReason::Disconnected;
            end.link.close(end.channel, end.connection, reason);
        }
    }
}

impl Connectable for TestVi {
    fn local_end(&self) -> LocalEnd {
        LocalEnd {
            attributes: *locked(&self.attributes),
            nic: self.number / 1000,
            vi: self.number,
            regions: self.regions.clone(),
        }
    }

    fn begin_pending(&self) -> Result<()> {
        let mut state = locked(&self.state);
        if state.pending || state.end.is_some() {
            return Err(Error::new(ReturnCode::InvalidState, "the VI is not idle"));
        }
        state.pending = true;
        Ok(())
    }

    fn cancel_pending(&self) {
        locked(&self.state).pending = false;
    }

    fn connect(&self, end: ChannelEnd, remote: RemoteEnd) -> Result<()> {
        let mut state = locked(&self.state);
        if !std::mem::take(&mut state.pending) {
            return Err(Error::new(ReturnCode::InvalidState, "not pending"));
        }
        // Each end says there who it is.
        let at = NUMBERS_AT + 8 * (end.side == Side::Second) as usize;
        // SAFETY: inside the block, and each end has its own word.
        unsafe { end.block.add(at).cast::<u64>().write(self.number) };
        state.end = Some(end);
        state.has_regions = remote.regions.is_some();
        Ok(())
    }

    fn peer_closed(&self, connection: u64, reason: CloseReason) {
        locked(&self.state).closed.push((connection, reason));
        self.changed.notify_all();
    }

    fn kicked(&self) {
        self.kicks.fetch_add(1, Ordering::Relaxed);
        // Under the lock, so that a waiter is not between its look and its sleep.
        drop(locked(&self.state));
        self.changed.notify_all();
    }

    fn peer_event(&self, code: u8, operation: u32) {
        locked(&self.state).events.push((code, operation));
        self.changed.notify_all();
    }
}

fn regions(host: &Host) -> Option<Arc<RegionTable>> {
    let nic = Arc::new(NicAttributes::default());
    Some(Arc::new(
        RegionTable::new(nic, host.shared().clone()).unwrap(),
    ))
}

/// Asks until somebody waits, as old programs do.
fn request(host: &'static Host, vi: &Arc<TestVi>, remote: &Address) -> Result<RemoteViAttributes> {
    let started = Instant::now();
    loop {
        match host.connect_request(&vi.handle(), &at(host, "client"), remote, SOON) {
            Err(error) if error.code() == ReturnCode::NoMatch => {
                assert!(started.elapsed() < SOON.unwrap(), "nobody waits");
                thread::yield_now();
            }
            result => return result,
        }
    }
}

/// Connects two VIs over `discriminator`.
fn connect(
    client: (&'static Host, &Arc<TestVi>),
    server: (&'static Host, &Arc<TestVi>),
    discriminator: &str,
) {
    let address = at(server.0, discriminator);
    thread::scope(|scope| {
        scope.spawn(|| {
            let incoming = server.0.connect_wait(1, &address, SOON).unwrap();
            let vi = server.1.handle();
            server.0.connect_accept(incoming.connection, &vi).unwrap();
        });
        request(client.0, client.1, &address).unwrap();
    });
}

fn exchange(one: &TestVi, other: &TestVi) {
    let (_, _, connection, block) = one.end();
    let (_, _, same_connection, same_block) = other.end();
    assert_eq!(connection, same_connection);
    // SAFETY: the block is mapped at both ends, and only this thread uses it.
    unsafe {
        block.write(17);
        assert_eq!(same_block.read(), 17);
        same_block.add(crate::channel::BLOCK_BYTES - 1).write(18);
        assert_eq!(block.add(crate::channel::BLOCK_BYTES - 1).read(), 18);
    }
}

fn code<T: std::fmt::Debug>(result: Result<T>) -> ReturnCode {
    result.unwrap_err().code()
}

#[test]
fn two_hosts_connect_and_share_memory() {
    let (left, right) = (host(), host());
    let client = TestVi::with(1001, regions(left));
    let server = TestVi::with(2001, regions(right));
    connect((left, &client), (right, &server), "basic");
    exchange(&client, &server);
    for (vi, other) in [(&client, 2001), (&server, 1001)] {
        assert_eq!(vi.remote_vi(), other);
        let (link, channel, ..) = vi.end();
        let state = locked(&vi.state);
        assert!(link.is_alive() && link.trusted());
        assert!(state.has_regions);
        assert_eq!(link.peer_pid(), std::process::id() as i32);
        assert_eq!(channel, 0);
        // Kicked once when it was attached.
        assert_eq!(vi.kicks.load(Ordering::Relaxed), 1);
    }

    // What one end puts into its pool comes out of the other's.
    let (near, far) = (client.end().0, server.end().0);
    for (sender, receiver) in [(&near, &far), (&far, &near)] {
        let ((from, length), (to, same)) = (sender.outgoing_pool(), receiver.incoming_pool());
        assert_eq!((length, same), (4 << 20, 4 << 20));
        // SAFETY: both ends of the pool are mapped, and only this thread uses it.
        unsafe {
            from.add(length - 1).write(7);
            assert_eq!(to.add(length - 1).read(), 7);
            from.add(length - 1).write(0);
        }
    }
    // SAFETY: as before, for the doorbells.
    unsafe {
        near.peer_doorbells().write(3);
        assert_eq!(right.doorbells().read(), 3);
    }
}

#[test]
fn a_process_connects_to_itself() {
    let only = host();
    let vis: Vec<_> = (0..4).map(TestVi::new).collect();
    connect((only, &vis[0]), (only, &vis[1]), "self");
    connect((only, &vis[2]), (only, &vis[3]), "self");
    exchange(&vis[0], &vis[1]);
    exchange(&vis[2], &vis[3]);
    // Both connections over the same link, of which each VI has the right end.
    let ends: Vec<_> = vis.iter().map(|vi| vi.end().0).collect();
    assert!(Arc::ptr_eq(&ends[0], &ends[2]) && Arc::ptr_eq(&ends[1], &ends[3]));
    assert!(!ends[0].is_creator() && ends[1].is_creator());
    assert!(only.links().len() == 2);
}

#[test]
fn messages_reach_the_other_end() {
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "messages");
    let (link, channel, connection, _) = client.end();
    link.send(&LinkMessage::Kick { channel });
    link.send(&LinkMessage::Event {
        channel,
        code: 2,
        operation: 3,
    });
    server.wait_until(|state| state.events == [(2, 3)]);
    assert_eq!(server.kicks.load(Ordering::Relaxed), 2);
    client.disconnect();
    let closed = (connection, CloseReason::Disconnected);
    server.wait_until(|state| state.closed == [closed]);
    assert!(link.is_alive());
}

#[test]
fn a_left_channel_is_used_again_and_zero() {
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    for round in 0..200 {
        connect((left, &client), (right, &server), "again");
        let (link, channel, connection, block) = server.end();
        // Either end may leave first, or both at once.
        // SAFETY: the block is mapped.
        unsafe {
            assert_eq!(block.read(), 0, "round {round}");
            block.write(1);
        }
        match round % 3 {
            0 => {
                client.disconnect();
                server.wait_until(|s| s.closed.last().is_some_and(|c| c.0 == connection));
                server.disconnect();
            }
            1 => {
                server.disconnect();
                client.wait_until(|s| s.closed.last().is_some_and(|c| c.0 == connection));
                client.disconnect();
            }
            _ => {
                client.disconnect();
                server.disconnect();
            }
        }
        assert!(channel < 8, "channels are not given back: {channel}");
        let started = Instant::now();
        while link.channels_in_use() > 0 {
            assert!(started.elapsed() < SOON.unwrap());
            thread::yield_now();
        }
    }
    assert_eq!((left.links().len(), right.links().len()), (1, 1));
}

#[test]
fn links_that_nobody_uses_end_with_a_nic() {
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "idle links");
    left.retire_nic(1);
    let (link, ..) = client.end();
    assert!(link.is_alive());
    client.disconnect();
    server.wait_until(|state| state.closed.len() == 1);
    server.disconnect();
    let started = Instant::now();
    while link.is_alive() {
        // The channel is in use until the other end has left it, too.
        left.retire_nic(1);
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
    while !right.links().is_empty() {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
    assert!(left.links().is_empty());
    connect((left, &client), (right, &server), "idle links");
    exchange(&client, &server);
}

#[test]
fn nobody_waits_is_found_at_once() {
    let only = host();
    let vi = TestVi::new(1);
    let ask = |remote: &Address, limit| {
        let started = Instant::now();
        let outcome = only.connect_request(&vi.handle(), &at(only, "client"), remote, limit);
        assert!(started.elapsed() < Duration::from_secs(5));
        assert!(vi.is_idle());
        code(outcome)
    };
    assert_eq!(ask(&at(only, "nobody"), SOON), ReturnCode::NoMatch);
    let elsewhere = Address::new(viaduct_provider::via::HostAddress::new(1), b"nobody");
    assert_eq!(ask(&elsewhere, SOON), ReturnCode::NotReachable);
    let none = Some(Duration::ZERO);
    assert_eq!(ask(&at(only, "nobody"), none), ReturnCode::InvalidParameter);
    let long = at(only, "a discriminator of 33 bytes, or so");
    assert_eq!(ask(&long, SOON), ReturnCode::InvalidParameter);
    // A wait on one address answers for no other.
    thread::scope(|scope| {
        let waiting = scope.spawn(|| only.connect_wait(1, &at(only, "d1"), SOON));
        let started = Instant::now();
        for other in ["d2", "d", "d1x", "d1\0", ""] {
            assert_eq!(ask(&at(only, other), SOON), ReturnCode::NoMatch);
        }
        assert!(started.elapsed() < Duration::from_secs(5));
        only.retire_nic(1);
        // It may not have begun to wait before it was retired.
        while !waiting.is_finished() {
            only.retire_nic(1);
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(code(waiting.join().unwrap()), ReturnCode::InvalidParameter);
    });
}

#[test]
fn waits_and_requests_end_in_time() {
    let only = host();
    let limit = Duration::from_millis(200);
    let started = Instant::now();
    let waited = only.connect_wait(1, &at(only, "empty"), Some(limit));
    assert_eq!(code(waited), ReturnCode::Timeout);
    assert!(started.elapsed() >= limit);
    let other_host = Address::new(viaduct_provider::via::HostAddress::new(1), b"empty");
    let waited = only.connect_wait(1, &other_host, Some(limit));
    assert_eq!(code(waited), ReturnCode::InvalidParameter);

    let vi = TestVi::new(1);
    let address = at(only, "sat on");
    thread::scope(|scope| {
        let server = scope.spawn(|| only.connect_wait(1, &address, SOON).unwrap());
        let outcome = loop {
            let started = Instant::now();
            let local = at(only, "client");
            let outcome = only.connect_request(&vi.handle(), &local, &address, Some(limit));
            if !matches!(&outcome, Err(e) if e.code() == ReturnCode::NoMatch) {
                assert!(started.elapsed() >= limit);
                break outcome;
            }
        };
        assert_eq!(code(outcome), ReturnCode::Timeout);
        assert!(vi.is_idle());
        // The client is gone: the accept fails, and its handle is dead.
        let incoming = server.join().unwrap();
        let late = TestVi::new(2);
        let accept = || only.connect_accept(incoming.connection, &late.handle());
        assert_eq!(code(accept()), ReturnCode::Timeout);
        assert!(late.is_idle());
        assert_eq!(code(accept()), ReturnCode::InvalidParameter);
    });
}

#[test]
fn an_address_that_a_child_still_holds_is_waited_for() {
    let host = host();
    let here = at(host, "held");
    let wait = |limit| code(host.connect_wait(1, &here, Some(Duration::from_millis(limit))));
    let child = thread::scope(|scope| {
        let child = scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            // SAFETY: the child sleeps and exits.
            match unsafe { libc::fork() } {
                0 => {
                    // SAFETY: as above.
                    unsafe { libc::usleep(300_000) };
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) }
                }
                child => child,
            }
        });
        // The child takes a copy of the listener, which this drops.
        assert_eq!(wait(200), ReturnCode::Timeout);
        child.join().unwrap()
    });
    assert_eq!(wait(1_000), ReturnCode::Timeout);
    // SAFETY: a child of this test.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
}

#[test]
fn a_request_is_rejected_once() {
    let only = host();
    let vi = TestVi::new(1);
    let address = at(only, "rejecting");
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let incoming = only.connect_wait(1, &address, SOON).unwrap();
            assert_eq!(incoming.remote, at(only, "client"));
            let attributes = locked(&vi.attributes).for_peer();
            assert_eq!(incoming.attributes, attributes);
            only.connect_reject(incoming.connection).unwrap();
            code(only.connect_reject(incoming.connection))
        });
        assert_eq!(code(request(only, &vi, &address)), ReturnCode::Reject);
        assert_eq!(server.join().unwrap(), ReturnCode::InvalidParameter);
    });
    assert!(vi.is_idle());
    let server = TestVi::new(2);
    connect((only, &vi), (only, &server), "rejecting");
}

#[test]
fn a_request_that_does_not_fit_stays_open() {
    let only = host();
    let client = TestVi::new(1);
    let server = TestVi::new(2);
    let address = at(only, "fitting");
    thread::scope(|scope| {
        let asking = scope.spawn(|| request(only, &client, &address));
        let incoming = only.connect_wait(1, &address, SOON).unwrap();
        let accept = || only.connect_accept(incoming.connection, &server.handle());
        let change = |change: fn(&mut ViAttributes)| change(&mut locked(&server.attributes));
        change(|a| a.reliability = ReliabilityLevel::ReliableDelivery);
        assert_eq!(code(accept()), ReturnCode::InvalidReliabilityLevel);
        change(|a| a.reliability = ReliabilityLevel::Unreliable);
        change(|a| a.max_transfer_bytes = 8192);
        assert_eq!(code(accept()), ReturnCode::InvalidMtu);
        change(|a| a.max_transfer_bytes = 4096);
        change(|a| a.quality_of_service = 1);
        assert_eq!(code(accept()), ReturnCode::InvalidQos);
        change(|a| a.quality_of_service = 0);
        server.begin_pending().unwrap();
        assert_eq!(code(accept()), ReturnCode::InvalidState);
        server.cancel_pending();
        assert!(!asking.is_finished());
        // What may differ, differs.
        change(|a| a.tag = ProtectionTag::from_bits(6));
        change(|a| a.rdma_write = true);
        accept().unwrap();
        assert!(asking.join().unwrap().unwrap().rdma_write);
    });
    let again = only.connect_request(&client.handle(), &address, &address, SOON);
    assert_eq!(code(again), ReturnCode::InvalidState);
}

#[test]
fn extra_requests_are_kept_for_the_next_wait() {
    // Goal: of ten clients that ask while somebody waits, each is served by one wait.
    let (left, right) = (host(), host());
    let address = at(right, "crowd");
    let clients: Vec<_> = (0..10).map(TestVi::new).collect();
    let servers: Vec<_> = (10..20).map(TestVi::new).collect();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| request(left, client, &address).unwrap());
        }
        for server in &servers {
            let incoming = right.connect_wait(1, &address, SOON).unwrap();
            let accepted = right.connect_accept(incoming.connection, &server.handle());
            accepted.unwrap();
        }
    });
    for server in &servers {
        let number = server.remote_vi();
        exchange(server, &clients[number as usize]);
    }
    // Those who came in time and were not waited for again are told.
    let late = TestVi::new(30);
    thread::scope(|scope| {
        let first = scope.spawn(|| right.connect_wait(1, &address, SOON));
        let asking: Vec<_> = [&clients[0], &late]
            .map(|vi| {
                vi.disconnect();
                scope.spawn(|| {
                    let local = at(left, "client");
                    right.connect_request(&vi.handle(), &local, &address, SOON)
                })
            })
            .into();
        while !first.is_finished() && !asking.iter().all(|asking| asking.is_finished()) {
            thread::sleep(Duration::from_millis(1));
        }
        // Whether one, both or none of them met the wait: all end, none with success.
        if first.is_finished() {
            let incoming = first.join().unwrap().unwrap();
            right.connect_reject(incoming.connection).unwrap();
        } else {
            // It may not have begun to wait before it was retired.
            while !first.is_finished() {
                right.retire_nic(1);
                thread::sleep(Duration::from_millis(1));
            }
        }
        for asking in asking {
            let end = code(asking.join().unwrap());
            assert!(matches!(end, ReturnCode::Reject | ReturnCode::NoMatch));
        }
    });
}

#[test]
fn several_waiters_on_one_address_share_the_requests() {
    let (left, right) = (host(), host());
    let address = at(right, "shared wait");
    let clients: Vec<_> = (0..8).map(TestVi::new).collect();
    let servers: Vec<_> = (10..18).map(TestVi::new).collect();
    thread::scope(|scope| {
        for (nic, server) in servers.iter().enumerate() {
            let address = &address;
            scope.spawn(move || {
                let incoming = right.connect_wait(nic as u64, address, SOON).unwrap();
                let accepted = right.connect_accept(incoming.connection, &server.handle());
                accepted.unwrap();
            });
        }
        for client in &clients {
            scope.spawn(|| request(left, client, &address).unwrap());
        }
    });
    let mut numbers: Vec<_> = servers.iter().map(|s| s.remote_vi()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn another_process_may_not_wait_on_the_same_address() {
    let (left, right) = (host(), host());
    let address = at(left, "taken");
    thread::scope(|scope| {
        let limit = Some(Duration::from_millis(1));
        let waiting = scope.spawn(|| {
            // While the other side tries, this one may find the address taken.
            loop {
                match left.connect_wait(1, &address, SOON) {
                    Err(error) if error.code() == ReturnCode::Resource => {}
                    waited => return waited,
                }
            }
        });
        let started = Instant::now();
        while code(right.connect_wait(2, &address, limit)) != ReturnCode::Resource {
            assert!(started.elapsed() < SOON.unwrap());
            thread::sleep(Duration::from_millis(1));
        }
        let asking = scope.spawn(|| code(request(right, &TestVi::new(1), &address)));
        let incoming = waiting.join().unwrap().unwrap();
        left.connect_reject(incoming.connection).unwrap();
        assert_eq!(asking.join().unwrap(), ReturnCode::Reject);
    });
}

#[test]
fn a_cancelled_request_returns() {
    let only = host();
    let vi = TestVi::new(77);
    let address = at(only, "cancelled");
    thread::scope(|scope| {
        let asking = scope.spawn(|| request(only, &vi, &address));
        let incoming = only.connect_wait(1, &address, None).unwrap();
        only.connect_cancel(77);
        assert_eq!(code(asking.join().unwrap()), ReturnCode::InvalidState);
        let late = TestVi::new(2);
        let accept = only.connect_accept(incoming.connection, &late.handle());
        assert_eq!(code(accept), ReturnCode::Timeout);
    });
    assert!(vi.is_idle());
}

#[test]
fn a_vi_that_is_not_pending_any_more_is_not_connected() {
    // Goal: disconnecting between grant and connection ends the connection at the other end, too.
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    let address = at(right, "fickle");
    thread::scope(|scope| {
        let asking = scope.spawn(|| request(left, &client, &address));
        let incoming = right.connect_wait(1, &address, None).unwrap();
        client.cancel_pending();
        right
            .connect_accept(incoming.connection, &server.handle())
            .unwrap();
        assert_eq!(code(asking.join().unwrap()), ReturnCode::InvalidState);
    });
    server.wait_until(|state| state.closed.len() == 1);
}

#[test]
fn many_connect_at_once() {
    // Goal: 100 threads of one process connect to another, over one address and over few links.
    let (left, right) = (host(), host());
    let address = at(right, "hundred");
    let clients: Vec<_> = (0..100).map(TestVi::new).collect();
    let servers: Vec<_> = (100..200).map(TestVi::new).collect();
    thread::scope(|scope| {
        for servers in servers.chunks(25) {
            let address = &address;
            scope.spawn(move || {
                for server in servers {
                    let incoming = right.connect_wait(1, address, SOON).unwrap();
                    let accepted = right.connect_accept(incoming.connection, &server.handle());
                    accepted.unwrap();
                }
            });
        }
        for client in &clients {
            scope.spawn(|| request(left, client, &address).unwrap());
        }
    });
    for server in &servers {
        let number = server.remote_vi();
        exchange(server, &clients[number as usize]);
    }
    // Four threads accept, so at most four find no link yet.
    assert!(left.links().len() <= 4, "{}", left.links().len());
    // All channels differ, and 65 need a second chunk.
    let mut blocks: Vec<_> = clients.iter().map(|vi| vi.end().3).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 100);
}

#[test]
fn channels_of_several_chunks_work_in_both_directions() {
    let (left, right) = (host(), host());
    let vis: Vec<_> = (0..300).map(TestVi::new).collect();
    for (index, pair) in vis.chunks(2).enumerate() {
        let (client, server) = if index % 2 == 0 {
            ((left, &pair[0]), (right, &pair[1]))
        } else {
            ((right, &pair[0]), (left, &pair[1]))
        };
        connect(client, server, "chunks");
        exchange(&pair[0], &pair[1]);
    }
    assert_eq!((left.links().len(), right.links().len()), (1, 1));
    assert_eq!(left.links()[0].channels_in_use(), 150);
}

#[test]
fn peers_meet_in_either_order() {
    for (name, same_host) in [("meet two", false), ("meet one", true)] {
        let left = host();
        let right = if same_host { left } else { host() };
        let (one, other) = (TestVi::new(1), TestVi::new(2));
        let (here, there) = (at(left, name), at(left, "there"));
        left.connect_peer_request(&one.handle(), &here, &there, SOON)
            .unwrap();
        assert_eq!(left.connect_peer_done(1).unwrap(), None);
        let again = left.connect_peer_request(&one.handle(), &here, &there, SOON);
        assert_eq!(code(again), ReturnCode::InvalidState);
        thread::sleep(Duration::from_millis(20));
        right
            .connect_peer_request(&other.handle(), &there, &here, SOON)
            .unwrap();
        let attributes = right.connect_peer_wait(2).unwrap();
        assert_eq!(attributes, locked(&one.attributes).for_peer());
        let started = Instant::now();
        while left.connect_peer_done(1).unwrap().is_none() {
            assert!(started.elapsed() < SOON.unwrap());
            thread::yield_now();
        }
        assert_eq!(code(left.connect_peer_done(1)), ReturnCode::InvalidState);
        exchange(&one, &other);
    }
}

#[test]
fn many_peers_cross_and_are_waited_for_in_another_order() {
    let (left, right) = (host(), host());
    let ones: Vec<_> = (0..16).map(TestVi::new).collect();
    let others: Vec<_> = (16..32).map(TestVi::new).collect();
    for index in 0..16 {
        let (here, there) = (
            at(left, &format!("l{index}")),
            at(left, &format!("r{index}")),
        );
        left.connect_peer_request(&ones[index].handle(), &here, &there, SOON)
            .unwrap();
        right
            .connect_peer_request(&others[index].handle(), &there, &here, SOON)
            .unwrap();
    }
    for index in (0..16).rev() {
        left.connect_peer_wait(index).unwrap();
        right.connect_peer_wait(index + 16).unwrap();
    }
    for (one, other) in ones.iter().zip(&others) {
        exchange(one, other);
    }
}

#[test]
fn a_peer_that_does_not_come_is_waited_for_in_vain() {
    let only = host();
    let vi = TestVi::new(1);
    let (here, there) = (at(only, "lonely"), at(only, "absent"));
    let shortly = Duration::from_millis(200);
    let limit = Some(shortly);
    let started = Instant::now();
    only.connect_peer_request(&vi.handle(), &here, &there, limit)
        .unwrap();
    assert_eq!(code(only.connect_peer_wait(1)), ReturnCode::Timeout);
    assert!(started.elapsed() >= shortly);
    assert!(vi.is_idle());
    assert_eq!(code(only.connect_peer_wait(1)), ReturnCode::InvalidState);

    // Neither a server's address nor one of the two addresses alone is a match.
    let stranger = TestVi::new(2);
    only.connect_peer_request(&vi.handle(), &here, &there, SOON)
        .unwrap();
    let ask = only.connect_request(&stranger.handle(), &there, &here, SOON);
    assert_eq!(code(ask), ReturnCode::NoMatch);
    only.connect_peer_request(&stranger.handle(), &at(only, "third"), &here, limit)
        .unwrap();
    assert_eq!(code(only.connect_peer_wait(2)), ReturnCode::Timeout);
    // The same side twice does not match itself.
    only.connect_peer_request(&stranger.handle(), &here, &there, limit)
        .unwrap();
    assert_eq!(code(only.connect_peer_wait(2)), ReturnCode::Timeout);
    assert_eq!(only.connect_peer_done(1).unwrap(), None);
    // What is cancelled has no outcome.
    only.connect_cancel(1);
    assert_eq!(code(only.connect_peer_done(1)), ReturnCode::InvalidState);
    let started = Instant::now();
    while !vi.is_idle() {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
}

#[test]
fn peers_that_differ_are_both_told() {
    let (left, right) = (host(), host());
    let (one, other) = (TestVi::new(1), TestVi::new(2));
    locked(&other.attributes).max_transfer_bytes = 1 << 20;
    let (here, there) = (at(left, "small"), at(left, "large"));
    left.connect_peer_request(&one.handle(), &here, &there, SOON)
        .unwrap();
    right
        .connect_peer_request(&other.handle(), &there, &here, SOON)
        .unwrap();
    assert_eq!(code(left.connect_peer_wait(1)), ReturnCode::InvalidMtu);
    assert_eq!(code(right.connect_peer_wait(2)), ReturnCode::InvalidMtu);
    assert!(one.is_idle() && other.is_idle());
}

#[test]
fn protected_hosts_share_no_memory_of_users() {
    for protect_client in [false, true] {
        let left = Host::start(place(), protect_client).unwrap();
        let right = Host::start(place(), !protect_client).unwrap();
        let client = TestVi::with(1001, regions(left));
        let server = TestVi::with(2001, regions(right));
        connect((left, &client), (right, &server), "protected");
        exchange(&client, &server);
        for vi in [&client, &server] {
            let (link, ..) = vi.end();
            assert!(!link.trusted() && !link.cma());
            assert!(!locked(&vi.state).has_regions);
        }
        // An announcement is not made.
        let memory = left.shared().allocate(1 << 20).unwrap();
        let location = left.shared().find(memory.as_ptr() as u64, 1).unwrap();
        client.end().0.announce_segment(location.segment.bits());
        client.end().0.send(&LinkMessage::Kick { channel: 0 });
        let server_link = server.end().0;
        let started = Instant::now();
        while server.kicks.load(Ordering::Relaxed) < 2 {
            assert!(started.elapsed() < SOON.unwrap());
            thread::yield_now();
        }
        assert_eq!(server_link.peer_segment(location.segment.bits()), None);
        assert!(server_link.is_alive());
        // SAFETY: nobody uses it.
        unsafe { left.shared().free(memory) }.unwrap();
    }
}

#[test]
fn announced_segments_are_mapped_until_they_are_freed() {
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "segments");
    let (near, far) = (client.end().0, server.end().0);
    let length = 32 << 20;
    let memory = left.shared().allocate(length).unwrap();
    let location = left.shared().find(memory.as_ptr() as u64, 1).unwrap();
    let id = location.segment.bits();
    for _ in 0..3 {
        near.announce_segment(id);
    }
    let started = Instant::now();
    let (base, mapped) = loop {
        if let Some(found) = far.peer_segment(id) {
            break found;
        }
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    };
    assert!(mapped >= length);
    // SAFETY: inside the mapping and the allocation, which only this thread uses.
    unsafe {
        base.add(location.offset as usize).write(99);
        assert_eq!(memory.read(), 99);
        left.shared().free(memory).unwrap();
    }
    while far.peer_segment(id).is_some() {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
    // SAFETY: the addresses stay mapped while the link is held.
    unsafe { base.write(1) };
}

#[test]
fn watched_things_make_progress_until_they_say_so() {
    use crate::service::Pace;
    struct Counter(AtomicU32, AtomicBool);
    impl crate::service::Progress for Counter {
        fn progress(&self) -> Pace {
            let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            if count == 20 {
                self.1.store(true, Ordering::Release);
            }
            if count < 20 { Pace::Quick } else { Pace::Over }
        }
    }
    let only = host();
    let counter = Arc::new(Counter(AtomicU32::new(0), AtomicBool::new(false)));
    let started = Instant::now();
    only.watch(counter.clone(), Pace::Quick);
    while !counter.1.load(Ordering::Acquire) {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
    // 20 calls, the first after 0.2 ms or less, the others no more often than every 0.2 ms.
    assert!(started.elapsed() >= Duration::from_micros(19 * 200));
    while Arc::strong_count(&counter) > 1 {
        assert!(started.elapsed() < SOON.unwrap());
        thread::yield_now();
    }
    assert_eq!(counter.0.load(Ordering::Relaxed), 20);
}

#[test]
fn a_peer_that_stops_reading_loses_nothing_but_events() {
    // Goal: sends never wait, a queue behind a full socket stays bounded, and what matters comes
    // when the peer reads again. The peer's service thread is kept busy by a slow kick.
    let (left, right) = (host(), host());
    let (client, server) = (TestVi::new(1), TestVi::new(2));
    connect((left, &client), (right, &server), "stalled");
    let (link, channel, connection, _) = client.end();
    let stalled = locked(&server.state);
    link.send(&LinkMessage::Kick { channel });
    let started = Instant::now();
    for number in 0..20_000 {
        link.send(&LinkMessage::Event {
            channel,
            code: 1,
            operation: number,
        });
        link.send(&LinkMessage::Kick { channel });
    }
    assert!(started.elapsed() < SOON.unwrap());
    client.disconnect();
    drop(stalled);
    let closed = (connection, CloseReason::Disconnected);
    server.wait_until(|state| state.closed == [closed]);
    let state = locked(&server.state);
    assert!(state.events.len() >= 1024 && state.events.len() < 20_000);
    assert!(state.events.is_sorted_by(|one, next| one.1 < next.1));
}
