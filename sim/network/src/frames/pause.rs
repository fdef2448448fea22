//! Links that pause: priority flow control (IEEE 802.1Qbb), with one priority.
//!
//! A switch counts the bytes that it holds of frames that came by each link, wherever they go.
//! With a frame that makes them more than a limit (XOFF) it tells the link to pause, and when they
//! are no more than a lower one (XON), to go on. The link hears of it when a frame of 64 bytes has
//! crossed its cable. What is on its way until then finds room: the headroom. What finds none is
//! lost.
//!
//! Where all links of a switch share its memory, each keeps its headroom of that, and the limit
//! moves: so many times what the switch has free of the rest (Zhu et al., Congestion control for
//! large-scale RDMA deployments, SIGCOMM 2015, section 4). With each frame that leaves the switch
//! the limit rises, and all links are looked at that may go on.
//!
//! What a link is told in one window it hears in a later one, as with frames. Adapters of hosts
//! pause too, and never tell their links to: they take all that comes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use viaduct_engine::Time;
use viaduct_topology::{Channel, LinkId, Node};

use super::Frames;
use super::alone::{full_bytes, picoseconds};
use super::cable::{Cable, Cables};
use super::calendar::{Arrival, Kind};
use super::order::Ordered;
use crate::adapter::NEVER;
use crate::credits::Deadlock;
use crate::hops::Delays;
use crate::links::{SharedMemory, WhenFull};

/// What a link is told by, bytes.
const NOTICE_BYTES: f64 = 64.0;
/// Windows between two looks for links that wait for each other in a circle.
const LOOK_WINDOWS: u64 = 1 << 10;

/// All links that may pause.
#[derive(Debug)]
pub(super) struct Pauses {
    links: Vec<Pausing>,
    /// Adapters with a frame that is ready for its link.
    ready: Vec<Option<Ready>>,
    /// Messages of adapters whose links pause: somebody is to look whether their last byte is gone.
    looks: BTreeMap<u32, Vec<u32>>,
    /// The memory that links into one switch share, if they do.
    pool: Option<Pool>,
    next_look: u64,
    /// Links each of which waits for the next, and the last for the first.
    deadlock: Option<Box<Deadlock>>,
}

/// A link, and the frames in the switch behind it that came by it.
#[derive(Debug, Default)]
struct Pausing {
    /// The host whose adapter sends on it, if one does.
    host: Option<u32>,
    /// Where a host's adapter is before it: whether it pauses, and changes of that to come.
    is_paused: bool,
    changes: VecDeque<(u64, bool)>,
    /// In the switch behind it: bytes, how many fit, and the limits for pausing and going on.
    held: u64,
    room: u64,
    xoff: u64,
    xon: u64,
    /// Until what it is told is there.
    notice: u64,
    /// Whether it was told last to pause; when it heard that; how often, and for how long before.
    is_told: bool,
    since: u64,
    count: u64,
    paused: u64,
}

/// The memory of switches, which what comes by all their links shares.
#[derive(Debug)]
struct Pool {
    memory: SharedMemory,
    /// So many bytes below the limit for pausing is that for going on.
    gap: u64,
    /// The switch behind each link; none has the number of a host's.
    switches: Vec<u32>,
    of_switches: Vec<PoolOfSwitch>,
}

/// Of one switch.
#[derive(Clone, Debug, Default)]
struct PoolOfSwitch {
    /// What its links keep for themselves, and what it holds of all frames.
    headroom: u64,
    used: u64,
    /// Links that were told last to pause.
    told: BTreeSet<u32>,
}

/// A frame that an adapter has chosen and that has not begun on its link yet.
#[derive(Clone, Copy, Debug)]
struct Ready {
    passage: u32,
    kind: Kind,
    /// When it is ready.
    comes: u64,
    /// Whether the adapter chooses the next one when this one begins, or when it has left.
    reads_ahead: bool,
    is_stopped: bool,
}

