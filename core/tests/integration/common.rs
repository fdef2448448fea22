//! Two hosts with real bytes, and a driver that carries messages between them at once.

use std::sync::Arc;

use viaduct_core::*;

/// First registered address of each host.
pub(crate) const BASE: u64 = 0x10_0000;
/// Registered bytes of each host.
pub(crate) const MEMORY_BYTES: u64 = 1 << 18;
/// Largest message of the VIs made here.
pub(crate) const TRANSFER_BYTES_MAX: u32 = 1 << 17;
/// Some time, for requests that are answered at once.
pub(crate) const SOON: Timespan = Timespan::from_milliseconds(10_000);

/// A NIC, its memory, and the registration of all of it.
pub(crate) struct Host {
    pub(crate) nic: Nic,
    pub(crate) memory: Vec<u8>,
    pub(crate) tag: ProtectionTag,
    pub(crate) handle: MemoryHandle,
    /// The same memory once more, open to peers.
    pub(crate) shared: MemoryHandle,
}

impl Host {
    pub(crate) fn new(attributes: &Arc<NicAttributes>) -> Self {
        let mut nic = Nic::new(attributes.clone());
        let tag = nic.create_protection_tag().unwrap();
        let local = MemoryAttributes::local(tag);
        let handle = nic.register_memory(BASE, MEMORY_BYTES, local).unwrap();
        let shared = MemoryAttributes {
            rdma_write: true,
            rdma_read: attributes.rdma_read_levels != ReliabilityLevels::NONE,
            ..local
        };
        let shared = nic.register_memory(BASE, MEMORY_BYTES, shared).unwrap();
        Self {
            nic,
            memory: vec![0; MEMORY_BYTES as usize],
            tag,
            handle,
            shared,
        }
    }

    pub(crate) fn attributes(&self) -> ViAttributes {
        ViAttributes::unreliable(self.tag, TRANSFER_BYTES_MAX)
    }

    pub(crate) fn vi(&mut self) -> ViId {
        let attributes = self.attributes();
        self.nic.create_vi(attributes, None, None).unwrap()
    }

    /// `length` registered bytes from `offset` on.
    pub(crate) fn data(&self, offset: u64, length: u32) -> DataSegment {
        DataSegment {
            address: BASE + offset,
            handle: self.handle,
            length,
        }
    }

    pub(crate) fn one(&self, offset: u64, length: u32) -> Segments {
        Segments::one(self.data(offset, length))
    }

    /// This host's memory from `offset` on, as its peers name it.
    pub(crate) fn remote(&self, offset: u64) -> RemoteSegment {
        RemoteSegment {
            address: BASE + offset,
            handle: self.shared,
        }
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.nic.poll_event()).collect()
    }

    pub(crate) fn state(&self, vi: ViId) -> ViState {
        self.nic.vi_state(vi).unwrap()
    }

    fn scatter(&mut self, segments: &[DataSegment], bytes: &[u8]) {
        let mut rest = bytes;
        for segment in segments {
            let (here, after) = rest.split_at(rest.len().min(segment.length as usize));
            if !here.is_empty() {
                let start = Self::range(segment).start;
                self.memory[start..start + here.len()].copy_from_slice(here);
            }
            rest = after;
        }
        assert!(rest.is_empty(), "the buffers hold the message");
    }

    fn range(segment: &DataSegment) -> std::ops::Range<usize> {
        let start = (segment.address - BASE) as usize;
        start..start + segment.length as usize
    }
}

/// Two hosts, and a VI on each that the short forms of the methods mean.
pub(crate) struct Pair {
    pub(crate) hosts: [Host; 2],
    pub(crate) vis: [ViId; 2],
    pub(crate) now: Timestamp,
}

pub(crate) fn address(host: usize, discriminator: &str) -> Address {
    Address::new(HostAddress::new(host as u64), discriminator.as_bytes())
}

impl Pair {
    pub(crate) fn unconnected_with(attributes: NicAttributes) -> Self {
        let attributes = Arc::new(attributes);
        let mut hosts = [Host::new(&attributes), Host::new(&attributes)];
        let vis = [hosts[0].vi(), hosts[1].vi()];
        Self {
            hosts,
            vis,
            now: Timestamp::ZERO,
        }
    }

