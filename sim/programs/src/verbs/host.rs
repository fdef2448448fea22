//! A host's RDMA adapter: its objects, and what follows from what happens to them.

use std::mem;
use std::net::Ipv4Addr;

use viaduct_agent::{Elsewhere, elsewhere, first_generation};
use viaduct_cluster::programs::{Outgoing, Take};
use viaduct_engine::{EventId, Time};
use viaduct_hardware::Mechanism;
use viaduct_provider::via::verbs::{
    Adapter, Answer, Completion, CompletionOpcode, CompletionStatus, Limits, Memory, Mtu, Packet,
    Packets, Taken,
};

use crate::cluster::{Cluster, Hosted};
use crate::event::Event;

/// The adapter of a host that has queue pairs.
#[derive(Debug)]
pub(crate) struct Verbs {
    pub(crate) adapter: Adapter,
    /// By the place of a queue pair: when it is looked at though nothing comes.
    timers: Vec<Option<(u64, EventId)>>,
    /// Not later than the first of these.
    first_timer: Time,
    /// Places of queue pairs that had sends which nobody acknowledges.
    unacknowledged: Vec<u32>,
    /// How long the host's processor was busy with waking the program that takes next.
    pub(super) woken: Time,
}

/// The memory of the programs of all hosts: this process's, and that of programs elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct ProgramMemory {
    elsewhere: Elsewhere,
}

impl ProgramMemory {
    /// # Safety
    ///
    /// Addresses are those of registered memory that is still there, or of inline bytes that can be
    /// read.
    pub(crate) unsafe fn of(cluster: &Cluster, host: u32) -> Self {
        let elsewhere = cluster.programs.hosts[host as usize]
            .agent
            .elsewhere
            .clone();
        Self { elsewhere }
    }
}

impl Memory for ProgramMemory {
    fn read(&self, address: u64, length: usize, into: &mut Vec<u8>) {
        let start = into.len();
        into.resize(start + length, 0);
        let bytes = &mut into[start..];
        if let Some((memory, owner, address)) = elsewhere::find(&self.elsewhere, address) {
            return memory.read(owner, address, bytes);
        }
        // SAFETY: as promised when this was made; the bytes are not a program's.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), length) };
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        if let Some((memory, owner, address)) = elsewhere::find(&self.elsewhere, address) {
            return memory.write(owner, address, bytes);
        }
        // SAFETY: as promised when this was made; the bytes are not a program's.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }
}

/// Bits of a number that name a queue pair of a host, if there are not too many hosts.
const PAIR_BITS_MAX: u32 = 14;
/// Bits of a queue pair's number.
const NUMBER_BITS: u32 = 24;
/// Objects of a kind.
const OBJECTS_MAX: u32 = 65_536;
/// Bytes that a send may bring with it.
const INLINE_BYTES_MAX: u32 = 944;

/// Bits of a number that name a queue pair of one of so many hosts. Host 0 has no special numbers.
const fn pair_bits(hosts: u32) -> u32 {
    let host_bits = u32::BITS - hosts.leading_zeros();
    match NUMBER_BITS.checked_sub(host_bits) {
        Some(bits) if bits < PAIR_BITS_MAX => bits,
        Some(_) => PAIR_BITS_MAX,
        None => 0,
    }
}

/// The host that has a number, of so many.
pub(super) fn host_of(number: u32, hosts: u32) -> Option<u32> {
    let host = (number >> pair_bits(hosts)).checked_sub(1)?;
    (host < hosts).then_some(host)
}

/// The address of a host's adapter, unless somebody says otherwise: one of 10.0.0.0/8.
fn address_of(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(10 << 24 | (host + 1) & 0xff_ffff)
}

/// The time of adapters: nanoseconds, never 0.
const fn nanoseconds(time: Time) -> u64 {
    time.picoseconds() / 1000 + 1
}

/// The first moment at which that is their time.
const fn time_of(nanoseconds: u64) -> Time {
    Time::from_picoseconds((nanoseconds - 1).saturating_mul(1000))
}

impl Verbs {
    /// That of a place of so many, which is an adapter of this number in its host.
    fn new(host: u32, hosts: u32, adapter: u32, address: Ipv4Addr) -> Self {
        let bits = pair_bits(hosts);
        let limits = Limits {
            first_number: (host + 1) << bits,
            max_queue_pairs: 1 << bits,
            max_regions: OBJECTS_MAX,
            max_address_handles: OBJECTS_MAX,
            max_objects: OBJECTS_MAX,
            max_requests: 16_384,
            max_elements: 32,
            max_inline_bytes: INLINE_BYTES_MAX,
            min_inline_bytes: 0,
            max_completion_entries: 4_194_303,
            max_read_atomic: 16,
            max_message_bytes: 1 << 31,
            max_region_bytes: 1 << 46,
            mtu: Mtu::Bytes4096,
            gids: 1,
            needs_route: true,
        };
        Self {
            adapter: Adapter::new(
                limits,
                first_generation(adapter),
                Packets::from(address.to_ipv6_mapped().octets()),
            ),
            timers: Vec::new(),
            first_timer: Time::MAX,
            unacknowledged: Vec::new(),
            woken: Time::ZERO,
        }
    }
}

impl Hosted {
    /// Whether a host's adapter has queue pairs.
    pub(crate) fn has_pairs(cluster: &Cluster, host: u32) -> bool {
        matches!(cluster.config.host.of(host).mechanism, Mechanism::Rdma(_))
    }

