//! Random faults, frees and remaps, held against what must be true of any of them.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::seeds;

/// What an observer that only sees calls and answers knows.
#[derive(Default)]
struct Observer {
    /// Written on the host, or asked for by the interface, and not in a frame since.
    owed: BTreeSet<Endpoint>,
    /// Told to wait.
    waiting: BTreeSet<Endpoint>,
    frames: BTreeMap<Endpoint, Frame>,
    live: BTreeSet<Endpoint>,
    doomed: BTreeSet<Endpoint>,
    step: Option<Step>,
}

impl Observer {
    fn stepped(&mut self, step: Step, frames_max: usize) {
        match step {
            Step::PageIn(_) => {}
            Step::BringToRest(endpoint, frame) => {
                assert_eq!(self.frames.get(&endpoint), Some(&frame));
                let is_full = self.frames.len() == frames_max;
                assert!(
                    is_full || self.doomed.contains(&endpoint),
                    "a frame was free"
                );
            }
            Step::Unload(endpoint, frame) => {
                assert_eq!(self.step, Some(Step::BringToRest(endpoint, frame)));
            }
            Step::Upload(endpoint, frame) => {
                assert!(!self.frames.contains_key(&endpoint));
                assert!(self.frames.values().all(|taken| *taken != frame));
                assert!(self.owed.contains(&endpoint), "nobody asked for {endpoint}");
            }
            Step::Release(endpoint) => {
                assert!(!self.frames.contains_key(&endpoint));
                assert!(self.doomed.remove(&endpoint));
                self.owed.remove(&endpoint);
                self.waiting.remove(&endpoint);
            }
        }
        self.step = Some(step);
    }

    fn finished(&mut self, has_work: bool, done: Done) {
        match self.step {
            Some(Step::Unload(endpoint, _)) => {
                self.frames.remove(&endpoint);
                if has_work {
                    self.owed.insert(endpoint);
                }
            }
            Some(Step::Upload(endpoint, frame)) => {
                self.frames.insert(endpoint, frame);
                self.owed.remove(&endpoint);
            }
            _ => {}
        }
        if let Some(endpoint) = done.wake {
            assert!(
                self.waiting.remove(&endpoint),
                "{endpoint} was not waited for"
            );
        }
    }
}

