//! When a message meets its receive: at its first byte, on adapters that do that.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_cluster::faults::{Fault, Links};
use viaduct_engine::Time;
use viaduct_programs::{Process, SimulatedFabric, Simulation};
use viaduct_provider::via::{MemoryAttributes, ReliabilityLevel, Status, ViState};
use viaduct_provider::{
    CONTROL_SEGMENT_BYTES, CompletionError, ControlSegment, Descriptor, Done, Memory, Nic,
    Provider, ReturnCode, Segment, Vi,
};
use viaduct_scenario::load_programs;

/// Adapters that match at the first byte; a long message, and about how long it takes them,
/// microseconds.
const ADAPTERS: [(&str, usize, u64); 2] = [
    ("giganet-clan-linux", 60_000, 480),
    ("rnic-gen3", 1 << 20, 80),
];

/// When the message is posted, microseconds.
const POSTED: u64 = 10_000;

fn until(process: &Process, microseconds: u64) {
    let time = Duration::from_micros(microseconds);
    process.sleep(time.saturating_sub(process.now()));
}

/// One message from host 0, posted at a known time; what host 1 does when it is connected.
fn run<T: Send + 'static>(
    (model, bytes): (&str, usize),
    level: ReliabilityLevel,
    receiver: impl FnOnce(&Process, &Nic<SimulatedFabric>, &mut Vi<SimulatedFabric>) -> T
    + Send
    + 'static,
) -> T {
    run_with(&[], (model, bytes), level, receiver)
}

/// The same with faults.
fn run_with<T: Send + 'static>(
    faults: &[Fault],
    (model, bytes): (&str, usize),
    level: ReliabilityLevel,
    receiver: impl FnOnce(&Process, &Nic<SimulatedFabric>, &mut Vi<SimulatedFabric>) -> T
    + Send
    + 'static,
) -> T {
    let mut config = load_programs(model, None, 2).unwrap();
    config.faults = faults.to_vec();
    let mut simulation = Simulation::new(config);
    let told: Arc<Mutex<Option<T>>> = Arc::default();
    let seen = told.clone();
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        nic.set_error_handler(Some(Arc::new(|_: &_| ()))).unwrap();
        let mut vi = nic.vi().reliability(level).build().unwrap();
        nic.listen(b"matching").accept(&mut vi, None).unwrap();
        let outcome = receiver(&process, &nic, &mut vi);
        *seen.lock().unwrap() = Some(outcome);
    });
    simulation.spawn(0, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        nic.set_error_handler(Some(Arc::new(|_: &_| ()))).unwrap();
        let mut vi = nic.vi().reliability(level).build().unwrap();
        let server = nic.resolve("host1", b"matching").unwrap();
        while let Err(error) = vi.connect(&server, None) {
            assert_eq!(error.code(), ReturnCode::NoMatch);
            process.sleep(Duration::from_micros(10));
        }
        let mut buffer = nic.buffer(bytes, Memory::Private).unwrap();
        buffer.fill(7);
        until(&process, POSTED);
        vi.post_send(buffer, bytes).unwrap();
        until(&process, 4 * POSTED);
    });
    simulation.run().unwrap();
    told.lock().unwrap().take().unwrap()
}

/// Whether a receive that is posted so long after the send gets the message.
fn is_saved(model: &str, bytes: usize, after: u64) -> bool {
    run(
        (model, bytes),
        ReliabilityLevel::Unreliable,
        move |process, nic, vi| {
            let buffer = nic.buffer(bytes, Memory::Private).unwrap();
            until(process, POSTED + after);
            vi.post_receive(buffer).unwrap();
            let limit = Duration::from_micros(2 * POSTED);
            let received = vi.receive(Some(limit));
            received.is_ok_and(|received| received.data().iter().all(|byte| *byte == 7))
        },
    )
}

#[test]
fn a_receive_that_is_posted_behind_the_first_byte_does_not_save_a_message() {
    for (model, bytes, takes) in ADAPTERS {
        assert!(is_saved(model, bytes, 0), "{model}");
        for after in [takes / 3, takes * 9 / 10] {
            assert!(!is_saved(model, bytes, after), "{model}: after {after} us");
        }
    }
}

