//! Two hosts with real bytes, and a driver that carries messages between them at once.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "shared by several test binaries")]

use std::sync::Arc;

use viaduct_via::*;

/// First registered address of each host.
pub const BASE: u64 = 0x10_0000;
/// Registered bytes of each host.
pub const MEMORY_BYTES: u64 = 1 << 18;
/// Largest message of the VIs made here.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 17;
/// Some time, for requests that are answered at once.
pub const SOON: Timespan = Timespan::from_milliseconds(10_000);

/// A NIC, its memory, and the registration of all of it.
pub struct Host {
    pub nic: Nic,
    pub memory: Vec<u8>,
    pub tag: ProtectionTag,
    pub handle: MemoryHandle,
}

impl Host {
    pub fn new(attributes: &Arc<NicAttributes>) -> Self {
        let mut nic = Nic::new(attributes.clone());
        let tag = nic.create_protection_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let handle = nic.register_memory(BASE, MEMORY_BYTES, local).unwrap();
        Self {
            nic,
            memory: vec![0; MEMORY_BYTES as usize],
            tag,
            handle,
        }
    }

    pub fn attributes(&self) -> ViAttributes {
        ViAttributes::unreliable(self.tag, TRANSFER_BYTES_MAX)
    }

    pub fn vi(&mut self) -> ViId {
        let attributes = self.attributes();
        self.nic.create_vi(attributes, None, None).unwrap()
    }

    /// `length` registered bytes from `offset` on.
    pub fn data(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment {
            address: BASE + offset,
            handle: self.handle,
            length,
        }
    }

    pub fn one(&self, offset: u64, length: u32) -> Segments {
        Segments::one(self.data(offset, length))
    }

    pub fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.nic.poll_event()).collect()
    }

    pub fn state(&self, vi: ViId) -> ViState {
        self.nic.vi_state(vi).unwrap()
    }

    fn range(segment: &DataSegment) -> std::ops::Range<usize> {
        let start = (segment.address - BASE) as usize;
        start..start + segment.length as usize
    }
}

/// Two hosts, and a VI on each that the short forms of the methods mean.
pub struct Pair {
    pub hosts: [Host; 2],
    pub vis: [ViId; 2],
    pub now: Timestamp,
}

pub fn address(host: usize, discriminator: &str) -> Address {
    Address::new(HostAddress::new(host as u64), discriminator.as_bytes())
}

impl Pair {
    pub fn unconnected_with(attributes: NicAttributes) -> Self {
        let attributes = Arc::new(attributes);
        let mut hosts = [Host::new(&attributes), Host::new(&attributes)];
        let vis = [hosts[0].vi(), hosts[1].vi()];
        Self {
            hosts,
            vis,
            now: Timestamp::ZERO,
        }
    }

    pub fn unconnected() -> Self {
        Self::unconnected_with(NicAttributes::default())
    }

    pub fn connected() -> Self {
        let mut pair = Self::unconnected();
        pair.connect();
        pair
    }

    pub fn connect(&mut self) {
        let [client, server] = self.vis;
        self.connect_vis(client, server);
    }

    pub fn connect_vis(&mut self, client: ViId, server: ViId) {
        let request = self.request(client, "server").expect("someone waits");
        self.hosts[1].nic.accept(request, server).unwrap();
        self.carry();
        assert_eq!(self.hosts[0].state(client), ViState::Connected);
        assert_eq!(self.hosts[1].state(server), ViState::Connected);
        for host in &mut self.hosts {
            host.events();
        }
    }

    /// Host 1 waits on `discriminator`, host 0 asks for it: the request as host 1 sees it.
    pub fn request(&mut self, client: ViId, discriminator: &str) -> Option<RequestId> {
        let server = address(1, discriminator);
        self.hosts[1]
            .nic
            .connect_wait(server.clone(), self.now, Timespan::INFINITE)
            .unwrap();
        self.hosts[0]
            .nic
            .connect_request(client, address(0, "client"), server, self.now, SOON)
            .unwrap();
        self.carry();
        self.hosts[1]
            .events()
            .into_iter()
            .find_map(|event| match event {
                Event::ConnectionRequested { request, .. } => Some(request),
                _ => None,
            })
    }