impl Pauses {
    /// Of the links of a network; none if they do not pause.
    pub(super) fn of(delays: &Delays<'_>, cables: &Cables) -> Option<Box<Self>> {
        let buffers = &delays.links.buffers;
        if !buffers.may_pause() {
            return None;
        }
        let room = buffers.bytes_max.unwrap_or(u64::MAX);
        let gap = 2 * full_bytes(delays.links.frame).ceil() as u64;
        let topology = delays.topology;
        let link_of = |(number, cable): (usize, &Cable)| {
            let notice = notice(cable);
            let xoff = room.saturating_sub(headroom_of(delays, LinkId(number as u32)));
            Pausing {
                host: match topology.link_ends(LinkId(number as u32)).0 {
                    Node::Host(host) => Some(host.0),
                    Node::Switch(_) => None,
                },
                room,
                xoff,
                xon: xoff.saturating_sub(gap),
                notice,
                ..Pausing::default()
            }
        };
        Some(Box::new(Self {
            links: cables.iter().enumerate().map(link_of).collect(),
            ready: vec![None; topology.host_count() as usize],
            looks: BTreeMap::new(),
            pool: buffers.shared.map(|memory| Pool::of(memory, gap, delays)),
            next_look: 0,
            deadlock: None,
        }))
    }

    /// How often a link was told to pause, and for how long it has paused until `now`.
    pub(super) fn count(&self, link: u32, now: u64) -> (u64, u64) {
        let link = &self.links[link as usize];
        let open = if link.is_told {
            now.saturating_sub(link.since)
        } else {
            0
        };
        (link.count, link.paused + open)
    }

    /// Whether a switch has room for a frame that came by a link.
    pub(super) fn have_room(&self, from: u32, held: u32) -> bool {
        let behind = &self.links[from as usize];
        let pool = self.pool.as_ref();
        behind.held + u64::from(held) <= behind.room
            && pool.is_none_or(|it| it.behind(from).used + u64::from(held) <= it.memory.bytes)
    }

    /// What came by a link that a switch holds: whether the link is to pause with that, or may go
    /// on.
    fn notice_for(&self, number: u32) -> Option<Kind> {
        let behind = &self.links[number as usize];
        let (mut xoff, mut xon) = (behind.xoff, behind.xon);
        if let Some(pool) = &self.pool {
            let limit = pool.limit(number, pool.behind(number).used);
            xoff = xoff.min(limit);
            xon = xon.min(limit.saturating_sub(pool.gap));
        }
        match behind.is_told {
            false if behind.held > xoff => Some(Kind::PAUSES),
            true if behind.held <= xon => Some(Kind::RESUMES),
            _ => None,
        }
    }

    pub(super) fn state_bytes(&self) -> usize {
        let pool = self.pool.as_ref().map_or(0, |pool| {
            pool.switches.capacity() * size_of::<u32>()
                + pool.of_switches.capacity() * size_of::<PoolOfSwitch>()
        });
        pool + self.links.capacity() * size_of::<Pausing>()
            + self.ready.capacity() * size_of::<Option<Ready>>()
    }
}

impl Pool {
    fn of(memory: SharedMemory, gap: u64, delays: &Delays<'_>) -> Self {
        let topology = delays.topology;
        let links = (0..topology.link_count()).map(LinkId);
        let behind = |link| match topology.link_ends(link).1 {
            Node::Switch(switch) => switch.0,
            Node::Host(_) => u32::MAX,
        };
        let switches: Vec<u32> = links.clone().map(behind).collect();
        let mut of_switches = vec![PoolOfSwitch::default(); topology.switch_count() as usize];
        for (link, switch) in links.zip(&switches) {
            if let Some(its) = of_switches.get_mut(*switch as usize) {
                its.headroom += headroom_of(delays, link);
            }
        }
        Self {
            memory,
            gap,
            switches,
            of_switches,
        }
    }

    /// The switch behind a link: nothing comes by links to hosts.
    fn behind(&self, link: u32) -> &PoolOfSwitch {
        &self.of_switches[self.switches[link as usize] as usize]
    }

    fn behind_mut(&mut self, link: u32) -> &mut PoolOfSwitch {
        &mut self.of_switches[self.switches[link as usize] as usize]
    }