fn explore(seed: u64) {
    let mut random = seeds::stream(seed, 0);
    let policies = [Policy::Random, Policy::LeastRecentlyUsed, Policy::Clock];
    let policy = policies[random.below(3) as usize];
    let stall = [Stall::Nobody, Stall::Thread][random.below(2) as usize];
    let frames_max = 1 + random.below(4) as usize;
    let mut residency = Residency::new(frames_max as u16, policy, stall);
    let mut observer = Observer::default();
    let mut under_way = false;
    for round in 0..300 {
        // The last rounds only let the service finish.
        let action = if round < 200 { random.below(8) } else { 7 };
        let place = random.below(observer.live.len().max(1) as u64) as usize;
        let chosen = observer.live.iter().nth(place).copied();
        match (action, chosen) {
            (0, _) if observer.live.len() < 7 => {
                let endpoint = residency.create();
                assert!(!observer.doomed.contains(&endpoint) && observer.live.insert(endpoint));
                assert_eq!(residency.state(endpoint), Some(State::OnHostReadOnly));
            }
            (1, Some(endpoint)) if random.below(4) == 0 => {
                assert!(residency.free(endpoint) && !residency.free(endpoint));
                observer.live.remove(&endpoint);
                observer.doomed.insert(endpoint);
                assert_eq!(residency.write(endpoint), Write::NoSuchEndpoint);
            }
            (2 | 3, Some(endpoint)) => match residency.write(endpoint) {
                Write::Direct(frame) => assert_eq!(observer.frames.get(&endpoint), Some(&frame)),
                Write::OnHost { is_fault } => {
                    assert_eq!(stall, Stall::Nobody);
                    let is_leaving = under_way
                        && matches!(observer.step, Some(Step::Unload(leaving, _)) if leaving == endpoint);
                    assert!(is_leaving || !observer.frames.contains_key(&endpoint));
                    assert!(is_fault || observer.owed.contains(&endpoint));
                    assert_eq!(residency.state(endpoint), Some(State::OnHostReadWrite));
                    observer.owed.insert(endpoint);
                }
                Write::Blocked => {
                    let on_disk = residency.state(endpoint) == Some(State::OnDisk);
                    assert!(stall == Stall::Thread || on_disk);
                    observer.waiting.insert(endpoint);
                    observer.owed.insert(endpoint);
                }
                Write::NoSuchEndpoint => panic!("{endpoint} is live"),
            },
            (4, Some(endpoint)) => {
                if residency.reference(endpoint) {
                    assert!(!observer.frames.contains_key(&endpoint));
                    assert!(
                        observer.owed.insert(endpoint),
                        "{endpoint} was asked for before"
                    );
                } else if matches!(observer.step, Some(Step::Unload(leaving, _)) if leaving == endpoint)
                    && under_way
                {
                    observer.owed.insert(endpoint);
                } else {
                    let is_there = observer.frames.contains_key(&endpoint);
                    assert!(is_there || observer.owed.contains(&endpoint));
                }
            }
            (5, Some(endpoint)) => {
                if residency.page_out(endpoint) {
                    assert_eq!(residency.state(endpoint), Some(State::OnDisk));
                    assert!(!observer.owed.contains(&endpoint));
                }
                residency.touch(endpoint);
            }
            (6 | 7, _) => {
                if under_way {
                    let has_work = random.below(3) == 0 && round < 200;
                    let done = residency.done(has_work, &mut random);
                    observer.finished(has_work, done);
                    under_way = false;
                } else if let Some(step) = residency.poll_step(&mut random) {
                    observer.stepped(step, frames_max);
                    under_way = !matches!(step, Step::Release(_));
                }
                assert!(!under_way || residency.poll_step(&mut random).is_none());
            }
            _ => {}
        }
        check_places(&residency, &observer, under_way);
    }
    assert!(residency.is_idle());
    assert!(
        observer.doomed.is_empty(),
        "not released: {:?}",
        observer.doomed
    );
    assert!(
        observer.owed.is_empty(),
        "left on the host: {:?}",
        observer.owed
    );
    assert!(
        observer.waiting.is_empty(),
        "not woken: {:?}",
        observer.waiting
    );
}

/// Frames and endpoints name each other, and none is named twice.
fn check_places(residency: &Residency, observer: &Observer, under_way: bool) {
    for frame in (0..residency.frames.count()).map(Frame::new) {
        if let Some(occupant) = residency.occupant(frame) {
            let is_there = observer.frames.get(&occupant) == Some(&frame);
            assert!(is_there || observer.owed.contains(&occupant));
        }
    }
    for endpoint in &observer.live {
        match residency.state(*endpoint).unwrap() {
            State::OnNicReadWrite(frame) => {
                assert_eq!(residency.occupant(frame), Some(*endpoint));
                assert_eq!(observer.frames.get(endpoint), Some(&frame));
            }
            State::OnHostReadWrite => assert!(observer.owed.contains(endpoint)),
            State::OnHostReadOnly | State::OnDisk => {
                let is_leaving = under_way
                    && matches!(observer.step, Some(Step::Unload(leaving, _)) if leaving == *endpoint);
                assert!(is_leaving || !observer.frames.contains_key(endpoint));
            }
        }
    }
}

#[test]
fn every_fault_is_served_and_nobody_waits_for_ever() {
    seeds::each("residency::tests", 3000, explore);
}

