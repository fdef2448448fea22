//! Programs of the simulated hosts, and the experiments made of them.

use viaduct_engine::Time;
use viaduct_frames::Endpoint;
use viaduct_statistics::LogHistogram;

use crate::cluster::{Cluster, Entry, LinkLoad, Totals};
use crate::config::{Config, LinkModel};
use crate::ledger::Ends;
use crate::load::{FairLinks, HeldLinks, Links};
use crate::processor::Processor;

/// What a host runs.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    Nothing,
    /// A program from outside, of which [`crate::Programs`] knows.
    Outside,
    Client(Client),
    Server(ServerState),
    /// Processes that share the processor.
    Processes(Box<Processor>),
}

impl Program {
    /// Whether a short message is kept from it until the interface has written it. What others
    /// run may take it a little before, if it looks just then.
    pub(crate) const fn sees_when_there(&self) -> bool {
        matches!(self, Self::Processes(_))
    }

    pub(crate) fn message_came(&mut self, endpoint: Endpoint) {
        if let Self::Server(server) = self {
            server.ready |= 1 << endpoint.index();
        }
    }
}

/// Keeps as many requests outstanding as it has credits.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    pub(crate) server: (u32, Endpoint),
    /// Of the endpoint, as far as the client knows.
    pub(crate) server_key: u8,
    /// A reply came since somebody looked.
    pub(crate) has_heard: bool,
    pub(crate) credits: u32,
    pub(crate) bytes: u32,
    /// Requests that it will still make.
    pub(crate) requests_left: u64,
    replies: u64,
    round_trips_ps: u128,
    round_trips_ns: LogHistogram,
}

impl Client {
    /// Whether nothing that it asked for is outstanding.
    pub(crate) fn has_all(&self, setup: Option<Setup>) -> bool {
        setup.is_none_or(|setup| self.credits >= setup.credits)
    }

    pub(crate) fn take(&mut self, reply: Entry, at: Time, measured_from: Time) {
        self.credits += 1;
        if at > measured_from {
            self.replies += 1;
            let span = at - reply.posted_at;
            self.round_trips_ps += u128::from(span.picoseconds());
            self.round_trips_ns.record(span.picoseconds() / 1000);
        }
    }
}

/// Answers requests of up to 64 endpoints.
#[derive(Clone, Debug)]
pub(crate) struct ServerState {
    /// Endpoints with messages, as bits.
    pub(crate) ready: u64,
    pub(crate) is_single: bool,
    current: u32,
    endpoints: u32,
}

impl ServerState {
    pub(crate) const fn new(server: Server, endpoints: u32) -> Self {
        Self {
            ready: 0,
            is_single: !matches!(server, Server::MultiThread),
            current: 0,
            endpoints,
        }
    }

    /// Whose message is next, and what it takes to get to it; `look` is what looking at an endpoint
    /// does.
    pub(crate) fn choose(
        &mut self,
        blocked: u64,
        switch: Time,
        look: impl Fn(Endpoint) -> Time,
    ) -> Option<(Endpoint, Time)> {
        let ready = self.ready & !blocked;
        if ready == 0 {
            return None;
        }
        // One thread polls one endpoint after the other; a thread of its own stays while it can.
        let from = if self.is_single {
            (self.current + 1) % self.endpoints
        } else {
            self.current
        };
        let above = ready & (u64::MAX << from);
        let next = if above == 0 { ready } else { above }.trailing_zeros();
        let mut span = Time::ZERO;
        if self.is_single {
            let mut passed = from;
            while passed != next {
                span += look(Endpoint::new(passed));
                passed = (passed + 1) % self.endpoints;
            }
        } else if next != self.current {
            // The thread has looked in vain before it sleeps.
            span = look(Endpoint::new(self.current)) + switch;
        }
        self.current = next;
        Some((Endpoint::new(next), span))
    }