    /// Bytes of what came by a link beyond which it is to pause, where its switch holds so many.
    fn limit(&self, link: u32, used: u64) -> u64 {
        self.memory.threshold(used + self.behind(link).headroom)
    }
}

impl Pausing {
    /// Whether an adapter's link pauses at a time; if so, when it goes on, if that is known.
    fn paused_at(&mut self, time: u64) -> Option<u64> {
        while let Some(&(changes, is_paused)) = self.changes.front()
            && changes <= time
        {
            self.is_paused = is_paused;
            self.changes.pop_front();
        }
        self.is_paused.then(|| {
            let goes_on = self.changes.iter().find(|(_, is_paused)| !is_paused);
            goes_on.map_or(NEVER, |(time, _)| *time)
        })
    }
}

/// How long what a link is told takes to it, picoseconds.
pub(super) fn notice(cable: &Cable) -> u64 {
    cable.propagation + picoseconds(NOTICE_BYTES, cable.rate)
}

/// What a link that has been told to pause still brings, and the frames around that, bytes: what
/// begins on it from the frame on with which it was told, until it hears; the rest of the last one
/// that began; and what that first one has beyond the limit.
pub(crate) fn headroom(delays: &Delays<'_>, link: LinkId) -> u64 {
    let (links, topology) = (delays.links, delays.topology);
    let rate = links.rate_of(topology, link).bytes_per_picosecond();
    let cable = links.propagation_of(topology, link).picoseconds();
    let frame = full_bytes(links.frame);
    // No frame is longer in the switch, and before it, than one that is stored there. With
    // cut-through it is not so long, and more is kept than it takes.
    let lead = cable + delays.switch.delay.picoseconds() + picoseconds(frame, rate);
    let hears = cable + picoseconds(NOTICE_BYTES, rate);
    ((lead + hears) as f64 * rate).ceil() as u64 + 2 * frame.ceil() as u64
}

/// What is kept for what still comes by a link that has been told to pause, bytes.
fn headroom_of(delays: &Delays<'_>, link: LinkId) -> u64 {
    match delays.links.buffers.full {
        WhenFull::Pause {
            headroom_bytes: Some(given),
        } => given,
        _ => headroom(delays, link),
    }
}

/// What the links into each switch keep together, bytes: most of all switches.
pub(crate) fn headroom_of_switch(delays: &Delays<'_>) -> u64 {
    let mut kept = vec![0; delays.topology.switch_count() as usize];
    for link in (0..delays.topology.link_count()).map(LinkId) {
        if let Node::Switch(switch) = delays.topology.link_ends(link).1 {
            kept[switch.0 as usize] += headroom_of(delays, link);
        }
    }
    kept.into_iter().max().unwrap_or(0)
}

impl Frames {
    /// A switch holds a frame more that came by a link.
    pub(super) fn hold(&mut self, from: u32, now: u64, held: u32) {
        let Some(pauses) = &mut self.pauses else {
            return;
        };
        pauses.links[from as usize].held += u64::from(held);
        if let Some(pool) = &mut pauses.pool {
            pool.behind_mut(from).used += u64::from(held);
        }
        if pauses.notice_for(from) == Some(Kind::PAUSES) {
            self.tell_link(from, now, Kind::PAUSES);
        }
    }

    /// The frame has left the switch.
    pub(super) fn release(&mut self, from: u32, now: u64, held: u32) {
        let Some(pauses) = &mut self.pauses else {
            return;
        };
        pauses.links[from as usize].held -= u64::from(held);
        let Some(pool) = &mut pauses.pool else {
            if pauses.notice_for(from) == Some(Kind::RESUMES) {
                self.tell_link(from, now, Kind::RESUMES);
            }
            return;
        };
        let its = pool.behind_mut(from);
        its.used -= u64::from(held);
        // The limit of each link into this switch has risen.
        let told: Vec<u32> = its.told.iter().copied().collect();
        let may_go_on = |link: &u32| pauses.notice_for(*link) == Some(Kind::RESUMES);
        let go_on: Vec<u32> = told.into_iter().filter(may_go_on).collect();
        for link in go_on {
            self.tell_link(link, now, Kind::RESUMES);
        }
    }

