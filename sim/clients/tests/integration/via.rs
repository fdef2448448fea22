//! VIs of clients: what comes from the memory of one into that of another, and what does not.

use std::sync::mpsc::channel;

use viaduct_calls::via::{FIRST_DEVICE, Remote};
use viaduct_programs::Simulation;
use viaduct_provider::via::{
    Address, HostAddress, MemoryAttributes, MemoryHandle, ProtectionTag, ReliabilityLevel,
    ViAttributes, ViState,
};
use viaduct_provider::{
    Descriptor, Done, NicHandle, Provider as _, ReturnCode, Segment, ViHandle, control,
};

use crate::turns::{Ran, compute, line, now, run, run_on};

/// Where everything of a client lies: descriptors, then data. A multiple of 64, as descriptors are.
#[repr(C, align(64))]
struct Room {
    descriptors: [Descriptor; 8],
    data: [u8; 256],
}

/// A client with a VI.
pub(crate) struct End {
    pub(crate) fabric: Remote,
    pub(crate) nic: NicHandle,
    tag: ProtectionTag,
    pub(crate) vi: ViHandle,
    room: Box<Room>,
    region: MemoryHandle,
    host: HostAddress,
}

impl End {
    fn new() -> Self {
        Self::at(Remote::at(line()), FIRST_DEVICE)
    }

    /// At the NIC of a name.
    pub(crate) fn at(fabric: Remote, device: &str) -> Self {
        let nic = fabric.open_nic(device).unwrap();
        let tag = fabric.create_protection_tag(nic).unwrap();
        let mut room = Box::new(Room {
            descriptors: [Descriptor::default(); 8],
            data: [0; 256],
        });
        let attributes = MemoryAttributes {
            tag,
            rdma_write: true,
            rdma_read: true,
        };
        let start = (&raw mut *room).cast();
        // SAFETY: the room stays where it is for as long as the region.
        let region = unsafe { fabric.register_memory(nic, start, size_of::<Room>(), &attributes) };
        let attributes = ViAttributes {
            reliability: ReliabilityLevel::ReliableDelivery,
            rdma_write: true,
            ..ViAttributes::unreliable(tag, 4096)
        };
        let vi = fabric.create_vi(nic, &attributes, None, None).unwrap();
        let (_, host) = fabric.query_nic(nic).unwrap();
        Self {
            region: region.unwrap(),
            fabric,
            nic,
            tag,
            vi,
            room,
            host,
        }
    }

    fn address(&self) -> u64 {
        (&raw const *self.room).addr() as u64
    }

    fn data(&self) -> u64 {
        self.address() + 8 * size_of::<Descriptor>() as u64
    }

    /// Fills a descriptor with a message of so many bytes of its data.
    fn describe(&mut self, place: usize, bytes: u32) -> *mut Descriptor {
        let address = self.data();
        let handle = self.region.bits();
        let descriptor = &mut self.room.descriptors[place];
        *descriptor = Descriptor::default();
        descriptor.control.segment_count = 1;
        descriptor.control.length = bytes;
        descriptor.segments[0] = Segment {
            address,
            handle,
            length: bytes,
        };
        descriptor
    }

    pub(crate) fn receive(&mut self, place: usize, bytes: u32) {
        let descriptor = self.describe(place, bytes);
        // SAFETY: descriptor and data are in the room.
        unsafe { self.fabric.post_receive(self.vi, descriptor, self.region) }.unwrap();
    }

    pub(crate) fn send(&mut self, place: usize, bytes: u32) {
        let descriptor = self.describe(place, bytes);
        // SAFETY: as above.
        unsafe { self.fabric.post_send(self.vi, descriptor, self.region) }.unwrap();
    }

    /// Looks until a receive completes.
    pub(crate) fn received(&self) -> Done {
        loop {
            match self.fabric.receive_done(self.vi).unwrap() {
                Done::NotDone => {}
                done => return done,
            }
        }
    }

    pub(crate) fn serve(&self) {
        let local = Address::new(self.host, b"here");
        let request = self.fabric.connect_wait(self.nic, &local, None).unwrap();
        self.fabric
            .connect_accept(request.connection, self.vi)
            .unwrap();
    }

    fn ask(&self, host: &str) {
        self.ask_at(host, 0);
    }

    /// By the server's adapter of a number.
    pub(crate) fn ask_at(&self, host: &str, adapter: u32) {
        let there = self.fabric.host_by_name(self.nic, host, adapter).unwrap();
        let (local, remote) = (Address::new(self.host, b""), Address::new(there, b"here"));
        loop {
            let asked = self.fabric.connect_request(self.vi, &local, &remote, None);
            match asked.map_err(|error| error.code()) {
                Ok(_) => return,
                Err(ReturnCode::NoMatch) => compute(1_000_000),
                Err(code) => panic!("{code:?}"),
            }
        }
    }

