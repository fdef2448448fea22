//! Tripwires and the event queue: what they cost, and what it costs to be without.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use viaduct_engine::Time;
use viaduct_hardware::{Mechanism, NoticeModel};
use viaduct_programs::config::SimulationConfig;
use viaduct_programs::{Counts, Process, Resource, Shortage, SimulatedFabric, Simulation};
use viaduct_provider::{CompletionQueue, Memory, Nic, ReturnCode, Vi};
use viaduct_scenario::load_programs;

const BYTES: usize = 8;

/// Two hosts whose messages go by PIO, with other numbers.
fn hosts(change: impl FnOnce(&mut NoticeModel)) -> SimulationConfig {
    let mut config = load_programs("clan-pio", None, 2).unwrap();
    if let Mechanism::RemoteWrites(clan) = &mut config.host.common_mut().mechanism {
        change(&mut clan.notices);
    }
    config
}

/// What a server saw: how long it waited, or took, in the end.
struct Seen {
    took: Duration,
    counts: Counts,
    shortages: Vec<Shortage>,
}

type Served = fn(&Process, &Nic<SimulatedFabric>, &mut [Vi<SimulatedFabric>], Queue) -> Duration;
type Queue = Option<CompletionQueue<SimulatedFabric>>;

/// A server on host 1 with so many VIs, each with a receive, on a completion queue if that is said;
/// the client on host 0 sends one message to each, 1 ms after all are connected.
fn run(config: SimulationConfig, vis: usize, has_queue: bool, served: Served) -> Seen {
    send(config, (vis, 1), has_queue, served)
}

/// The same with so many messages to each VI.
fn send(
    config: SimulationConfig,
    (vis, messages): (usize, usize),
    has_queue: bool,
    served: Served,
) -> Seen {
    let mut simulation = Simulation::new(config);
    let took: Arc<Mutex<Duration>> = Arc::default();
    let told = took.clone();
    simulation.spawn(1, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let queue = has_queue.then(|| nic.completion_queue(64).unwrap());
        let mut open: Vec<_> = (0..vis)
            .map(|_| {
                let mut builder = nic.vi();
                if let Some(queue) = &queue {
                    builder = builder.receive_completions(queue);
                }
                let mut vi = builder.build().unwrap();
                for _ in 0..messages {
                    let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
                    vi.post_receive(buffer).unwrap();
                }
                nic.listen(b"notices").accept(&mut vi, None).unwrap();
                vi
            })
            .collect();
        *told.lock().unwrap() = served(&process, &nic, &mut open, queue);
    });
    simulation.spawn(0, move |process| {
        let nic = Nic::open(process.fabric(), "sim0").unwrap();
        let server = nic.resolve("host1", b"notices").unwrap();
        let mut open: Vec<_> = (0..vis)
            .map(|_| {
                let mut vi = nic.vi().build().unwrap();
                while let Err(error) = vi.connect(&server, None) {
                    assert_eq!(error.code(), ReturnCode::NoMatch);
                    process.sleep(Duration::from_micros(10));
                }
                vi
            })
            .collect();
        process.sleep(Duration::from_millis(1));
        for place in 0..vis * messages {
            let vi = &mut open[place % vis];
            let buffer = nic.buffer(BYTES, Memory::Private).unwrap();
            vi.post_send(buffer, BYTES).unwrap();
            vi.sent(None).unwrap();
            process.sleep(Duration::from_micros(50));
        }
        process.sleep(Duration::from_millis(20));
    });
    let counts = simulation.run().unwrap().counts;
    let shortages = simulation.shortages();
    let took = *took.lock().unwrap();
    Seen {
        took,
        counts,
        shortages,
    }
}

/// Waits for a message on each VI, one after another; when it had the last one.
fn sleep_on_each(
    process: &Process,
    _: &Nic<SimulatedFabric>,
    vis: &mut [Vi<SimulatedFabric>],
    _: Queue,
) -> Duration {
    for vi in vis {
        assert_eq!(vi.receive(None).unwrap().data().len(), BYTES);
    }
    process.now()
}

/// Takes all messages from the completion queue, asleep in between.
fn sleep_on_queue(
    process: &Process,
    _: &Nic<SimulatedFabric>,
    vis: &mut [Vi<SimulatedFabric>],
    queue: Queue,
) -> Duration {
    let mut queue = queue.unwrap();
    for _ in 0..vis.len() {
        let entry = queue.wait(None).unwrap();
        let vi = vis.iter_mut().find(|vi| vi.handle() == entry.vi).unwrap();
        vi.try_receive().unwrap().unwrap();
    }
    process.now()
}