    /// The adapter of a host, which knows what time it is.
    pub(crate) fn adapter(cluster: &mut Cluster, host: u32) -> &mut Adapter {
        let (now, hosts) = (cluster.now(), cluster.place_count());
        let adapter = cluster.config.adapter_at(host).1;
        let first = cluster.programs.first_address;
        let verbs = &mut cluster.programs.host(host).verbs;
        let make = || {
            let own = |first: Ipv4Addr| Ipv4Addr::from_bits(first.to_bits() + host);
            let address = first.map_or_else(|| address_of(host), own);
            Box::new(Verbs::new(host, hosts, adapter, address))
        };
        let verbs = verbs.get_or_insert_with(make);
        verbs.adapter.set_time(nanoseconds(now));
        &mut verbs.adapter
    }

    /// What follows when something was done with a host's adapter. A post to a queue pair at this
    /// place took the processor so long.
    pub(crate) fn follow_pairs(
        cluster: &mut Cluster,
        host: u32,
        posted: Option<(u32, (Time, Time))>,
    ) {
        while let Some(place) = Self::adapter(cluster, host).poll_ready() {
            Self::note_unacknowledged(cluster, host, place);
            match posted {
                Some((pair, worked)) if pair == place => {
                    cluster.posted_to_pair(host, place, worked);
                }
                _ => cluster.kick_pair(host, place),
            }
            Self::set_timer(cluster, host, place);
        }
        if Self::adapter(cluster, host).takes_news() {
            Self::changed(cluster, host);
        }
    }

    /// A queue pair is looked at when something is due.
    fn set_timer(cluster: &mut Cluster, host: u32, place: u32) {
        let Some(due) = Self::adapter(cluster, host).due(place) else {
            return;
        };
        let at = place as usize;
        let Some(verbs) = &mut cluster.programs.host(host).verbs else {
            return;
        };
        if verbs.timers.len() <= at {
            verbs.timers.resize(at + 1, None);
        }
        if let Some((time, event)) = verbs.timers[at] {
            // One that comes too early looks again.
            if time <= due {
                return;
            }
            cluster.cancel(event);
        }
        let time = time_of(due).max(cluster.now());
        let event = cluster.schedule(time, Event::Pair(host, place));
        if let Some(verbs) = &mut cluster.programs.host(host).verbs {
            verbs.timers[at] = Some((due, event));
            verbs.first_timer = verbs.first_timer.min(time);
        }
    }

    /// Sends of a queue pair are to go.
    fn note_unacknowledged(cluster: &mut Cluster, host: u32, place: u32) {
        if let Some(verbs) = &mut cluster.programs.host(host).verbs
            && verbs.adapter.has_unacknowledged(place)
            && !verbs.unacknowledged.contains(&place)
        {
            verbs.unacknowledged.push(place);
        }
    }

    /// Before when nothing happens to queue pairs of a place by itself, and completion queues
    /// there, which have nothing, have nothing then; none: it is not known.
    pub(crate) fn quiet_until(cluster: &Cluster, place: u32) -> Option<Time> {
        let host = &cluster.programs.hosts[place as usize];
        let verbs = host.verbs.as_deref()?;
        let adapter = &verbs.adapter;
        let mut may_complete = verbs.unacknowledged.iter();
        let may_complete = may_complete.any(|pair| adapter.has_unacknowledged(*pair));
        let has_more = host.agent.has_nics() || !adapter.notices.has_nothing();
        match has_more || may_complete || cluster.is_slowed(place) {
            true => None,
            false => Some(cluster.quiet_until(place)?.min(verbs.first_timer)),
        }
    }

    /// Something may be due at a queue pair.
    pub(crate) fn expire_pair(cluster: &mut Cluster, host: u32, place: u32) {
        if cluster.is_host_dead(host) {
            return;
        }
        if let Some(verbs) = &mut cluster.programs.host(host).verbs {
            verbs.timers[place as usize] = None;
            let dues = verbs.timers.iter().flatten().map(|(due, _)| *due);
            verbs.first_timer = dues.min().map_or(Time::MAX, time_of);
        }
        if Self::adapter(cluster, host).expire(place) {
            cluster.programs.counts.retransmissions += 1;
        }
        cluster.settle_pair(host, place);
        Self::follow_pairs(cluster, host, None);
        Self::set_timer(cluster, host, place);
    }