    /// What lies in its data, of which the kernel may have written.
    fn bytes(&self, bytes: usize) -> Vec<u8> {
        let start = &raw const self.room.data;
        // SAFETY: inside of its memory, while no turn of anybody else is on.
        let all: &[u8; 256] = unsafe { &*start };
        all[..bytes].to_vec()
    }

    fn control(&self, place: usize) -> viaduct_provider::ControlSegment {
        let from = &raw const self.room.descriptors[place].control;
        // SAFETY: as above.
        unsafe { from.read_volatile() }
    }
}

fn simulation(model: &str) -> Simulation {
    Simulation::new(viaduct_scenario::load_programs(model, None, 2).expect("a preset"))
}

fn between(
    model: &str,
    server: impl FnOnce() + Send + 'static,
    client: impl FnOnce() + Send + 'static,
) -> Ran {
    run(simulation(model), vec![Box::new(server), Box::new(client)])
}

#[test]
fn a_message_and_its_completion_come_into_the_memory_of_a_client() {
    let server = || {
        let mut end = End::new();
        end.receive(0, 64);
        end.receive(1, 64);
        // The first names the second, as the program knows it.
        let (next, handle) = (end.control(0).next, end.control(0).next_handle);
        let second = end.address() + size_of::<Descriptor>() as u64;
        assert_eq!((next, handle), (second, end.region.bits()));
        end.serve();
        let first = (&raw mut end.room.descriptors[0]).addr();
        let Done::Complete(descriptor) = end.received() else {
            panic!("none")
        };
        assert_eq!(descriptor.addr().get(), first);
        assert_eq!(
            (end.control(0).status, end.control(0).length),
            (0x0001_0001, 5)
        );
        assert_eq!(end.control(1).status, 0);
        assert_eq!(end.bytes(6), b"hello\0");
        end.fabric.close_nic(end.nic).unwrap();
    };
    let client = || {
        let mut end = End::new();
        end.room.data[..5].copy_from_slice(b"hello");
        end.ask("host0");
        end.send(0, 5);
        let done = end.fabric.send_wait(end.vi, None).unwrap();
        assert!(matches!(done, Done::Complete(_)), "{done:?}");
        assert_eq!(end.control(0).status, 1);
        end.fabric.close_nic(end.nic).unwrap();
    };
    let ran = between("giganet-clan", server, client);
    assert_eq!(ran.simulation.counts().messages, 1);
}

#[test]
fn a_remote_write_lands_where_its_target_knows_the_address() {
    let (tells, told) = channel::<(u64, u32)>();
    let server = move || {
        let mut end = End::new();
        tells.send((end.data(), end.region.bits())).unwrap();
        end.receive(0, 0);
        end.serve();
        assert!(matches!(end.received(), Done::Complete(_)));
        assert_eq!(end.bytes(5), b"there");
        end.fabric.close_nic(end.nic).unwrap();
    };
    let client = move || {
        let mut end = End::new();
        end.ask("host0");
        end.room.data[..5].copy_from_slice(b"there");
        let (address, handle) = told.recv().unwrap();
        let descriptor = end.describe(0, 5);
        let own = end.room.descriptors[0].segments[0];
        let filled = &mut end.room.descriptors[0];
        filled.control.segment_count = 2;
        filled.control.control = control::RDMA_WRITE | control::IMMEDIATE;
        filled.segments = [
            Segment {
                address,
                handle,
                length: 0,
            },
            own,
        ];
        // SAFETY: descriptor and data are in the room.
        unsafe { end.fabric.post_send(end.vi, descriptor, end.region) }.unwrap();
        let done = end.fabric.send_wait(end.vi, None).unwrap();
        assert!(matches!(done, Done::Complete(_)), "{done:?}");
        // The server's word that it is done: it closes.
        while end.fabric.query_vi(end.vi).unwrap().state == ViState::Connected {
            compute(1_000_000);
        }
    };
    between("kvia-myrinet", server, client);
}

#[test]
fn what_is_another_clients_is_out_of_reach() {
    let (tells, told) = channel();
    let (ends, ended) = channel();
    let owner = move || {
        let mut end = End::new();
        end.room.data[..6].copy_from_slice(b"secret");
        tells.send((end.address(), end.region)).unwrap();
        while ended.try_recv().is_err() {
            compute(1_000_000);
            end.fabric.query_vi(end.vi).unwrap();
        }
        end.fabric.close_nic(end.nic).unwrap();
    };
    let other = move || {
        let mut end = End::new();
        let (address, region) = told.recv().unwrap();
        let refused = |result: viaduct_provider::Result<()>| {
            assert_eq!(result.unwrap_err().code(), ReturnCode::InvalidParameter);
        };
        // Its region, by this one's descriptor; its descriptor; the name of its memory.
        let descriptor = end.describe(0, 6);
        let theirs = std::ptr::with_exposed_provenance_mut(address as usize);
        let named = std::ptr::with_exposed_provenance_mut(address as usize | 1 << 48);
        for (descriptor, handle) in [(descriptor, region), (theirs, region), (named, region)] {
            // SAFETY: it is refused.
            refused(unsafe { end.fabric.post_send(end.vi, descriptor, handle) });
        }
        // Nor does a range reach from this client's memory into what is named as another's.
        let attributes = MemoryAttributes::local(end.tag);
        for (start, length) in [(1 << 48, 64), ((1 << 48) - 64, 128), (64, usize::MAX - 64)] {
            let start = std::ptr::without_provenance_mut(start);
            // SAFETY: as above.
            let made = unsafe {
                end.fabric
                    .register_memory(end.nic, start, length, &attributes)
            };
            refused(made.map(drop));
        }
        end.fabric.close_nic(end.nic).unwrap();
        ends.send(()).unwrap();
    };
    // On one host they share its agent.
    let programs: Vec<(u32, Box<dyn FnOnce() + Send>)> =
        vec![(0, Box::new(owner)), (0, Box::new(other))];
    run_on(simulation("giganet-clan"), programs);
}