#[test]
fn a_write_goes_on_at_once_only_in_the_new_protocol() {
    let mut random = seeds::stream(1, 0);
    for (stall, expected) in [
        (Stall::Nobody, Write::OnHost { is_fault: true }),
        (Stall::Thread, Write::Blocked),
    ] {
        let mut residency = Residency::new(1, Policy::Random, stall);
        let endpoint = residency.create();
        assert_eq!(residency.write(endpoint), expected);
        let step = residency.poll_step(&mut random);
        assert_eq!(step, Some(Step::Upload(endpoint, Frame::new(0))));
        let woken = residency.done(false, &mut random).wake;
        assert_eq!(woken, (stall == Stall::Thread).then_some(endpoint));
        assert_eq!(residency.write(endpoint), Write::Direct(Frame::new(0)));
    }
}

#[test]
fn what_was_to_be_sent_comes_back_by_itself() {
    let mut random = seeds::stream(1, 0);
    let mut residency = Residency::new(1, Policy::Random, Stall::Nobody);
    let [one, other] = [(); 2].map(|()| residency.create());
    let frame = Frame::new(0);
    let mut steps = Vec::new();
    assert!(residency.reference(one) && residency.reference(other));
    while let Some(step) = residency.poll_step(&mut random) {
        steps.push(step);
        let has_work = steps.len() == 3;
        let _ = residency.done(has_work, &mut random);
    }
    assert_eq!(
        steps,
        [
            Step::Upload(one, frame),
            Step::BringToRest(one, frame),
            Step::Unload(one, frame),
            Step::Upload(other, frame),
            Step::BringToRest(other, frame),
            Step::Unload(other, frame),
            Step::Upload(one, frame),
        ]
    );
}

#[test]
fn a_round_serves_those_that_were_in_the_line_when_it_began() {
    let mut random = seeds::stream(1, 0);
    let mut residency = Residency::new(2, Policy::Random, Stall::Nobody);
    let made = [(); 3].map(|()| residency.create());
    residency.begin_round();
    let _ = (residency.write(made[0]), residency.write(made[1]));
    assert_eq!(residency.poll_step(&mut random), None);
    assert!(!residency.is_serving() && !residency.is_idle());
    residency.begin_round();
    // One more comes while the round is under way: it waits for the next.
    for (round, expected) in [&made[..2], &made[2..]].into_iter().enumerate() {
        let mut uploaded = Vec::new();
        while let Some(step) = residency.poll_step(&mut random) {
            if round == 0 && uploaded.is_empty() {
                assert!(residency.is_serving());
                let _ = residency.write(made[2]);
            }
            if let Step::Upload(endpoint, _) = step {
                uploaded.push(endpoint);
            }
            let _ = residency.done(false, &mut random);
        }
        assert_eq!(uploaded, expected);
        assert!(!residency.is_serving());
        assert_eq!(residency.is_idle(), round == 1);
        residency.begin_round();
    }
}

#[test]
fn an_adapter_that_stalls_the_message_is_a_cache_of_the_least_recently_used() {
    // Goal: what an RDMA adapter does with connection state is this mechanism with other costs:
    // equal hits to a plain list, and a miss costs one read.
    let mut random = seeds::stream(5, 0);
    let read = viaduct_engine::Time::from_nanoseconds(700);
    let costs = Costs {
        upload: read,
        ..Costs::default()
    };
    let mut residency = Residency::new(6, Policy::LeastRecentlyUsed, Stall::Nobody);
    let connections = [(); 12].map(|()| residency.create());
    let mut list: Vec<Endpoint> = Vec::new();
    for _ in 0..5000 {
        let connection = connections[random.below(12) as usize];
        let place = list.iter().position(|known| *known == connection);
        if let Some(place) = place {
            list.remove(place);
        }
        list.push(connection);
        let leaves = (list.len() > 6).then(|| list.remove(0));
        let brought = residency.bring_now(connection, &mut random).unwrap();
        assert_eq!(brought.was_resident, place.is_some());
        assert_eq!(brought.unloaded, leaves);
        let wait = if place.is_some() {
            viaduct_engine::Time::ZERO
        } else {
            read
        };
        assert_eq!(costs.of_message(&brought), wait);
    }
}
