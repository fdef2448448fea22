//! Driver and interface over two slow queues: random interleavings of all that either may begin.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::residency::{Policy, Residency, Stall, State, Write};
use crate::seeds;
use viaduct_engine::Stream;

struct World {
    driver: Driver,
    interface: InterfaceSide,
    to_interface: VecDeque<Stamped<ToInterface>>,
    to_driver: VecDeque<Stamped<ToDriver>>,
    /// Work of the interface under way.
    tasks: Vec<Task>,
    page_in: Option<Endpoint>,
    /// Which of all endpoints ever made the number means: to the driver, and to the interface.
    made: u64,
    driver_means: BTreeMap<Endpoint, u64>,
    interface_means: BTreeMap<Endpoint, u64>,
    creations: VecDeque<u64>,
    live: BTreeSet<Endpoint>,
    waiting: BTreeSet<Endpoint>,
    /// Endpoints, of all ever made, that somebody needs in a frame.
    needed: BTreeSet<u64>,
    /// Nothing new begins.
    is_quiet: bool,
    random: Stream,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = seeds::stream(seed, 0);
        let frames = 1 + random.below(3) as u16;
        let policies = [Policy::Random, Policy::LeastRecentlyUsed, Policy::Clock];
        let policy = policies[random.below(3) as usize];
        let stall = [Stall::Nobody, Stall::Thread][random.below(2) as usize];
        Self {
            driver: Driver::new(Residency::new(frames, policy, stall)),
            interface: InterfaceSide::new(frames),
            to_interface: VecDeque::new(),
            to_driver: VecDeque::new(),
            tasks: Vec::new(),
            page_in: None,
            made: 0,
            driver_means: BTreeMap::new(),
            interface_means: BTreeMap::new(),
            creations: VecDeque::new(),
            live: BTreeSet::new(),
            waiting: BTreeSet::new(),
            needed: BTreeSet::new(),
            is_quiet: false,
            random,
        }
    }

    fn create(&mut self) {
        let (endpoint, word) = self.driver.create();
        self.made += 1;
        assert!(self.driver_means.insert(endpoint, self.made).is_none());
        self.live.insert(endpoint);
        self.creations.push_back(self.made);
        self.to_interface.push_back(word);
    }

    fn write(&mut self, endpoint: Endpoint) {
        match self.driver.write(endpoint) {
            Write::Direct(frame) => {
                assert_eq!(self.interface.occupant(frame), Some(endpoint));
            }
            Write::OnHost { .. } => {
                self.needed.insert(self.driver_means[&endpoint]);
            }
            Write::Blocked => {
                self.waiting.insert(endpoint);
                self.needed.insert(self.driver_means[&endpoint]);
            }
            Write::NoSuchEndpoint => panic!("{endpoint} is live"),
        }
    }

    /// A message comes for an endpoint, as the interface sees it.
    fn arrive(&mut self, endpoint: Endpoint) {
        match self.interface.lookup(endpoint) {
            Lookup::Resident(frame) => assert_eq!(self.interface.occupant(frame), Some(endpoint)),
            Lookup::NoSuchEndpoint => assert!(self.interface.refused(endpoint).is_none()),
            Lookup::NotResident => {
                self.needed.insert(self.interface_means[&endpoint]);
                self.to_driver.extend(self.interface.refused(endpoint));
                assert!(self.interface.refused(endpoint).is_none(), "it asks once");
            }
        }
    }

    fn drain_driver(&mut self) {
        while let Some(news) = self.driver.poll(&mut self.random) {
            match news {
                News::Say(word) => self.to_interface.push_back(word),
                News::PageIn(endpoint) => self.page_in = Some(endpoint),
                News::Wake(endpoint) => assert!(self.waiting.remove(&endpoint)),
                News::Gone(endpoint) => {
                    self.waiting.remove(&endpoint);
                    self.driver_means.remove(&endpoint).unwrap();
                }
            }
        }
    }

    fn interface_reads(&mut self) {
        let Some(word) = self.to_interface.pop_front() else {
            return;
        };
        let task = self.interface.hear(word).unwrap();
        match (word.message, task) {
            (ToInterface::Create(endpoint), Task::None) => {
                let made = self.creations.pop_front().unwrap();
                self.interface_means.insert(endpoint, made);
            }
            (ToInterface::Free(endpoint), Task::None) => {
                let made = self.interface_means.remove(&endpoint).unwrap();
                self.needed.remove(&made);
            }
            (_, Task::Upload(endpoint, _)) => {
                let made = self.interface_means[&endpoint];
                assert!(self.needed.remove(&made), "nobody needs {endpoint}");
                self.tasks.push(task);
            }
            (_, Task::BringToRest(_, frame)) => {
                assert!(!self.interface.may_send(frame));
                self.tasks.push(task);
            }
            (_, task) => self.tasks.push(task),
        }
    }

    fn interface_works(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let place = self.random.below(self.tasks.len() as u64) as usize;
        let answer = match self.tasks.remove(place) {
            Task::None => return,
            Task::BringToRest(_, frame) => self.interface.at_rest(frame),
            Task::Upload(endpoint, frame) => {
                self.needed.remove(&self.interface_means[&endpoint]);
                self.interface.moved(frame, false)
            }
            Task::Unload(endpoint, frame) => {
                let has_work =
                    !self.is_quiet && self.random.below(4) == 0 && self.live.contains(&endpoint);
                if has_work {
                    self.needed.insert(self.interface_means[&endpoint]);
                }
                self.interface.moved(frame, has_work)
            }
        };
        self.to_driver.push_back(answer);
    }

    fn driver_reads(&mut self) {
        if let Some(word) = self.to_driver.pop_front() {
            self.driver.hear(word, &mut self.random).unwrap();
            if let ToDriver::Moved { endpoint, .. } = word.message {
                let state = self.driver.residency().state(endpoint);
                if matches!(state, Some(State::OnNicReadWrite(_))) {
                    self.needed.remove(&self.driver_means[&endpoint]);
                }
            }
            self.drain_driver();
        } else if self.page_in.take().is_some() {
            self.driver.paged_in(&mut self.random);
            self.drain_driver();
        }
    }

    /// Nothing new begins; all that is under way ends.
    fn settle(&mut self) {
        self.is_quiet = true;
        for _ in 0..2000 {
            self.drain_driver();
            self.interface_reads();
            self.interface_works();
            self.driver_reads();
        }
        assert!(self.driver.residency().is_idle() && self.to_driver.is_empty());
    }

    fn step(&mut self) {
        let place = self.random.below(self.live.len().max(1) as u64) as usize;
        let chosen = self.live.iter().nth(place).copied();
        match (self.random.below(10), chosen) {
            (0, _) if self.live.len() < 5 => self.create(),
            (1, Some(endpoint)) if self.random.below(3) == 0 => {
                assert!(self.driver.free(endpoint));
                self.live.remove(&endpoint);
            }
            (2, Some(endpoint)) => self.write(endpoint),
            (3, _) => {
                let endpoint = Endpoint::new(self.random.below(7) as u32);
                self.arrive(endpoint);
            }
            (4, Some(endpoint)) => {
                self.driver.touch(endpoint);
                self.driver.page_out(endpoint);
            }
            (5 | 6, _) => self.interface_reads(),
            (7, _) => self.interface_works(),
            _ => self.driver_reads(),
        }
        self.drain_driver();
    }
}