    pub(crate) fn unstarted(&self, host: u32, pair: u32) -> u32 {
        let verbs = self.hosts[host as usize].verbs.as_deref();
        verbs.map_or(0, |verbs| verbs.adapter.unstarted(pair))
    }

    pub(crate) fn incomplete(&self, host: u32, pair: u32) -> Option<u32> {
        let verbs = self.hosts[host as usize].verbs.as_deref()?;
        verbs.adapter.incomplete(pair)
    }

    pub(crate) fn place_of_number(&self, host: u32, number: u32) -> Option<u32> {
        let verbs = self.hosts[host as usize].verbs.as_deref()?;
        verbs.adapter.place_of(number)
    }

    pub(crate) fn begin_send(
        cluster: &mut Cluster,
        host: u32,
        pair: u32,
        into: &mut Vec<u8>,
    ) -> Option<Outgoing> {
        // SAFETY: the adapter checks what it reads against its regions, which whoever has
        // registered them keeps.
        let memory = unsafe { ProgramMemory::of(cluster, host) };
        let hosts = cluster.place_count();
        let adapter = Self::adapter(cluster, host);
        let packet = adapter.begin(pair, &memory, into);
        if adapter.takes_news() {
            Self::changed(cluster, host);
        }
        cluster.settle_pair(host, pair);
        if packet.is_none() {
            Self::set_timer(cluster, host, pair);
        }
        packet.map(|packet| Outgoing {
            target: host_of(packet.target, hosts),
            packet,
        })
    }

    pub(crate) fn send_left(cluster: &mut Cluster, host: u32, pair: u32, sequence: u32) {
        Self::adapter(cluster, host).left(pair, sequence);
        cluster.settle_pair(host, pair);
        Self::follow_pairs(cluster, host, None);
        Self::set_timer(cluster, host, pair);
    }

    pub(crate) fn take_packet(
        cluster: &mut Cluster,
        host: u32,
        packet: &Packet,
        bytes: &mut Vec<u8>,
    ) -> Taken {
        // SAFETY: as in `begin_send`.
        let mut memory = unsafe { ProgramMemory::of(cluster, host) };
        let adapter = Self::adapter(cluster, host);
        let taken = adapter.take(packet, bytes, &mut memory);
        if let Some(pair) = adapter.place_of(packet.target) {
            // What it cannot take may have broken it.
            cluster.settle_pair(host, pair);
        }
        Self::follow_pairs(cluster, host, None);
        taken
    }

    pub(crate) fn hear_answer(
        cluster: &mut Cluster,
        (host, pair): (u32, u32),
        sequence: u32,
        answer: Answer,
        bytes: &[u8],
    ) -> bool {
        // SAFETY: as in `begin_send`.
        let mut memory = unsafe { ProgramMemory::of(cluster, host) };
        let adapter = Self::adapter(cluster, host);
        let before = adapter.unstarted(pair);
        let is_placed = adapter.hear(pair, sequence, answer, bytes, &mut memory);
        if matches!(answer, Answer::Missing { .. }) && adapter.unstarted(pair) > before {
            cluster.programs.counts.retransmissions += 1;
        }
        cluster.settle_pair(host, pair);
        Self::follow_pairs(cluster, host, None);
        Self::set_timer(cluster, host, pair);
        is_placed
    }

    /// A program has taken completions, for which its processor is busy: the messages are accounted
    /// for whose receives they are, if anybody asks.
    pub(crate) fn tell_completed(
        cluster: &mut Cluster,
        host: u32,
        completions: &[Completion],
        mut take: Take,
    ) {
        if !cluster.has_account() {
            return;
        }
        if let Some(verbs) = &mut cluster.programs.host(host).verbs {
            take.notice += mem::take(&mut verbs.woken);
        }
        for completion in completions {
            let is_receive = matches!(
                completion.opcode,
                CompletionOpcode::Receive | CompletionOpcode::ReceiveRdmaWithImmediate
            );
            let number = completion.queue_pair;
            if is_receive
                && completion.status == CompletionStatus::Success
                && let Some(pair) = cluster.programs.place_of_number(host, number)
            {
                cluster.taken_of_pair(host, pair, take);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_which_host_they_are_on() {
        for hosts in [1, 2, 1000, 1023, 1024, 65_000, 1 << 20] {
            let bits = pair_bits(hosts);
            for host in [0, hosts / 2, hosts - 1] {
                let last = ((host + 2) << bits) - 1;
                assert!(last < 1 << NUMBER_BITS, "{hosts} hosts");
                assert_eq!(host_of(last, hosts), Some(host));
                assert_eq!(host_of((host + 1) << bits, hosts), Some(host));
            }
            assert_eq!(host_of(0, hosts), None);
        }
        assert_eq!(host_of(0x80_4000, 2), None);
        assert_eq!(address_of(0), Ipv4Addr::new(10, 0, 0, 1));
    }
}
