//! Residency: which endpoints are in the interface's frames, and how others get there.
//!
//! Endpoints are bound to frames on demand, as pages are to memory. This is the driver's side of
//! it: what the host's kernel knows, told of faults, and of each step of a remap when it is done.
//!
//! ```text
//!                     write, or a message came (fault)
//!   on-host read-only ---------------------------------> on-host read-write --+
//!        ^    |  ^                                                            | upload
//!        |    |  +-- page in                          unload                  v
//!        |    v      on-disk            +---------------------------- on-NIC read-write
//!        +----|-------------------------+
//!             page out
//! ```
//!
//! A fault makes an endpoint on-host read-write at once, so that the thread that wrote goes on, and
//! puts it in the line of the remap service, which works on one remap at a time: choose a resident
//! endpoint to leave if no frame is free, bring it to rest, unload it, upload the other.
//!
//! What another kind of interface does differently is two parameters: who stalls ([`Stall`]) and
//! what each step costs ([`Costs`]). An RDMA adapter's cache of connection state is this with
//! [`Residency::bring_now`]: the message itself waits, no thread serves remaps, nothing is brought
//! to rest, and an unload costs nothing since the host has a copy.
//!
//! What holds after each call:
//! - an endpoint is in at most one frame and a frame has at most one endpoint;
//! - with [`Stall::Nobody`], a write waits for nothing but a page on disk; what is written while
//!   the image is being copied stays on the host, and the driver adds it to the image afterwards;
//! - an endpoint that is on-host read-write is in the line or being remapped: nothing that was
//!   written stays on the host for good;
//! - whoever was told [`Write::Blocked`] is woken by a [`Done`] or a [`Step::Release`] that comes
//!   later.

mod costs;
mod frames;

pub use costs::Costs;
pub use frames::{FRAMES_MAX, Frames, Policy};
use viaduct_engine::Stream;

use crate::names::{Endpoint, Frame, NONE};

/// Where an endpoint is, and who may write to it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// In host memory: the process may read it, and a write faults. The first state.
    OnHostReadOnly,
    /// In host memory and written there, on its way to a frame.
    OnHostReadWrite,
    /// In this frame: the process writes into the interface's memory.
    OnNicReadWrite(Frame),
    /// In host memory that was paged out.
    OnDisk,
}

/// Who waits when an endpoint that is needed is not in a frame.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Stall {
    /// Nobody: the process writes to host memory meanwhile.
    #[default]
    Nobody,
    /// The thread that wrote, until the upload is done: the protocol without the on-host read-write
    /// state, under which servers of one thread collapse as soon as remapping begins.
    Thread,
}

/// What happens to a write of the process into its endpoint.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Write {
    /// It goes into this frame.
    Direct(Frame),
    /// It goes to host memory, and faults only if `is_fault`; the thread goes on.
    OnHost {
        /// Whether this write trapped into the kernel.
        is_fault: bool,
    },
    /// It trapped into the kernel; the thread waits, and writes again when it is woken.
    Blocked,
    /// There is no such endpoint, or it is being freed.
    NoSuchEndpoint,
}

/// What the remap service does next.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Read the endpoint's image from disk.
    PageIn(Endpoint),
    /// Have the interface send nothing new of it, and wait until it has nothing outstanding.
    BringToRest(Endpoint, Frame),
    /// Move its image from the frame to host memory.
    Unload(Endpoint, Frame),
    /// Move its image from host memory into the frame; it goes on from there.
    Upload(Endpoint, Frame),
    /// The endpoint is gone and its number free; threads that wait for it learn so. Over at once:
    /// no [`Residency::done`] answers it.
    Release(Endpoint),
}

/// What a finished step leads to, beside the next step.
#[must_use]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Done {
    /// Threads that wait for this endpoint may try again.
    pub wake: Option<Endpoint>,
}

/// What [`Residency::bring_now`] had to do.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Brought {
    /// The endpoint's frame.
    pub frame: Frame,
    /// Whether it was there already.
    pub was_resident: bool,
    /// Who had to leave for it.
    pub unloaded: Option<Endpoint>,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Faults by a write of the process.
    pub write_faults: u64,
    /// Faults by a message that came.
    pub proxy_faults: u64,
    /// Endpoints uploaded.
    pub uploads: u64,
    /// Endpoints unloaded.
    pub unloads: u64,
    /// Endpoints read from disk.
    pub page_ins: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// The next in the line, or the next free number.
    next: u32,
    exists: bool,
    /// In the line, or the one that the present remap is for.
    is_scheduled: bool,
    /// Its image is being copied.
    is_moving: bool,
    /// Somebody asked for it while it was moving away.
    is_wanted: bool,
    is_doomed: bool,
    has_waiters: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Job {
    Idle,
    PagingIn(Endpoint),
    Resting(Endpoint, Frame, Option<Endpoint>),
    Unloading(Endpoint, Frame, Option<Endpoint>),
    Uploading(Endpoint, Frame),
}