#[test]
fn that_no_receive_is_there_is_noticed_at_the_first_byte() {
    for (model, bytes, takes) in ADAPTERS {
        let noticed = run(
            (model, bytes),
            ReliabilityLevel::ReliableDelivery,
            |process, _, vi| {
                until(process, POSTED);
                while vi.query().unwrap().state != ViState::Error {
                    process.sleep(Duration::from_micros(1));
                }
                process.now()
            },
        );
        let after = noticed - Duration::from_micros(POSTED);
        assert!(
            after < Duration::from_micros(takes / 4),
            "{model}: {after:?}"
        );
    }
}

#[test]
fn a_message_that_is_cut_behind_its_first_byte_ends_its_receive() {
    for (model, bytes, takes) in ADAPTERS {
        for (from, expected) in [
            (POSTED + takes / 2, Some(Status::PARTIAL_ERROR.bits())),
            // Its first byte never came: the receive waits.
            (POSTED, None),
        ] {
            let cut = Fault::LinkDown {
                links: Links::All,
                from: Time::from_microseconds(from),
                until: Some(Time::from_microseconds(from + 30)),
            };
            let level = ReliabilityLevel::Unreliable;
            let ended = run_with(&[cut], (model, bytes), level, move |_, nic, vi| {
                let buffer = nic.buffer(bytes, Memory::Private).unwrap();
                vi.post_receive(buffer).unwrap();
                match vi.receive(Some(Duration::from_micros(2 * POSTED))) {
                    Err(CompletionError::Failed { status, .. }) => {
                        Some(status.bits() & Status::ERROR_MASK.bits())
                    }
                    Err(_) => None,
                    Ok(_) => panic!("it was cut"),
                }
            });
            assert_eq!(ended, expected, "{model}, from {from} us");
        }
    }
}

/// Memory of a receive that a program registers itself.
#[repr(align(64))]
struct Page {
    bytes: [u8; 256],
}

#[test]
fn memory_that_is_deregistered_behind_the_first_byte_is_not_written() {
    for (model, bytes, takes) in ADAPTERS {
        for is_deregistered in [false, true] {
            let level = ReliabilityLevel::ReliableDelivery;
            let (status, is_written) = run((model, bytes), level, move |process, nic, vi| {
                let fabric = process.fabric();
                let mut page = Box::new(Page { bytes: [0; 256] });
                let mut target = vec![0_u8; bytes];
                let local = MemoryAttributes::local(nic.tag());
                let (from, length) = (page.bytes.as_mut_ptr(), page.bytes.len());
                let to = target.as_mut_ptr();
                // SAFETY: both stay until the end of the program.
                let handles = unsafe {
                    (
                        fabric.register_memory(nic.handle(), from, length, &local),
                        fabric.register_memory(nic.handle(), to, bytes, &local),
                    )
                };
                let (own, other) = (handles.0.unwrap(), handles.1.unwrap());
                let descriptor = from.cast::<Descriptor>();
                let segment = Segment {
                    address: to.expose_provenance() as u64,
                    handle: other.bits(),
                    length: bytes as u32,
                };
                let control = ControlSegment {
                    segment_count: 1,
                    length: bytes as u32,
                    ..ControlSegment::default()
                };
                // SAFETY: the page has room for both, and is aligned as they want it.
                unsafe {
                    from.cast::<ControlSegment>().write(control);
                    let place = from.add(CONTROL_SEGMENT_BYTES);
                    place.cast::<Segment>().write(segment);
                    fabric.post_receive(vi.handle(), descriptor, own).unwrap();
                }
                until(process, POSTED + takes / 2);
                if is_deregistered {
                    let gone = fabric.deregister_memory(nic.handle(), to, other);
                    gone.unwrap();
                }
                let limit = Some(Duration::from_micros(2 * POSTED));
                let done = fabric.receive_wait(vi.handle(), limit).unwrap();
                assert!(matches!(done, Done::Complete(_) | Done::Failed(_)));
                // SAFETY: it was handed back.
                let status = unsafe { (*from.cast::<ControlSegment>()).status };
                let is_written = target.iter().any(|byte| *byte != 0);
                (status & Status::ERROR_MASK.bits(), is_written)
            });
            let expected = if is_deregistered {
                Status::PROTECTION_ERROR.bits()
            } else {
                0
            };
            assert_eq!(
                (status, is_written),
                (expected, !is_deregistered),
                "{model}, {is_deregistered}"
            );
        }
    }
}