    /// A switch tells the link by which something came.
    fn tell_link(&mut self, number: u32, now: u64, kind: Kind) {
        let Some(pauses) = &mut self.pauses else {
            return;
        };
        if let Some(pool) = &mut pauses.pool {
            let told = &mut pool.behind_mut(number).told;
            match kind {
                Kind::PAUSES => told.insert(number),
                _ => told.remove(&number),
            };
        }
        let link = &mut pauses.links[number as usize];
        let hears = now + link.notice;
        link.is_told = kind == Kind::PAUSES;
        if link.is_told {
            link.count += 1;
            link.since = hears;
        } else {
            link.paused += hears - link.since;
        }
        self.expect(number, hears, kind);
    }

    /// A link pauses, or goes on.
    pub(super) fn change(&mut self, now: u64, number: u32, is_paused: bool) {
        self.follow_pause(number, now, is_paused);
        let (Some(pauses), Some(ordered)) = (&mut self.pauses, &mut self.ordered) else {
            return;
        };
        let link = &mut pauses.links[number as usize];
        let Some(host) = link.host else {
            ordered.of_link_mut(number).is_paused = is_paused;
            return self.serve_next(now, number);
        };
        link.changes.push_back((now, is_paused));
        if let Some(ready) = &mut pauses.ready[host as usize]
            && ready.is_stopped
            && !is_paused
        {
            ready.is_stopped = false;
            self.adapters[host].out.wake = now;
            let looks = pauses.looks.remove(&host).unwrap_or_default();
            if now < self.active_from[host as usize] {
                self.activate(host, now);
            }
            for id in looks {
                self.passages[id as usize].parts.gone_look = now;
                self.notices.push((now, id));
            }
        }
    }

    /// The frame that an adapter has chosen begins on its link, if it can. Whether there was one.
    pub(super) fn send_ready(&mut self, host: u32, time: u64) -> bool {
        let Some(pauses) = &mut self.pauses else {
            return false;
        };
        let Some(ready) = &mut pauses.ready[host as usize] else {
            return false;
        };
        let id = ready.passage;
        let passage = &mut self.passages[id as usize];
        let number = passage.way[0];
        let adapter = &mut self.adapters[host];
        let output = &mut self.outputs[number as usize];
        let start = output.start(ready.comes);
        if start > time {
            adapter.out.wake = start;
            return true;
        }
        if let Some(goes_on) = pauses.links[number as usize].paused_at(time) {
            ready.is_stopped = goes_on == NEVER;
            adapter.out.wake = goes_on;
            return true;
        }
        let (kind, reads_ahead) = (ready.kind, ready.reads_ahead);
        pauses.ready[host as usize] = None;
        let bytes = passage.parts.sizes.bytes(kind.is_last());
        let service = self.cables[number].service(bytes);
        let held = passage.parts.sizes.held(kind.is_last());
        output.take(time, service, (bytes, held));
        self.has_begun(host, id, kind, (time, service), reads_ahead);
        true
    }

    /// An adapter has chosen a frame that is ready for its link at a time.
    pub(super) fn make_ready(
        &mut self,
        host: u32,
        passage: u32,
        kind: Kind,
        (comes, reads_ahead): (u64, bool),
    ) {
        let Some(pauses) = &mut self.pauses else {
            return;
        };
        pauses.ready[host as usize] = Some(Ready {
            passage,
            kind,
            comes,
            reads_ahead,
            is_stopped: false,
        });
        let link = self.passages[passage as usize].way[0];
        let start = self.outputs[link as usize].start(comes);
        self.adapters[host].out.wake = start;
    }

    /// When the last frame of a message leaves at the earliest, where links pause: never, as long
    /// as the adapter's link does, and somebody is told to look when it goes on.
    pub(super) fn gone_min_of_pausing(&mut self, now: u64, id: u32) -> Option<u64> {
        let pauses = self.pauses.as_mut()?;
        let passage = &self.passages[id as usize];
        let host = passage.parts.source;
        if pauses.ready[host as usize].is_some_and(|ready| ready.is_stopped) {
            pauses.looks.entry(host).or_default().push(id);
            return Some(NEVER);
        }
        let cable = &self.cables[passage.way[0]];
        let (full, last) = (
            cable.service(passage.parts.sizes.full),
            cable.service(passage.parts.sizes.last),
        );
        let from = match (passage.parts.left, self.adapters[host].out.wake) {
            // Its last frame is ready.
            (0, NEVER) => now,
            (0, wake) => now.max(wake) + last - 1,
            _ => self.may_go_from(now, passage) + passage.parts.rest(full, last) - 1,
        };
        Some(from + 1)
    }
}