/// The driver's knowledge of one interface's endpoints and frames.
///
/// Memory: 24 bytes an endpoint, and 12 a frame that was ever taken. Every call is O(1) (see
/// [`Frames`] for the clock).
#[derive(Clone, Debug)]
pub struct Residency {
    stall: Stall,
    frames: Frames,
    occupants: Vec<u32>,
    entries: Vec<Entry>,
    free: u32,
    line_first: u32,
    line_last: u32,
    in_line: u32,
    /// How many of those in the line are still served in this round; none: whoever is in it is.
    round: Option<u32>,
    job: Job,
    /// The job's step was handed out and is not done.
    is_under_way: bool,
    counts: Counts,
}

impl Residency {
    /// An interface with `frames` free frames and no endpoints.
    ///
    /// # Panics
    /// If `frames` is 0 or above [`FRAMES_MAX`].
    #[must_use]
    pub fn new(frames: u16, policy: Policy, stall: Stall) -> Self {
        Self {
            stall,
            frames: Frames::new(frames, policy),
            occupants: Vec::new(),
            entries: Vec::new(),
            free: NONE,
            line_first: NONE,
            line_last: NONE,
            in_line: 0,
            round: None,
            job: Job::Idle,
            is_under_way: false,
            counts: Counts::default(),
        }
    }

    /// A new endpoint, on-host read-only.
    ///
    /// # Panics
    /// With 2^32 - 1 endpoints.
    pub fn create(&mut self) -> Endpoint {
        let entry = Entry {
            state: State::OnHostReadOnly,
            next: NONE,
            exists: true,
            is_scheduled: false,
            is_moving: false,
            is_wanted: false,
            is_doomed: false,
            has_waiters: false,
        };
        if self.free == NONE {
            assert!(self.entries.len() < NONE as usize, "too many endpoints");
            self.entries.push(entry);
            return Endpoint::new(self.entries.len() as u32 - 1);
        }
        let index = self.free;
        self.free = self.entries[index as usize].next;
        self.entries[index as usize] = entry;
        Endpoint::new(index)
    }

    /// Begins to free an endpoint: it leaves its frame, then [`Step::Release`] says that it is
    /// gone.
    ///
    /// Returns whether there was such an endpoint.
    pub fn free(&mut self, endpoint: Endpoint) -> bool {
        let Some(entry) = self.live(endpoint) else {
            return false;
        };
        entry.is_doomed = true;
        self.queue(endpoint);
        true
    }

    /// Where an endpoint is; none if there is no such.
    #[must_use]
    pub fn state(&self, endpoint: Endpoint) -> Option<State> {
        let entry = self.entries.get(endpoint.index())?;
        entry.exists.then_some(entry.state)
    }

    /// Whether there is such an endpoint, and it is not being freed.
    #[must_use]
    pub fn exists(&self, endpoint: Endpoint) -> bool {
        let entry = self.entries.get(endpoint.index());
        entry.is_some_and(|entry| entry.exists && !entry.is_doomed)
    }

    /// Who is in a frame, or on the way into it or out of it.
    #[must_use]
    pub fn occupant(&self, frame: Frame) -> Option<Endpoint> {
        let occupant = *self.occupants.get(frame.index())?;
        (occupant != NONE).then(|| Endpoint::new(occupant))
    }