/// As [`sleep_on_queue`], told by handlers.
fn be_called(
    process: &Process,
    nic: &Nic<SimulatedFabric>,
    vis: &mut [Vi<SimulatedFabric>],
    queue: Queue,
) -> Duration {
    let (mut queue, count) = (queue.unwrap(), vis.len());
    let done: Arc<Mutex<Duration>> = Arc::default();
    let told = done.clone();
    process.spawn_async(move |process| async move {
        for _ in 0..count {
            queue.next_async().await.unwrap();
        }
        *told.lock().unwrap() = process.now();
    });
    let _ = nic;
    process.sleep(Duration::from_millis(15));
    *done.lock().unwrap()
}

/// Takes all messages from the completion queue when all have come; how long that took.
fn look_late(
    process: &Process,
    _: &Nic<SimulatedFabric>,
    vis: &mut [Vi<SimulatedFabric>],
    queue: Queue,
) -> Duration {
    let mut queue = queue.unwrap();
    process.sleep(Duration::from_millis(10));
    let began = process.now();
    for _ in 0..vis.len() {
        let entry = queue.try_next().unwrap().unwrap();
        let vi = vis.iter_mut().find(|vi| vi.handle() == entry.vi).unwrap();
        vi.try_receive().unwrap().unwrap();
    }
    process.now() - began
}

fn tripled(time: Time) -> Time {
    time + time + time
}

const fn nanoseconds(count: u64) -> Duration {
    Duration::from_nanos(count)
}

/// Polls the completion queue; when it had the last message.
fn poll_queue(
    process: &Process,
    _: &Nic<SimulatedFabric>,
    vis: &mut [Vi<SimulatedFabric>],
    queue: Queue,
) -> Duration {
    let mut queue = queue.unwrap();
    for _ in 0..vis.len() {
        let entry = loop {
            if let Some(entry) = queue.try_next().unwrap() {
                break entry;
            }
        };
        let vi = vis.iter_mut().find(|vi| vi.handle() == entry.vi).unwrap();
        vi.try_receive().unwrap().unwrap();
    }
    process.now()
}

/// Polls each VI, one after another; when it had the last message.
fn poll_each(
    process: &Process,
    _: &Nic<SimulatedFabric>,
    vis: &mut [Vi<SimulatedFabric>],
    _: Queue,
) -> Duration {
    for vi in vis {
        while vi.try_receive().unwrap().is_none() {}
    }
    process.now()
}

#[test]
fn a_message_that_the_event_queue_tells_of_costs_an_interrupt_and_one_that_is_polled_for_none() {
    // By PIO and by DMA, which short messages are written by.
    for model in ["clan-pio", "clan-dma"] {
        let hosts = |interrupt| {
            let mut config = load_programs(model, None, 2).unwrap();
            if let Mechanism::RemoteWrites(clan) = &mut config.host.common_mut().mechanism {
                assert_eq!(clan.notices.interrupt, Time::from_picoseconds(4_100_000));
                clan.notices.interrupt = interrupt;
            }
            config
        };
        let slow = Time::from_picoseconds(5_100_000);
        let usual = Time::from_picoseconds(4_100_000);
        let took = |interrupt, has_queue, served| run(hosts(interrupt), 1, has_queue, served).took;
        let polled = took(slow, true, poll_queue) - took(usual, true, poll_queue);
        // To what is left of a turn of the polling loop.
        let turn = nanoseconds(400);
        let off = polled.abs_diff(nanoseconds(1000));
        assert!(off < turn, "{model}: {polled:?}");
        assert_eq!(
            took(slow, false, poll_each),
            took(usual, false, poll_each),
            "{model}"
        );
        // Who sleeps is woken by that interrupt: it pays for one, not for two.
        assert_eq!(
            took(slow, true, sleep_on_queue),
            took(usual, true, sleep_on_queue),
            "{model}"
        );
    }
}

#[test]
fn each_message_of_a_burst_interrupts() {
    let took = |interrupt| {
        let config = hosts(|notices| notices.interrupt = interrupt);
        run(config, 8, true, poll_queue).took
    };
    // Longer than what lies between two messages of the client, so that interrupts add up.
    let more = took(Time::from_microseconds(210)) - took(Time::from_microseconds(200));
    assert!(more >= nanoseconds(79_000), "{more:?}");
}

#[test]
fn a_sleeper_is_interrupted_and_reads_one_event() {
    let seen = run(hosts(|_| ()), 1, false, sleep_on_each);
    let slower = run(
        hosts(|notices| notices.event = tripled(notices.event)),
        1,
        false,
        sleep_on_each,
    );
    assert_eq!(slower.took - seen.took, nanoseconds(300));
    assert_eq!(seen.shortages, []);
}