fn explore(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..250 {
        world.step();
    }
    world.settle();
    assert!(world.waiting.is_empty(), "asleep: {:?}", world.waiting);
    assert_eq!(world.driver_means, world.interface_means);
    for frame in (0..3).map(Frame::new) {
        let known = world.driver.residency().occupant(frame);
        assert_eq!(known, world.interface.occupant(frame));
    }
    // What the process wrote is not left on the host, and a message that is sent again gets in:
    // a void wish is asked for once more, not for ever.
    for endpoint in world.live.clone() {
        for _ in 0..2 {
            world.arrive(endpoint);
            world.settle();
        }
        let place = world.interface.lookup(endpoint);
        assert!(
            matches!(place, Lookup::Resident(_)),
            "{endpoint} is {place:?}"
        );
    }
    assert!(world.needed.is_empty(), "left outside: {:?}", world.needed);
}

#[test]
fn driver_and_interface_agree_whatever_crosses() {
    seeds::each("agreement::tests", 2000, explore);
}

#[test]
fn wishes_do_cross_the_drivers_words() {
    // Goal: the schedules above reach the races that clocks are for.
    let mut void = 0;
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..250 {
            world.step();
        }
        void += world.driver.void();
    }
    assert!(void > 100, "only {void} wishes were void");
}

