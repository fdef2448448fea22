//! Connections between processes: set up when first used, before the message that needs them.
//!
//! Set-up takes no simulated time, since a study measures connections that exist: the two NICs are
//! introduced to each other, in place of a request and an acceptance. A VI belongs to one pair
//! of processes, so a process has as many VIs as peers. Its receives are posted before its first
//! message is sent.

use viaduct_core::{
    DataSegment, Descriptor, HostAddress, MemoryAttributes, Queue, Segments, Timestamp,
    ViAttributes, ViId,
};

use crate::cluster::Cluster;
use crate::config::UNLIMITED;
use crate::connections::Connection;
use crate::host::Endpoint;
use crate::programs::Programs;
use viaduct_hardware::pages::BUFFER_OFFSET_BYTES;

/// Where a process's registered memory begins, in its own addresses.
pub(crate) const BUFFER_BASE: u64 = 1 << 32;

/// The cookie of every receive. They all read into like buffers, so that nothing hangs on which one
/// it is, and `viaduct-core` keeps equal ones as one.
const RECEIVE_COOKIE: u64 = 0;

/// Receives that a VI posts before its first message. The others follow when a message finds none:
/// posting takes no simulated time, so that the difference is what a run costs.
pub const RECEIVES_AT_FIRST: u32 = 8;

/// A receive descriptor that its application has back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repost {
    vi: ViId,
}

/// What went wrong between two processes of the simulation itself.
type SetUpError = Box<dyn core::error::Error>;

impl<P: Programs> Cluster<P> {
    /// The place of the connection from `process` to `peer` in the former's list, ready for a
    /// message; none if it could not be set up, which is a violation.
    pub(crate) fn connect(&mut self, process: u32, peer: u32) -> Option<u32> {
        let place = match self.processes[process as usize].connections.place_of(peer) {
            Some(place) => place,
            None => match self.set_up(process, peer) {
                Ok(place) => place,
                Err(error) => {
                    self.refuse(process, peer, &error);
                    return None;
                }
            },
        };
        let connection = self.processes[process as usize].connections.at(place);
        if !connection.is_peer_ready {
            connection.is_peer_ready = true;
            let peer_vi = connection.peer_vi;
            if let Err(error) = self.pre_post(peer, peer_vi) {
                self.refuse(process, peer, &error);
                return None;
            }
        }
        Some(place)
    }

    pub(crate) fn refuse(&mut self, process: u32, peer: u32, error: &SetUpError) {
        self.violations.push(format!(
            "process {process} could not connect to process {peer}: {error}"
        ));
    }

    fn set_up(&mut self, client: u32, server: u32) -> Result<u32, SetUpError> {
        let (client_vi, server_vi) = self.new_vis(client, server)?;
        self.idle.made();
        self.insert(server, client, Connection::new(server_vi, client_vi));
        Ok(self.insert(client, server, Connection::new(client_vi, server_vi)))
    }

    fn insert(&mut self, process: u32, peer: u32, mut connection: Connection) -> u32 {
        // Mostly none was ever given back.
        if !self.unreaped.is_empty() {
            let unreaped = self.unreaped.remove(&(process, peer));
            connection.unreaped = unreaped.unwrap_or_default();
        }
        let connections = &mut self.processes[process as usize].connections;
        connections.insert(peer, connection)
    }

    /// Two VIs of two processes, connected.
    pub(crate) fn new_vis(&mut self, client: u32, server: u32) -> Result<(ViId, ViId), SetUpError> {
        let (client_host, server_host) = (self.host_of(client), self.host_of(server));
        let client_vi = self.create_vi(client)?;
        let server_vi = self.create_vi(server)?;
        let mut introduce = |host: u32, vi| {
            let nic = &mut self.nics[host as usize];
            nic.introduce(drawn_address(host), vi)
        };
        let client_end = introduce(client_host, client_vi)?;
        let server_end = introduce(server_host, server_vi)?;
        let nic = &mut self.nics[client_host as usize];
        nic.connect_to(&client_end, &server_end)?;
        let nic = &mut self.nics[server_host as usize];
        nic.connect_to(&server_end, &client_end)?;
        Ok((client_vi, server_vi))
    }