    /// A message comes while nothing else is there: how long until the server looks at its
    /// endpoint, on average. Whoever looks at several in turn is anywhere among them.
    pub(crate) fn notice(&mut self, endpoint: Endpoint, look: impl Fn(Endpoint) -> Time) -> Time {
        let index = endpoint.index() as u32;
        let round = if self.is_single {
            self.current = (index + self.endpoints - 1) % self.endpoints;
            let all = (0..self.endpoints).map(|index| look(Endpoint::new(index)));
            all.fold(Time::ZERO, |sum, each| sum + each)
        } else {
            look(endpoint)
        };
        half(round)
    }
}

/// What is waited for an event on average that is looked for once in each `round`.
pub(crate) const fn half(round: Time) -> Time {
    Time::from_picoseconds(round.picoseconds() / 2)
}

/// How the server of a contention experiment is built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Server {
    /// One endpoint that all clients share.
    One,
    /// An endpoint a client, polled by one thread.
    SingleThread,
    /// An endpoint a client, each with a thread.
    MultiThread,
}

/// What one client got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientResult {
    /// Replies a second.
    pub messages_s: f64,
    /// Mean from posting a request to having its reply, microseconds.
    pub round_trip_us: f64,
}

/// What a contention experiment measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Contention {
    /// Per client.
    pub clients: Vec<ClientResult>,
    /// Of all clients.
    pub messages_s: f64,
    /// Payload of requests, 10^6 bytes a second.
    pub mbyte_s: f64,
    /// From posting a request to having its reply, of all clients, nanoseconds.
    pub round_trips_ns: LogHistogram,
    /// What happened in the window that was measured.
    pub window: Totals,
    /// How requests ended from the beginning on, if the cluster has faults.
    pub ends: Option<Ends>,
    /// What links carried in the window, if they were watched: a packet belongs to the moment at
    /// which it leaves, or arrives where links are shared.
    pub links: Vec<LinkLoad>,
}

/// LogP parameters, as programs see them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Overhead of sending, microseconds.
    pub o_send_us: f64,
    /// Overhead of receiving, microseconds.
    pub o_recv_us: f64,
    /// Half the round trip without the overheads, microseconds.
    pub latency_us: f64,
    /// Between requests of a long burst, replies coming in, microseconds.
    pub gap_us: f64,
    /// One request and its reply, microseconds.
    pub round_trip_us: f64,
    /// Requests of 8 KB, 10^6 bytes a second.
    pub bulk_mbyte_s: f64,
}

/// One server and `clients` clients on hosts of their own, each with as many requests of `bytes`
/// outstanding as a queue has entries. Measures `window` after `warm_up`.
///
/// # Panics
/// If the cluster has not a host for each, or there are more than 64 clients; if its network or its
/// faults cannot be: [`Config::joined`], [`Config::check_faults`].
#[must_use]
pub fn contention(
    config: Config,
    server: Server,
    clients: u16,
    bytes: u32,
    warm_up: Time,
    window: Time,
) -> Contention {
    let credits = config.queue_entries;
    run(config, server, clients, bytes, credits, (warm_up, window))
}

/// LogP parameters of a configuration, and its bandwidth.
#[must_use]
pub fn measure(config: &Config) -> Measured {
    let span = Time::from_milliseconds(50);
    let with = |credits, bytes| run(config.clone(), Server::One, 1, bytes, credits, (span, span));
    let round_trip_us = with(1, 16).clients[0].round_trip_us;
    let burst = with(config.queue_entries, 16);
    let bulk = with(config.queue_entries, 8192);
    let (o_send_us, o_recv_us) = (
        config.host.send.microseconds_f64(),
        config.host.receive.microseconds_f64(),
    );
    Measured {
        o_send_us,
        o_recv_us,
        latency_us: round_trip_us / 2.0 - o_send_us - o_recv_us,
        gap_us: 1e6 / burst.messages_s,
        round_trip_us,
        bulk_mbyte_s: bulk.mbyte_s,
    }
}

/// What is left of an exchange that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Replies that each client had.
    pub replies: Vec<u64>,
    /// Messages whose senders do not know what became of them, or that are on their way into host
    /// memory.
    pub pending: usize,
    /// What happened.
    pub totals: Totals,
    /// How requests ended, if the cluster has faults.
    pub ends: Option<Ends>,
}