    /// Carries every connection message there is.
    pub fn carry(&mut self) {
        loop {
            let mut idle = true;
            for from in 0..2 {
                while let Some(Transmit { to, message }) = self.hosts[from].nic.poll_transmit() {
                    idle = false;
                    let target = &mut self.hosts[to.get() as usize].nic;
                    let from = HostAddress::new(from as u64);
                    target.handle_connection_message(from, message, self.now);
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Lets time pass on both hosts.
    pub fn advance_to(&mut self, now: Timestamp) {
        self.now = now;
        for host in &mut self.hosts {
            host.nic.handle_timeout(now);
        }
        self.carry();
    }

    pub fn post_send(&mut self, side: usize, segments: Segments, cookie: u64) {
        let descriptor = Descriptor::send(segments, cookie);
        self.hosts[side]
            .nic
            .post_send(self.vis[side], descriptor)
            .unwrap();
    }

    pub fn post_receive(&mut self, side: usize, segments: Segments, cookie: u64) {
        let descriptor = Descriptor::receive(segments, cookie);
        self.hosts[side]
            .nic
            .post_receive(self.vis[side], descriptor)
            .unwrap();
    }

    /// Starts, carries and finishes every send of one side's VI; what was dropped, and why.
    pub fn deliver(&mut self, side: usize) -> Vec<DropReason> {
        let vi = self.vis[side];
        self.deliver_from(side, vi)
    }

    pub fn deliver_from(&mut self, side: usize, vi: ViId) -> Vec<DropReason> {
        let mut drops = Vec::new();
        while let Some(send) = self.hosts[side].nic.start_send(vi) {
            let source = &mut self.hosts[side];
            let segments = source.nic.send_segments(vi, send.work);
            assert_eq!(segments.len(), send.segment_count as usize);
            let bytes: Vec<u8> = segments
                .iter()
                .flat_map(|s| source.memory[Host::range(s)].to_vec())
                .collect();
            assert_eq!(bytes.len(), send.header.length as usize);
            assert!(source.nic.finish_send(vi, send.work, SendOutcome::Sent));
            drops.extend(self.arrive(send.peer, &send.header, &bytes));
        }
        drops
    }

    /// A message reaches its target.
    pub fn arrive(&mut self, to: Peer, header: &MessageHeader, bytes: &[u8]) -> Option<DropReason> {
        let target = &mut self.hosts[to.host.get() as usize];
        let receive = match target.nic.start_receive(to.vi, header) {
            ReceiveVerdict::Drop(reason) => return Some(reason),
            ReceiveVerdict::Place(receive) => receive,
        };
        let mut rest = bytes;
        for segment in target.nic.receive_segments(to.vi, receive.work) {
            let (here, after) = rest.split_at(rest.len().min(segment.length as usize));
            let start = Host::range(segment).start;
            target.memory[start..start + here.len()].copy_from_slice(here);
            rest = after;
        }
        assert!(rest.is_empty(), "the buffers hold the message");
        assert!(
            target
                .nic
                .finish_receive(to.vi, receive.work, ReceiveOutcome::Placed)
        );
        None
    }

    pub fn send_done(&mut self, side: usize) -> Done {
        self.hosts[side].nic.send_done(self.vis[side])
    }

    pub fn receive_done(&mut self, side: usize) -> Done {
        self.hosts[side].nic.receive_done(self.vis[side])
    }

    /// Takes every completed send, then every completed receive: cookies and status words.
    pub fn drain(&mut self, side: usize) -> [Vec<(u64, u32)>; 2] {
        let (nic, vi) = (&mut self.hosts[side].nic, self.vis[side]);
        let sends = std::iter::from_fn(|| nic.send_done(vi).completion());
        let sends = sends.map(|c| (c.cookie, c.status.bits())).collect();
        let receives = std::iter::from_fn(|| nic.receive_done(vi).completion());
        [
            sends,
            receives.map(|c| (c.cookie, c.status.bits())).collect(),
        ]
    }

    pub fn states(&self) -> [ViState; 2] {
        [
            self.hosts[0].state(self.vis[0]),
            self.hosts[1].state(self.vis[1]),
        ]
    }
}