    pub(crate) fn unconnected() -> Self {
        Self::unconnected_with(NicAttributes::default())
    }

    pub(crate) fn connected() -> Self {
        let mut pair = Self::unconnected();
        pair.connect();
        pair
    }

    /// Connected at a level, with everything enabled that it has.
    pub(crate) fn connected_at(level: ReliabilityLevel) -> Self {
        Self::connected_with(|attributes| {
            attributes.reliability = level;
            attributes.rdma_write = true;
            attributes.rdma_read = level.is_reliable();
        })
    }

    /// Connected with attributes that are changed from the usual ones at both ends.
    pub(crate) fn connected_with(change: impl Fn(&mut ViAttributes)) -> Self {
        let mut pair = Self::unconnected();
        pair.change_attributes(change);
        pair.connect();
        pair
    }

    pub(crate) fn change_attributes(&mut self, change: impl Fn(&mut ViAttributes)) {
        for (host, vi) in self.hosts.iter_mut().zip(self.vis) {
            let mut attributes = host.attributes();
            change(&mut attributes);
            host.nic.set_vi_attributes(vi, attributes).unwrap();
        }
    }

    pub(crate) fn connect(&mut self) {
        let [client, server] = self.vis;
        self.connect_vis(client, server);
    }

    pub(crate) fn connect_vis(&mut self, client: ViId, server: ViId) {
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
    pub(crate) fn request(&mut self, client: ViId, discriminator: &str) -> Option<RequestId> {
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
    pub(crate) fn carry(&mut self) {
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
    pub(crate) fn advance_to(&mut self, now: Timestamp) {
        self.now = now;
        for host in &mut self.hosts {
            host.nic.handle_timeout(now);
        }
        self.carry();
    }

    pub(crate) fn post_send(&mut self, side: usize, segments: Segments, cookie: u64) {
        let descriptor = Descriptor::send(segments, cookie);
        self.hosts[side]
            .nic
            .post_send(self.vis[side], descriptor)
            .unwrap();
    }

    pub(crate) fn post_receive(&mut self, side: usize, segments: Segments, cookie: u64) {
        let descriptor = Descriptor::receive(segments, cookie);
        self.hosts[side]
            .nic
            .post_receive(self.vis[side], descriptor)
            .unwrap();
    }

    /// Starts, carries and finishes every send of one side's VI, acknowledges it, and carries what
    /// the NICs have to say of it; what was dropped, and why.
    pub(crate) fn deliver(&mut self, side: usize) -> Vec<DropReason> {
        let vi = self.vis[side];
        self.deliver_from(side, vi)
    }

    pub(crate) fn deliver_from(&mut self, side: usize, vi: ViId) -> Vec<DropReason> {
        let mut drops = Vec::new();
        while let Some(send) = self.hosts[side].nic.start_send(vi) {
            drops.extend(self.deliver_one(side, vi, send));
        }
        self.carry();
        drops
    }

    /// Carries a send that was started.
    pub(crate) fn deliver_one(
        &mut self,
        side: usize,
        vi: ViId,
        send: StartedSend,
    ) -> Option<DropReason> {
        let source = &mut self.hosts[side];
        let segments = source.nic.send_segments(vi, send.work).to_vec();
        assert_eq!(segments.len(), send.segment_count as usize);
        let remote = source.nic.send_remote(vi, send.work);
        let is_remote = send.header.operation != Operation::SendReceive;
        assert_eq!(remote.is_some(), is_remote);
        let bytes: Vec<u8> = segments
            .iter()
            .flat_map(|s| source.memory[Host::range(s)].to_vec())
            .collect();
        assert_eq!(bytes.len(), send.header.length as usize);
        let target = send.peer.host.get() as usize;
        let placed = match send.header.operation {
            Operation::RdmaRead => match self.fetch(send.peer, &send.header, remote.unwrap()) {
                Ok(bytes) => {
                    self.hosts[side].scatter(&segments, &bytes);
                    let nic = &mut self.hosts[side].nic;
                    assert!(!nic.handle_acknowledgement(vi, send.work));
                    assert!(nic.finish_send(vi, send.work, SendOutcome::Sent));
                    Ok(())
                }
                Err(reason) => Err(reason),
            },
            operation => {
                let nic = &mut self.hosts[side].nic;
                assert!(nic.finish_send(vi, send.work, SendOutcome::Sent));
                let placed = if operation == Operation::RdmaWrite {
                    self.write(send.peer, &send.header, remote.unwrap(), &bytes)
                } else {
                    self.arrive(send.peer, &send.header, &bytes)
                };
                let awaited = self.hosts[target].nic.acknowledges(send.peer.vi);
                if placed.is_ok() && awaited {
                    let nic = &mut self.hosts[side].nic;
                    assert!(nic.handle_acknowledgement(vi, send.work));
                }
                placed
            }
        };
        self.carry();
        placed.err()
    }

    /// A message reaches its target.
    pub(crate) fn arrive(
        &mut self,
        to: Peer,
        header: &MessageHeader,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let target = &mut self.hosts[to.host.get() as usize];
        let receive = match target.nic.start_receive(to.vi, header) {
            ReceiveVerdict::Drop(reason) => return Err(reason),
            ReceiveVerdict::Place(receive) => receive,
        };
        let segments: Vec<_> = (0..u64::from(receive.receives))
            .flat_map(|place| {
                let work = receive.work.following(place);
                target.nic.receive_segments(to.vi, work).to_vec()
            })
            .collect();
        assert_eq!(segments.len(), receive.segment_count as usize);
        target.scatter(&segments, bytes);
        assert!(
            target
                .nic
                .finish_receive(to.vi, receive.work, ReceiveOutcome::Placed)
        );
        Ok(())
    }

    /// A remote write reaches its target.
    fn write(
        &mut self,
        to: Peer,
        header: &MessageHeader,
        remote: RemoteSegment,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let target = &mut self.hosts[to.host.get() as usize];
        let started = match target.nic.start_remote_write(to.vi, header, remote) {
            RemoteVerdict::Drop(reason) => return Err(reason),
            RemoteVerdict::Access(started) => started,
        };
        if !bytes.is_empty() {
            let start = (remote.address - BASE) as usize;
            target.memory[start..start + bytes.len()].copy_from_slice(bytes);
        }
        let outcome = ReceiveOutcome::Placed;
        assert!(target.nic.finish_remote_write(to.vi, started, outcome));
        Ok(())
    }

    /// A remote read reaches its target: the bytes that go back.
    fn fetch(
        &mut self,
        to: Peer,
        header: &MessageHeader,
        remote: RemoteSegment,
    ) -> Result<Vec<u8>, DropReason> {
        let target = &mut self.hosts[to.host.get() as usize];
        match target.nic.start_remote_read(to.vi, header, remote) {
            RemoteVerdict::Drop(reason) => Err(reason),
            RemoteVerdict::Access(_) if header.length == 0 => Ok(Vec::new()),
            RemoteVerdict::Access(_) => {
                let start = (remote.address - BASE) as usize;
                Ok(target.memory[start..start + header.length as usize].to_vec())
            }
        }
    }

    pub(crate) fn send_done(&mut self, side: usize) -> Done {
        self.hosts[side].nic.send_done(self.vis[side])
    }

    pub(crate) fn receive_done(&mut self, side: usize) -> Done {
        self.hosts[side].nic.receive_done(self.vis[side])
    }

    /// Takes every completed send, then every completed receive: cookies and status words.
    pub(crate) fn drain(&mut self, side: usize) -> [Vec<(u64, u32)>; 2] {
        let (nic, vi) = (&mut self.hosts[side].nic, self.vis[side]);
        let sends = std::iter::from_fn(|| nic.send_done(vi).completion());
        let sends = sends.map(|c| (c.cookie, c.status.bits())).collect();
        let receives = std::iter::from_fn(|| nic.receive_done(vi).completion());
        [
            sends,
            receives.map(|c| (c.cookie, c.status.bits())).collect(),
        ]
    }

    pub(crate) fn states(&self) -> [ViState; 2] {
        [
            self.hosts[0].state(self.vis[0]),
            self.hosts[1].state(self.vis[1]),
        ]
    }
}