/// Looks in a loop stand for several each: what they find, and when, is what single ones find.
#[test]
fn a_loop_of_looks_is_as_long_as_its_looks() {
    let waits = |pauses: bool| {
        let (tells, told) = channel();
        let server = move || {
            let mut end = End::new();
            end.receive(0, 64);
            end.serve();
            let from = now();
            loop {
                let found = end.fabric.receive_done(end.vi).unwrap();
                if found != Done::NotDone {
                    break;
                }
                if pauses {
                    // Something else between: each look is one.
                    end.fabric.query_nic(end.nic).unwrap();
                }
            }
            tells.send((from, now())).unwrap();
            end.fabric.close_nic(end.nic).unwrap();
        };
        let client = || {
            let mut end = End::new();
            end.ask("host0");
            compute(300_000_000);
            end.send(0, 64);
            end.fabric.send_wait(end.vi, None).unwrap();
            while end.fabric.query_vi(end.vi).unwrap().state == ViState::Connected {
                compute(1_000_000);
            }
        };
        between("clan", server, client);
        told.recv().unwrap()
    };
    let (alone, together) = (waits(true), waits(false));
    assert!(together.1 - together.0 > 300_000_000, "{together:?}");
    assert_eq!(alone, together);
}

/// As a driver closes what a process has left open.
#[test]
fn a_client_that_ends_has_its_nic_closed() {
    let server = || {
        let mut end = End::new();
        end.receive(0, 64);
        end.serve();
        // Ends with everything open.
    };
    let client = || {
        let end = End::new();
        end.ask("host0");
        while end.fabric.query_vi(end.vi).unwrap().state != ViState::Error {
            compute(1_000_000);
            assert!(now() < 1_000_000_000, "a millisecond, and still connected");
        }
        end.fabric.close_nic(end.nic).unwrap();
    };
    between("giganet-clan", server, client);
}

#[test]
fn a_vi_of_tag_0_may_use_every_region_of_its_nic_and_other_tags_stay_apart() {
    let program = || {
        let end = End::new();
        let (fabric, nic) = (end.fabric, end.nic);
        let other = fabric.create_protection_tag(nic).unwrap();
        let nothing = ProtectionTag::from_bits(0);
        let vi = |tag| {
            let attributes = ViAttributes::unreliable(tag, 4096);
            fabric.create_vi(nic, &attributes, None, None)
        };
        // What becomes of a send whose descriptor lies in memory of the first tag. It is not
        // connected, so that one that may lie there is refused for that.
        let sent = |vi, end: &mut End| {
            let descriptor = end.describe(0, 5);
            // SAFETY: descriptor and data are in the room.
            let posted = unsafe { fabric.post_receive(vi, descriptor, end.region) };
            posted.map_err(|error| error.code())
        };
        let mut end = end;
        assert_eq!(vi(nothing).unwrap_err().code(), ReturnCode::InvalidPtag);
        fabric.set_any_tag(nic, true).unwrap();
        let (any, strange) = (vi(nothing).unwrap(), vi(other).unwrap());
        assert_eq!(sent(any, &mut end), Ok(()));
        assert!(sent(strange, &mut end).is_err());
        // Memory of a tag that is made later is open to it as well.
        let later = fabric.create_protection_tag(nic).unwrap();
        let attributes = MemoryAttributes {
            tag: later,
            rdma_write: false,
            rdma_read: false,
        };
        let start = (&raw mut *end.room).cast();
        // SAFETY: the room stays where it is for as long as the region.
        let region = unsafe { fabric.register_memory(nic, start, size_of::<Room>(), &attributes) };
        end.region = region.unwrap();
        assert_eq!(sent(any, &mut end), Ok(()));
        fabric.set_any_tag(nic, false).unwrap();
        assert!(sent(any, &mut end).is_err());
        assert_eq!(vi(nothing).unwrap_err().code(), ReturnCode::InvalidPtag);
    };
    run(simulation("giganet-clan"), vec![Box::new(program)]);
}