    /// As the semantics counts time.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_picoseconds(self.queue.now().picoseconds())
    }

    fn create_vi(&mut self, process: u32) -> Result<ViId, SetUpError> {
        let host = self.host_of(process) as usize;
        let endpoint = match self.processes[process as usize].endpoint {
            Some(endpoint) => endpoint,
            None => {
                let endpoint = self.create_endpoint(host)?;
                self.processes[process as usize].endpoint = Some(endpoint);
                endpoint
            }
        };
        let (rdma_write, rdma_read) = self.remote_rights();
        let attributes = ViAttributes {
            reliability: self.config.traffic.reliability,
            rdma_write,
            rdma_read,
            ..ViAttributes::unreliable(endpoint.tag, self.buffer_bytes())
        };
        Ok(self.drawn_mut(host as u32).create_vi(
            attributes,
            None,
            Some(endpoint.receive_completions),
        )?)
    }

    fn create_endpoint(&mut self, host: usize) -> Result<Endpoint, SetUpError> {
        let (rdma_write, rdma_read) = self.remote_rights();
        let nic = &mut self.nics[host];
        let tag = nic.create_protection_tag()?;
        // One region holds all buffers; a buffer's place in it matters for pages only, and each
        // begins alike.
        let length = BUFFER_OFFSET_BYTES + u64::from(self.config.traffic.size.max_bytes()).max(1);
        let attributes = MemoryAttributes {
            rdma_write,
            rdma_read,
            ..MemoryAttributes::local(tag)
        };
        let memory = nic.register_memory(BUFFER_BASE, length, attributes)?;
        let receive_completions = nic.create_completion_queue(self.config.hosts.prepost.max(1))?;
        Ok(Endpoint {
            tag,
            memory,
            receive_completions,
        })
    }

    fn pre_post(&mut self, process: u32, vi: ViId) -> Result<(), SetUpError> {
        if !self.config.traffic.takes_receives() {
            return Ok(());
        }
        let prepost = self.config.hosts.prepost.min(RECEIVES_AT_FIRST);
        let buffer = self.buffer(process, self.buffer_bytes());
        let host = self.host_of(process);
        let nic = &mut self.nics[host as usize];
        for _ in 0..prepost {
            nic.post_receive(vi, Descriptor::receive(segments(buffer), RECEIVE_COOKIE))?;
        }
        Ok(())
    }

    /// Sees to it that a VI has a receive for the next message, if it may hold another one; says
    /// whether it has.
    #[inline]
    pub(crate) fn has_receive(&mut self, process: u32, host: u32, vi: ViId) -> bool {
        self.drawn_mut(host).unstarted(vi, Queue::Receive) > 0 || self.post_late(process, vi)
    }

    #[cold]
    fn post_late(&mut self, process: u32, vi: ViId) -> bool {
        let prepost = self.config.hosts.prepost;
        if prepost <= RECEIVES_AT_FIRST {
            return false;
        }
        let late = self.late_receives.entry((process, vi)).or_insert(0);
        if prepost != UNLIMITED && *late >= prepost - RECEIVES_AT_FIRST {
            return false;
        }
        *late += 1;
        self.post_receive(process, Repost { vi });
        true
    }

    /// The buffer of a message of `bytes`.
    #[inline]
    pub(crate) fn buffer(&self, process: u32, bytes: u32) -> Option<DataSegment> {
        let endpoint = self.processes[process as usize].endpoint;
        endpoint.filter(|_| bytes > 0).map(|endpoint| DataSegment {
            address: BUFFER_BASE + BUFFER_OFFSET_BYTES,
            handle: endpoint.memory,
            length: bytes,
        })
    }

    /// Bytes of a receive buffer: the largest message fits.
    fn buffer_bytes(&self) -> u32 {
        self.config.traffic.size.max_bytes().max(1)
    }

    /// The application takes what is complete and checks it; returns the descriptor to post again.
    ///
    /// A VI completes its receives in post order: one that was overtaken is taken later, with more,
    /// and those beyond the first are posted again at once.
    pub(crate) fn take_completions(&mut self, process: u32) -> Option<Repost> {
        let endpoint = self.processes[process as usize].endpoint?;
        let host = self.host_of(process);
        let mut first = None;
        while let Some(entry) = self
            .drawn_mut(host)
            .completion_queue_done(endpoint.receive_completions)
        {
            let completion = self.drawn_mut(host).receive_done(entry.vi).completion();
            let is_well = completion.is_some_and(|completion| !completion.status.is_error());
            if !is_well && self.failures.is_some() {
                // Of what broke nothing is posted again.
                if !self.takes_receives(host, entry.vi) {
                    continue;
                }
            } else if !is_well {
                self.violations.push(format!(
                    "host {host}: a receive was not completed well: {completion:?}"
                ));
                continue;
            }
            self.completions_taken += u64::from(is_well);
            let repost = Repost { vi: entry.vi };
            if first.is_none() {
                first = Some(repost);
            } else {
                self.post_receive(process, repost);
            }
        }
        first
    }

    pub(crate) fn post_receive(&mut self, process: u32, repost: Repost) {
        let host = self.host_of(process);
        if !self.takes_receives(host, repost.vi) {
            return;
        }
        let buffer = self.buffer(process, self.buffer_bytes());
        let nic = &mut self.nics[host as usize];
        // Two calls, so that each makes its descriptor in place.
        let posted = match buffer {
            Some(buffer) => nic.post_receive_with(repost.vi, || {
                Descriptor::receive(Segments::one(buffer), RECEIVE_COOKIE)
            }),
            None => nic.post_receive(
                repost.vi,
                Descriptor::receive(Segments::none(), RECEIVE_COOKIE),
            ),
        };
        if let Err(error) = posted {
            self.violations
                .push(format!("host {host} could not post a receive: {error}"));
        }
    }
}

/// The address of a host's NIC, as the study's own processes use it. Nobody else sees it.
pub(crate) fn drawn_address(host: u32) -> HostAddress {
    HostAddress::new(host.into())
}

/// The segments of a descriptor for a message in `buffer`; none if it has no bytes.
#[inline]
fn segments(buffer: Option<DataSegment>) -> Segments {
    buffer.map_or(Segments::none(), Segments::one)
}