/// Each client makes `requests` requests, and everything comes to its end.
///
/// # Panics
/// As [`contention`].
#[must_use]
pub fn exchange(
    config: Config,
    server: Server,
    clients: u16,
    bytes: u32,
    requests: u64,
) -> Exchange {
    match config.model {
        LinkModel::Wormhole => exchange_on::<HeldLinks>(config, server, clients, bytes, requests),
        LinkModel::Shared(..) => exchange_on::<FairLinks>(config, server, clients, bytes, requests),
    }
}

fn exchange_on<N: Links>(
    config: Config,
    server: Server,
    clients: u16,
    bytes: u32,
    requests: u64,
) -> Exchange {
    let mut cluster = start::<N>(config, server, clients, bytes, u32::MAX, requests);
    // Nothing here takes an hour; what is left then hangs.
    cluster.run_until(Time::from_milliseconds(3_600_000));
    Exchange {
        replies: cluster.clients().map(|client| client.replies).collect(),
        pending: cluster.messages.count() - cluster.in_doubt + cluster.writes.len()
            - cluster.free_writes.len(),
        totals: cluster.totals(),
        ends: cluster.ledger.as_ref().map(|ledger| ledger.ends()),
    }
}

/// Makes hosts, endpoints and programs. At most `credits` requests outstanding of each client, and
/// no more than a queue holds.
fn start<N: Links>(
    config: Config,
    server: Server,
    clients: u16,
    bytes: u32,
    credits: u32,
    requests: u64,
) -> Cluster<N> {
    assert!(
        u32::from(clients) < config.hosts && (1..=64).contains(&clients),
        "{clients} clients on {} hosts",
        config.hosts
    );
    let credits = credits.min(config.queue_entries);
    let mut cluster = match Cluster::new(config) {
        Ok(cluster) => cluster,
        Err(error) => panic!("{error}"),
    };
    for number in 0..=clients {
        let host = cluster.join(number.into());
        let setup = Setup {
            server,
            clients,
            bytes,
            credits,
            requests,
        };
        cluster.nodes[host as usize].setup = Some(setup);
        cluster.begin_program(host, setup, Time::ZERO);
    }
    cluster
}

/// What the hosts of an experiment run: a server on the first, clients on others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    server: Server,
    clients: u16,
    bytes: u32,
    credits: u32,
    /// Of each client.
    requests: u64,
}

impl<N: Links> Cluster<N> {
    /// A host begins its part, at first or after a boot.
    pub(crate) fn begin_program(&mut self, host: u32, setup: Setup, now: Time) {
        let is_shared = setup.server == Server::One;
        if host == 0 {
            let endpoints = if is_shared { 1 } else { setup.clients };
            for _ in 0..endpoints {
                self.create_endpoint(0);
            }
            let state = ServerState::new(setup.server, u32::from(endpoints));
            self.nodes[0].program = Program::Server(state);
            return;
        }
        let endpoint = self.create_endpoint(host);
        // The server made its endpoints in the order of clients.
        let target = if is_shared { 0 } else { host - 1 };
        let server_key = self.nodes[0].boot;
        let node = &mut self.nodes[host as usize];
        match &mut node.program {
            // It goes on counting what it measures.
            Program::Client(client) => {
                client.endpoint = endpoint;
                client.credits = setup.credits;
                client.server_key = server_key;
            }
            program => {
                *program = Program::Client(Client {
                    endpoint,
                    server: (0, Endpoint::new(target)),
                    server_key,
                    has_heard: false,
                    credits: setup.credits,
                    bytes: setup.bytes,
                    requests_left: setup.requests,
                    replies: 0,
                    round_trips_ps: 0,
                    round_trips_ns: LogHistogram::default(),
                });
            }
        }
        self.kick_host(host, now);
    }
}

impl<N: Links> Cluster<N> {
    fn clients(&self) -> impl Iterator<Item = &Client> {
        self.nodes.iter().filter_map(|node| match &node.program {
            Program::Client(client) => Some(client),
            _ => None,
        })
    }
}