#[test]
fn a_wish_for_a_freed_endpoint_does_not_bring_the_next_of_its_number() {
    let mut random = seeds::stream(0, 0);
    let mut driver = Driver::new(Residency::new(1, Policy::Random, Stall::Nobody));
    let mut interface = InterfaceSide::new(1);
    let (endpoint, word) = driver.create();
    assert_eq!(interface.hear(word), Ok(Task::None));
    let wish = interface.refused(endpoint).unwrap();
    // Both begin at once: the wish is on its way while the number changes its owner.
    assert!(driver.free(endpoint));
    while driver.poll(&mut random).is_some() {}
    assert_eq!(driver.create().0, endpoint);
    driver.hear(wish, &mut random).unwrap();
    assert_eq!(driver.poll(&mut random), None);
    assert_eq!(driver.void(), 1);
}

#[test]
fn what_does_not_fit_is_an_error_that_says_so() {
    let mut random = seeds::stream(0, 0);
    let mut driver = Driver::new(Residency::new(2, Policy::Random, Stall::Nobody));
    let mut interface = InterfaceSide::new(2);
    let (endpoint, word) = driver.create();
    let out_of_order = Stamped { clock: 2, ..word };
    assert!(matches!(
        interface.hear(out_of_order),
        Err(Disagreement::OutOfOrder {
            clock: 2,
            expected: 1
        })
    ));
    assert_eq!(interface.hear(word), Ok(Task::None));
    let frame = Frame::new(0);
    let misfits = [
        ToInterface::Create(endpoint),
        ToInterface::Unload(endpoint, frame),
        ToInterface::BringToRest(endpoint, frame),
        ToInterface::Upload(Endpoint::new(9), frame),
        ToInterface::Upload(endpoint, Frame::new(7)),
        ToInterface::Free(Endpoint::new(u32::MAX)),
    ];
    for (clock, message) in (2..).zip(misfits) {
        let stamped = Stamped {
            clock,
            seen: 0,
            message,
        };
        assert_eq!(interface.hear(stamped), Err(Disagreement::Frame(message)));
    }
    // Resident, and told to unload without having been brought to rest.
    let stamped = |clock, message| Stamped {
        clock,
        seen: 0,
        message,
    };
    let task = interface.hear(stamped(8, ToInterface::Upload(endpoint, frame)));
    assert_eq!(task, Ok(Task::Upload(endpoint, frame)));
    let _ = interface.moved(frame, false);
    let early = ToInterface::Unload(endpoint, frame);
    assert_eq!(
        interface.hear(stamped(9, early)),
        Err(Disagreement::Frame(early))
    );
    let answer = Stamped {
        clock: 1,
        seen: 1,
        message: ToDriver::AtRest(endpoint),
    };
    assert_eq!(
        driver.hear(answer, &mut random),
        Err(Disagreement::NotAsked(ToDriver::AtRest(endpoint)))
    );
}
