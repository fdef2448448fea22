//! A program that measures: bursts of requests, with computing between them.

use std::collections::VecDeque;

use viaduct_engine::Time;
use viaduct_interface::Endpoint;

use crate::cluster::{Cluster, Entry};
use crate::config::{Config, Host};
use crate::program::{Program, Server, ServerState};

/// Requests that a program makes one after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Burst {
    /// How many, at least 1.
    pub requests: u32,
    /// Payload of each.
    pub bytes: u32,
    /// What the program computes after each but the last.
    pub delay: Time,
    /// Whether replies carry as many bytes; if not, 16.
    pub is_echoed: bool,
}

/// How long a burst took.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Elapsed {
    /// From the beginning to the end of the last request's issue.
    pub issued: Time,
    /// From the beginning until the program has taken the last reply.
    pub finished: Time,
    /// What of both it computed.
    pub computed: Time,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Issue,
    Compute,
    Take,
}

/// Issues a request, computes, takes the replies that are there, and so on.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) endpoint: Endpoint,
    pub(crate) server: (u16, Endpoint),
    burst: Burst,
    left: u32,
    credits: u32,
    outstanding: u32,
    phase: Phase,
    issued_at: Time,
    taken_at: Time,
    computed: Time,
}

impl Probe {
    fn new(endpoint: Endpoint, server: (u16, Endpoint), burst: Burst, credits: u32) -> Self {
        Self {
            endpoint,
            server,
            burst,
            left: burst.requests,
            credits,
            outstanding: 0,
            phase: Phase::Issue,
            issued_at: Time::ZERO,
            taken_at: Time::ZERO,
            computed: Time::ZERO,
        }
    }

    pub(crate) const fn bytes(&self) -> u32 {
        self.burst.bytes
    }

    const fn is_over(&self) -> bool {
        self.left == 0 && self.outstanding == 0
    }

    /// A request came back: its reply never will.
    pub(crate) fn request_returned(&mut self) {
        self.credits += 1;
        self.outstanding -= 1;
    }

    /// What it does next: processor's time, and whether a request is posted at its end.
    pub(crate) fn act(
        &mut self,
        replies: &mut VecDeque<Entry>,
        is_blocked: bool,
        now: Time,
        costs: &Host,
    ) -> Option<(Time, bool)> {
        loop {
            match self.phase {
                Phase::Issue if self.left == 0 || self.credits == 0 || is_blocked => {
                    replies.pop_front()?;
                    return Some((self.take(now, costs), false));
                }
                Phase::Issue => {
                    self.left -= 1;
                    self.credits -= 1;
                    self.outstanding += 1;
                    self.issued_at = now + costs.send;
                    let computes = self.left > 0 && self.burst.delay > Time::ZERO;
                    self.phase = if computes {
                        Phase::Compute
                    } else {
                        Phase::Take
                    };
                    return Some((costs.send, true));
                }
                Phase::Compute => {
                    self.computed += self.burst.delay;
                    self.phase = Phase::Take;
                    return Some((self.burst.delay, false));
                }
                Phase::Take if replies.pop_front().is_some() => {
                    return Some((self.take(now, costs), false));
                }
                Phase::Take => self.phase = Phase::Issue,
            }
        }
    }

    fn take(&mut self, now: Time, costs: &Host) -> Time {
        self.credits += 1;
        self.outstanding -= 1;
        self.taken_at = now + costs.receive;
        costs.receive
    }
}

/// Two hosts: on one a program that measures, on the other a server of one endpoint.
#[derive(Debug)]
pub struct Prober {
    cluster: Cluster,
    endpoint: Endpoint,
    server: (u16, Endpoint),
    now: Time,
}

impl Prober {
    /// Both have exchanged a first request, so that their endpoints are in frames.
    ///
    /// # Panics
    ///
    /// If the configuration has fewer than two hosts.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        assert!(config.hosts >= 2, "{} hosts, not two", config.hosts);
        let mut cluster = Cluster::new(config.clone());
        let server = (0, cluster.create_endpoint(0));
        let endpoint = cluster.create_endpoint(1);
        let mut prober = Self {
            cluster,
            endpoint,
            server,
            now: Time::ZERO,
        };
        prober.burst(Burst {
            requests: 1,
            bytes: 16,
            delay: Time::ZERO,
            is_echoed: false,
        });
        prober
    }

    /// What has been simulated so far.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Makes the requests of a burst; no more are outstanding than a queue has entries.
    ///
    /// # Panics
    ///
    /// For a burst of no requests, and where a reply never comes: on a network that loses messages,
    /// without a transport that sends them again.
    pub fn burst(&mut self, burst: Burst) -> Elapsed {
        // Long after the last answer of the burst before.
        const REST: Time = Time::from_milliseconds(1);

        assert!(burst.requests > 0, "a burst of no requests");
        let start = self.now;
        let mut server = ServerState::new(Server::One, 1);
        server.is_echoing = burst.is_echoed;
        self.cluster.nodes[0].program = Program::Server(server);
        let credits = self.cluster.config.queue_entries;
        let probe = Probe::new(self.endpoint, self.server, burst, credits);
        self.cluster.nodes[1].program = Program::Probe(probe);
        self.cluster.kick_host(1, start);
        let probe = loop {
            assert!(self.cluster.step(), "a reply never came: {burst:?}");
            match &self.cluster.nodes[1].program {
                Program::Probe(probe) if probe.is_over() => break probe.clone(),
                _ => {}
            }
        };
        self.now = probe.taken_at.max(self.cluster.queue.now()) + REST;
        self.cluster.run_until(self.now);
        Elapsed {
            issued: probe.issued_at - start,
            finished: probe.taken_at - start,
            computed: probe.computed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(requests: u32, delay: Time) -> Burst {
        Burst {
            requests,
            bytes: 16,
            delay,
            is_echoed: false,
        }
    }

    #[test]
    fn a_burst_says_what_it_computed() {
        let mut prober = Prober::new(&Config::am_myrinet(2, 8));
        let delay = Time::from_microseconds(40);
        let elapsed = prober.burst(burst(5, delay));
        assert_eq!(elapsed.computed, delay.saturating_mul(4));
        assert!(elapsed.issued < elapsed.finished);
    }

    #[test]
    fn bursts_do_not_disturb_those_after_them() {
        let mut prober = Prober::new(&Config::am_myrinet(2, 8));
        let first = prober.burst(burst(1, Time::ZERO));
        prober.burst(burst(100, Time::ZERO));
        assert_eq!(prober.burst(burst(1, Time::ZERO)), first);
    }

    #[test]
    fn an_echo_takes_longer_than_a_short_reply() {
        let mut prober = Prober::new(&Config::gam_myrinet(2));
        let mut of = |is_echoed| {
            prober.burst(Burst {
                bytes: 8192,
                is_echoed,
                ..burst(1, Time::ZERO)
            })
        };
        let (echoed, short) = (of(true), of(false));
        // Twice 8 KB over a bus of 38 MB/s.
        assert!(echoed.finished > short.finished + Time::from_microseconds(200));
    }
}