    /// How often what happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether nothing is in the line and no step under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.job == Job::Idle && self.line_first == NONE
    }

    /// From here on the remap service works in rounds, as a thread does that looks now and then:
    /// each serves those that are in the line when it begins. Without this it serves whoever comes.
    pub fn begin_round(&mut self) {
        self.round = Some(self.in_line);
    }

    /// Whether a remap is under way, or the next may begin.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.job != Job::Idle || self.line_first != NONE && self.round != Some(0)
    }

    /// Notes that an endpoint was used, for the policies that ask.
    pub fn touch(&mut self, endpoint: Endpoint) {
        if let Some(State::OnNicReadWrite(frame)) = self.state(endpoint) {
            self.frames.touch(frame);
        }
    }

    /// The process writes into its endpoint.
    #[inline]
    pub fn write(&mut self, endpoint: Endpoint) -> Write {
        let stall = self.stall;
        let Some(entry) = self.live(endpoint) else {
            return Write::NoSuchEndpoint;
        };
        if entry.is_moving {
            // On its way out: it has to come back. On its way in: it is coming.
            entry.is_wanted = true;
            let is_fault = entry.state == State::OnHostReadOnly;
            let goes_on = stall == Stall::Nobody;
            if goes_on {
                entry.state = State::OnHostReadWrite;
            } else {
                entry.has_waiters = true;
            }
            self.counts.write_faults += u64::from(is_fault);
            return if goes_on {
                Write::OnHost { is_fault }
            } else {
                Write::Blocked
            };
        }
        match entry.state {
            State::OnNicReadWrite(frame) => return Write::Direct(frame),
            State::OnHostReadWrite => return Write::OnHost { is_fault: false },
            State::OnHostReadOnly | State::OnDisk => {}
        }
        let goes_on = stall == Stall::Nobody && entry.state == State::OnHostReadOnly;
        if goes_on {
            entry.state = State::OnHostReadWrite;
        } else {
            entry.has_waiters = true;
        }
        self.counts.write_faults += 1;
        self.queue(endpoint);
        if goes_on {
            Write::OnHost { is_fault: true }
        } else {
            Write::Blocked
        }
    }

    /// The interface refused a message for an endpoint that it does not have.
    ///
    /// Returns whether that scheduled a remap.
    pub fn reference(&mut self, endpoint: Endpoint) -> bool {
        let stall = self.stall;
        let Some(entry) = self.live(endpoint) else {
            return false;
        };
        match entry.state {
            _ if entry.is_moving => {
                entry.is_wanted = true;
                return false;
            }
            State::OnNicReadWrite(_) | State::OnHostReadWrite => return false,
            State::OnHostReadOnly if stall == Stall::Nobody => {
                entry.state = State::OnHostReadWrite;
            }
            State::OnHostReadOnly | State::OnDisk => {}
        }
        if entry.is_scheduled {
            return false;
        }
        self.counts.proxy_faults += 1;
        self.queue(endpoint);
        true
    }

    /// The host's memory is short: pages an endpoint out.
    ///
    /// Returns whether that is allowed: only for what is on-host read-only and in nobody's way.
    pub fn page_out(&mut self, endpoint: Endpoint) -> bool {
        let Some(entry) = self.live(endpoint) else {
            return false;
        };
        let is_allowed =
            entry.state == State::OnHostReadOnly && !entry.is_moving && !entry.is_scheduled;
        if is_allowed {
            entry.state = State::OnDisk;
        }
        is_allowed
    }

    /// The remap service's next step; none while one is under way, or when nothing is to be done.
    ///
    /// `random` is drawn from by [`Policy::Random`] alone, once for each endpoint that has to
    /// leave.
    pub fn poll_step(&mut self, random: &mut Stream) -> Option<Step> {
        if self.is_under_way {
            return None;
        }
        if self.job == Job::Idle {
            let endpoint = self.take_from_line()?;
            let entry = &mut self.entries[endpoint.index()];
            entry.is_scheduled = !entry.is_doomed;
            match (entry.is_doomed, entry.state) {
                (true, State::OnNicReadWrite(frame)) => {
                    self.job = Job::Resting(endpoint, frame, None);
                }
                (true, _) => {
                    entry.exists = false;
                    entry.next = self.free;
                    self.free = endpoint.index() as u32;
                    return Some(Step::Release(endpoint));
                }
                (false, State::OnDisk) => self.job = Job::PagingIn(endpoint),
                (false, _) => self.make_room(endpoint, random),
            }
        }
        self.is_under_way = true;
        Some(match self.job {
            Job::Idle => unreachable!("a job was chosen above"),
            Job::PagingIn(endpoint) => Step::PageIn(endpoint),
            Job::Resting(endpoint, frame, _) => Step::BringToRest(endpoint, frame),
            Job::Unloading(endpoint, frame, _) => {
                let entry = &mut self.entries[endpoint.index()];
                entry.is_moving = true;
                entry.state = State::OnHostReadOnly;
                Step::Unload(endpoint, frame)
            }
            Job::Uploading(endpoint, frame) => {
                self.entries[endpoint.index()].is_moving = true;
                Step::Upload(endpoint, frame)
            }
        })
    }

    /// The step that was handed out is done.
    ///
    /// `has_work` says of an unloaded endpoint that messages to be sent are in its image: it comes
    /// back without being asked for. For other steps it means nothing.
    ///
    /// # Panics
    /// If no step is under way.
    pub fn done(&mut self, has_work: bool, random: &mut Stream) -> Done {
        assert!(
            core::mem::take(&mut self.is_under_way),
            "no step of a remap is under way"
        );
        let stall = self.stall;
        let mut wake = None;
        match self.job {
            Job::Idle => unreachable!("a step that is under way has a job"),
            Job::PagingIn(endpoint) => {
                self.counts.page_ins += 1;
                let entry = &mut self.entries[endpoint.index()];
                if stall == Stall::Nobody {
                    entry.state = State::OnHostReadWrite;
                    wake = core::mem::take(&mut entry.has_waiters).then_some(endpoint);
                } else {
                    entry.state = State::OnHostReadOnly;
                }
                self.make_room(endpoint, random);
            }
            Job::Resting(victim, frame, then) => self.job = Job::Unloading(victim, frame, then),
            Job::Unloading(victim, frame, then) => {
                self.counts.unloads += 1;
                self.occupants[frame.index()] = NONE;
                self.frames.release(frame);
                let entry = &mut self.entries[victim.index()];
                entry.is_moving = false;
                let comes_back = core::mem::take(&mut entry.is_wanted) || has_work;
                if stall == Stall::Nobody {
                    wake = core::mem::take(&mut entry.has_waiters).then_some(victim);
                }
                if comes_back && !entry.is_doomed && stall == Stall::Nobody {
                    entry.state = State::OnHostReadWrite;
                }
                if comes_back || entry.is_doomed {
                    self.queue(victim);
                }
                self.job = Job::Idle;
                if let Some(endpoint) = then {
                    self.make_room(endpoint, random);
                }
            }
            Job::Uploading(endpoint, frame) => {
                self.counts.uploads += 1;
                let entry = &mut self.entries[endpoint.index()];
                entry.state = State::OnNicReadWrite(frame);
                entry.is_moving = false;
                entry.is_wanted = false;
                entry.is_scheduled = false;
                wake = core::mem::take(&mut entry.has_waiters).then_some(endpoint);
                if entry.is_doomed {
                    self.queue(endpoint);
                }
                self.job = Job::Idle;
            }
        }
        Done { wake }
    }

    /// Has an endpoint in a frame at once: for an interface whose message waits meanwhile, and
    /// which has no remap service. Counts as a use.
    ///
    /// Returns none if there is no such endpoint.
    ///
    /// # Panics
    /// If the remap service is at work: an interface has one or the other.
    pub fn bring_now(&mut self, endpoint: Endpoint, random: &mut Stream) -> Option<Brought> {
        assert!(self.is_idle(), "the remap service is at work");
        let mut brought = match self.live(endpoint)?.state {
            State::OnNicReadWrite(frame) => {
                self.frames.touch(frame);
                return Some(Brought {
                    frame,
                    was_resident: true,
                    unloaded: None,
                });
            }
            _ => Brought {
                frame: Frame::new(0),
                was_resident: false,
                unloaded: None,
            },
        };
        if let Some(frame) = self.frames.victim(random) {
            let victim = Endpoint::new(self.occupants[frame.index()]);
            self.entries[victim.index()].state = State::OnHostReadOnly;
            self.frames.release(frame);
            self.counts.unloads += 1;
            brought.unloaded = Some(victim);
        }
        brought.frame = self.bind(endpoint)?;
        self.entries[endpoint.index()].state = State::OnNicReadWrite(brought.frame);
        self.counts.uploads += 1;
        Some(brought)
    }

    #[inline]
    fn live(&mut self, endpoint: Endpoint) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(endpoint.index())?;
        (entry.exists && !entry.is_doomed).then_some(entry)
    }

    /// A frame for `endpoint`, or somebody's leave first.
    fn make_room(&mut self, endpoint: Endpoint, random: &mut Stream) {
        self.job = if let Some(frame) = self.bind(endpoint) {
            Job::Uploading(endpoint, frame)
        } else {
            let frame = self.frames.victim(random);
            let frame = frame.expect("no frame is free, so one can be emptied");
            let victim = Endpoint::new(self.occupants[frame.index()]);
            Job::Resting(victim, frame, Some(endpoint))
        };
    }

    fn bind(&mut self, endpoint: Endpoint) -> Option<Frame> {
        let frame = self.frames.take()?;
        if frame.index() >= self.occupants.len() {
            self.occupants.resize(frame.index() + 1, NONE);
        }
        self.occupants[frame.index()] = endpoint.index() as u32;
        Some(frame)
    }

    fn queue(&mut self, endpoint: Endpoint) {
        let index = endpoint.index() as u32;
        let entry = &mut self.entries[endpoint.index()];
        if core::mem::replace(&mut entry.is_scheduled, true) {
            return;
        }
        entry.next = NONE;
        match self.entries.get_mut(self.line_last as usize) {
            Some(last) => last.next = index,
            None => self.line_first = index,
        }
        self.line_last = index;
        self.in_line += 1;
    }

    fn take_from_line(&mut self) -> Option<Endpoint> {
        if self.round == Some(0) {
            return None;
        }
        let index = self.line_first;
        let entry = self.entries.get(index as usize)?;
        self.in_line -= 1;
        self.round = self.round.map(|left| left - 1);
        self.line_first = entry.next;
        if self.line_first == NONE {
            self.line_last = NONE;
        }
        Some(Endpoint::new(index))
    }
}

#[cfg(test)]
mod tests;