#[test]
fn without_a_tripwire_nobody_is_woken_and_the_location_is_looked_at() {
    let with = run(hosts(|_| ()), 1, false, sleep_on_each);
    let without = run(
        hosts(|notices| notices.tripwires = 0),
        1,
        false,
        sleep_on_each,
    );
    assert_eq!(with.counts.wake_ups - without.counts.wake_ups, 1);
    assert_eq!(with.counts.events - without.counts.events, 1);
    // An interrupt of 6.7, a wake-up of 1.5 and an event of 0.15 us, or polling and half a look.
    assert_eq!(with.took - without.took, nanoseconds(8350 - 200 - 15));
    let [shortage] = without.shortages[..] else {
        panic!("{:?}", without.shortages)
    };
    assert_eq!((shortage.host, shortage.resource), (1, Resource::Tripwires));
    assert_eq!((shortage.limit, shortage.count), (0, 1));
}

#[test]
fn all_messages_come_where_half_of_the_locations_have_a_tripwire() {
    let with = run(hosts(|_| ()), 8, true, sleep_on_queue);
    assert_eq!(with.shortages, []);
    assert!(with.counts.wake_ups > 0);
    let few = run(
        hosts(|notices| notices.tripwires = 4),
        8,
        true,
        sleep_on_queue,
    );
    let told: Vec<String> = few.shortages.iter().map(Shortage::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("host1: all 4 tripwires are taken since ")
            && told[0].ends_with(" us: 4 locations without one are looked at in turn"),
        "{told:?}"
    );
    // Four of eight make an entry.
    assert_eq!(with.counts.events - few.counts.events, 4);
    assert_eq!(with.counts.messages, few.counts.messages);
    // A round is longer, and so is the time until each message is found.
    let slow = run(
        hosts(|notices| {
            notices.tripwires = 4;
            notices.look = Time::from_microseconds(3);
        }),
        8,
        true,
        sleep_on_queue,
    );
    assert!(slow.took > few.took + nanoseconds(5000));
}

#[test]
fn a_full_event_queue_costs_a_look_at_every_watched_location() {
    let seen = run(hosts(|notices| notices.events = 8), 8, true, look_late);
    assert_eq!(seen.shortages, []);
    let full = run(hosts(|notices| notices.events = 3), 8, true, look_late);
    assert_eq!(seen.counts.events - full.counts.events, 5);
    let [shortage] = full.shortages[..] else {
        panic!("{:?}", full.shortages)
    };
    assert_eq!((shortage.host, shortage.resource), (1, Resource::Events));
    assert_eq!((shortage.limit, shortage.count), (3, 5));
    // Eight events; three, and eight looks.
    let (eight, three) = (8 * 150, 3 * 150 + 8 * 30);
    assert_eq!(seen.took - full.took, nanoseconds(eight - three));
    assert_eq!(seen.counts.messages, full.counts.messages);
}

#[test]
fn a_tripwire_has_one_entry_at_most() {
    // The second message on each VI finds the first one's entry unread.
    let config = hosts(|notices| notices.events = 2);
    let seen = send(config, (2, 2), true, look_late);
    assert_eq!(seen.shortages, []);
    assert_eq!(seen.counts.messages, 4);
}

#[test]
fn handlers_read_events_and_look_where_no_tripwire_is() {
    // Each entry is read before the next comes.
    let with = run(hosts(|notices| notices.events = 1), 8, true, be_called);
    assert_eq!(with.shortages, []);
    let without = run(hosts(|notices| notices.tripwires = 0), 8, true, be_called);
    assert_eq!(with.counts.wake_ups - without.counts.wake_ups, 8);
    assert_eq!(with.counts.events - without.counts.events, 8);
    // An interrupt, a wake-up and an event, or polling and half a round of eight looks; the future
    // that was woken then looks for itself.
    assert_eq!(with.took - without.took, nanoseconds(8350 - 200 - 2 * 120));
}

#[test]
fn a_vi_that_is_gone_gives_its_tripwire_back() {
    let mut simulation = Simulation::new(hosts(|notices| notices.tripwires = 1));
    simulation.spawn(1, |process| {
        for _ in 0..3 {
            let nic = Nic::open(process.fabric(), "sim0").unwrap();
            let mut vi = nic.vi().build().unwrap();
            vi.post_receive(nic.buffer(BYTES, Memory::Private).unwrap())
                .unwrap();
            nic.listen(b"again").accept(&mut vi, None).unwrap();
            vi.receive(None).unwrap();
        }
    });
    simulation.spawn(0, |process| {
        for _ in 0..3 {
            let nic = Nic::open(process.fabric(), "sim0").unwrap();
            let mut vi = nic.vi().build().unwrap();
            let server = nic.resolve("host1", b"again").unwrap();
            while let Err(error) = vi.connect(&server, None) {
                assert_eq!(error.code(), ReturnCode::NoMatch);
                process.sleep(Duration::from_micros(10));
            }
            process.sleep(Duration::from_micros(200));
            vi.post_send(nic.buffer(BYTES, Memory::Private).unwrap(), BYTES)
                .unwrap();
            vi.sent(None).unwrap();
            process.sleep(Duration::from_micros(200));
        }
    });
    assert_eq!(simulation.run().unwrap().counts.messages, 3);
    assert_eq!(simulation.shortages(), []);
}