fn run(
    config: Config,
    server: Server,
    clients: u16,
    bytes: u32,
    credits: u32,
    (warm_up, window): (Time, Time),
) -> Contention {
    match config.model {
        LinkModel::Wormhole => {
            let cluster = start::<HeldLinks>(config, server, clients, bytes, credits, u64::MAX);
            observe(cluster, bytes, warm_up, window)
        }
        LinkModel::Shared(..) => {
            let cluster = start::<FairLinks>(config, server, clients, bytes, credits, u64::MAX);
            observe(cluster, bytes, warm_up, window)
        }
    }
}

/// Lets a cluster run, and says what happened in a window.
fn observe<N: Links>(
    mut cluster: Cluster<N>,
    bytes: u32,
    warm_up: Time,
    window: Time,
) -> Contention {
    cluster.measured_from = warm_up;
    cluster.run_until(warm_up);
    let before = cluster.totals();
    cluster.watch_links();
    cluster.run_until(warm_up + window);
    let after = cluster.totals();
    let seconds = window.seconds_f64();
    let results = cluster.clients().map(|client| ClientResult {
        messages_s: client.replies as f64 / seconds,
        round_trip_us: client.round_trips_ps as f64 / client.replies.max(1) as f64 * 1e-6,
    });
    let clients: Vec<_> = results.collect();
    let mut round_trips_ns = LogHistogram::default();
    for client in cluster.clients() {
        round_trips_ns.merge(&client.round_trips_ns);
    }
    let messages_s = clients.iter().map(|client| client.messages_s).sum();
    Contention {
        messages_s,
        mbyte_s: messages_s * f64::from(bytes) * 1e-6,
        clients,
        round_trips_ns,
        window: Totals {
            events: after.events - before.events,
            packets: after.packets - before.packets,
            lost: after.lost - before.lost,
            stops: after.stops - before.stops,
            remaps: after.remaps - before.remaps,
            refusals: after.refusals - before.refusals,
            retransmissions: after.retransmissions - before.retransmissions,
            returned: after.returned - before.returned,
        },
        links: cluster.link_loads(),
        ends: cluster.ledger.as_ref().map(|ledger| ledger.ends()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look into a frame takes 500, one at an odd endpoint, which is in host memory, 100.
    fn look(endpoint: Endpoint) -> Time {
        Time::from_nanoseconds(if endpoint.index().is_multiple_of(2) {
            500
        } else {
            100
        })
    }

    fn nanoseconds(span: Time) -> u64 {
        span.picoseconds() / 1000
    }

    #[test]
    fn one_thread_pays_for_the_empty_endpoints_that_it_passes_where_they_are() {
        let switch = Time::from_nanoseconds(2_200);
        let mut server = ServerState::new(Server::SingleThread, 6);
        server.ready = 1 << 4;
        // Past 1, 2 and 3.
        let (endpoint, span) = server.choose(0, switch, look).unwrap();
        assert_eq!((endpoint.index(), nanoseconds(span)), (4, 700));
        server.ready = 1 << 1;
        // Past 5 and 0.
        let (endpoint, span) = server.choose(0, switch, look).unwrap();
        assert_eq!((endpoint.index(), nanoseconds(span)), (1, 600));
        // Nothing is there: half a round, and then it stands before the endpoint.
        let noticed = server.notice(Endpoint::new(3), look);
        assert_eq!(nanoseconds(noticed), (3 * 500 + 3 * 100) / 2);
        server.ready = 1 << 3;
        let (endpoint, span) = server.choose(0, switch, look).unwrap();
        assert_eq!((endpoint.index(), nanoseconds(span)), (3, 0));
    }

    #[test]
    fn a_thread_an_endpoint_looks_once_more_before_it_sleeps() {
        let switch = Time::from_nanoseconds(2_200);
        let mut server = ServerState::new(Server::MultiThread, 6);
        server.ready = 1 << 4;
        let (_, span) = server.choose(0, switch, look).unwrap();
        assert_eq!(nanoseconds(span), 2_700);
        let (_, span) = server.choose(0, switch, look).unwrap();
        assert_eq!(nanoseconds(span), 0);
        server.ready = 1 << 5;
        let (_, span) = server.choose(0, switch, look).unwrap();
        assert_eq!(nanoseconds(span), 2_700);
        assert_eq!(nanoseconds(server.notice(Endpoint::new(5), look)), 50);
    }
}