/// Links that wait for each other in a circle.
impl Frames {
    /// Looks for such links from time to time, and where nothing else is to come.
    pub(super) fn look_for_deadlock(&mut self, now: u64, window: u64) {
        let is_quiet = self.calendar.first().is_none();
        let (Some(pauses), Some(ordered)) = (&mut self.pauses, &self.ordered) else {
            return;
        };
        if pauses.deadlock.is_some() || (window < pauses.next_look && !is_quiet) {
            return;
        }
        pauses.next_look = window + LOOK_WINDOWS;
        let passages = &self.passages;
        let held = |arrival: &Arrival| {
            let sizes = &passages[arrival.passage as usize].parts.sizes;
            u64::from(sizes.held(arrival.kind.is_last()))
        };
        let circle = pauses.circle(ordered, held).into_iter();
        let channels: Vec<_> = circle.map(|link| Channel { link, number: 0 }).collect();
        pauses.deadlock = (!channels.is_empty()).then(|| {
            let at = Time::from_picoseconds(now);
            Box::new(Deadlock { at, channels })
        });
    }

    /// Links each of which waits for the next, and the last for the first, if there are such.
    pub(crate) fn deadlock(&self) -> Option<&Deadlock> {
        self.pauses.as_ref()?.deadlock.as_deref()
    }
}

impl Pauses {
    /// What waits for a link that pauses stays where it is. So a link never goes on of which
    /// more than its lower limit waits for such links; any other may. Where links share memory,
    /// that limit is what it is when their switch holds nothing else.
    fn circle(&self, ordered: &Ordered, held: impl Fn(&Arrival) -> u64) -> Vec<LinkId> {
        let numbers = 0..self.links.len() as u32;
        let is_stopped = |number: &u32| {
            self.links[*number as usize].is_told && ordered.of_link(*number).is_paused
        };
        let mut stopped: BTreeSet<u32> = numbers.filter(is_stopped).collect();
        let waits = |number: u32| {
            let waiting = ordered.of_link(number).waiting.iter();
            waiting.filter(|arrival| !arrival.kind.is_lost())
        };
        loop {
            let mut stuck = BTreeMap::<u32, u64>::new();
            for arrival in stopped.iter().flat_map(|number| waits(*number)) {
                *stuck.entry(arrival.from).or_default() += held(arrival);
            }
            let before = stopped.len();
            let mut of_switches = BTreeMap::<u32, u64>::new();
            if let Some(pool) = &self.pool {
                for (link, bytes) in &stuck {
                    let switch = pool.switches[*link as usize];
                    *of_switches.entry(switch).or_default() += bytes;
                }
            }
            stopped.retain(|number| {
                let mut xon = self.links[*number as usize].xon;
                if let Some(pool) = &self.pool {
                    let switch = pool.switches[*number as usize];
                    let used = of_switches.get(&switch).copied().unwrap_or(0);
                    xon = xon.min(pool.limit(*number, used).saturating_sub(pool.gap));
                }
                stuck.get(number).copied().unwrap_or(0) > xon
            });
            if stopped.len() == before {
                break;
            }
        }
        // Each of them waits for one of them: whoever follows comes to where it was.
        let mut way = Vec::new();
        let mut next = stopped.first().copied();
        while let Some(number) = next {
            if let Some(begin) = way.iter().position(|link| *link == LinkId(number)) {
                return way.split_off(begin);
            }
            way.push(LinkId(number));
            let is_waited_for = |other: &&u32| waits(**other).any(|it| it.from == number);
            next = stopped.iter().find(is_waited_for).copied();
        }
        Vec::new()
    }
}
