//! The interface's side: which endpoints exist, and what is in each frame.

use super::{Clocks, Disagreement, Stamped, ToDriver, ToInterface};
use crate::names::{Endpoint, Frame, NONE};

/// Where an endpoint is, as a message for it finds out.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lookup {
    /// In this frame; it takes messages.
    Resident(Frame),
    /// It is in no frame, or its image is being moved.
    NotResident,
    /// There is no such endpoint.
    NoSuchEndpoint,
}

/// What the interface has to do for the driver.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Task {
    /// Nothing.
    None,
    /// Send nothing new from this frame, and call [`InterfaceSide::at_rest`] once nothing is
    /// outstanding.
    BringToRest(Endpoint, Frame),
    /// Copy the frame to the host, then call [`InterfaceSide::moved`].
    Unload(Endpoint, Frame),
    /// Copy the endpoint into the frame, then call [`InterfaceSide::moved`].
    Upload(Endpoint, Frame),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    Empty,
    Uploading,
    Resident,
    /// It takes messages and sends none.
    Resting,
    AtRest,
    Unloading,
}

#[derive(Clone, Copy, Debug)]
struct FrameState {
    phase: Phase,
    occupant: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    frame: u32,
    exists: bool,
    /// A remap was asked for, and the driver has said nothing of the endpoint since.
    was_asked: bool,
}

const ABSENT: Entry = Entry {
    frame: NONE,
    exists: false,
    was_asked: false,
};

/// What the interface knows of endpoints and frames. Every call is O(1).
#[derive(Clone, Debug)]
pub struct InterfaceSide {
    frames: Vec<FrameState>,
    entries: Vec<Entry>,
    clocks: Clocks,
}

impl InterfaceSide {
    /// An interface with `frames` empty frames.
    #[must_use]
    pub fn new(frames: u16) -> Self {
        let empty = FrameState {
            phase: Phase::Empty,
            occupant: NONE,
        };
        Self {
            frames: vec![empty; usize::from(frames)],
            entries: Vec::new(),
            clocks: Clocks::default(),
        }
    }

    /// The driver said something.
    ///
    /// # Errors
    /// When it does not fit what the interface knows.
    pub fn hear(&mut self, stamped: Stamped<ToInterface>) -> Result<Task, Disagreement> {
        self.clocks.take(&stamped)?;
        let message = stamped.message;
        let misfit = Err(Disagreement::Frame(message));
        let (endpoint, frame, from, to) = match message {
            ToInterface::Create(endpoint) => {
                if self.entry(endpoint).exists {
                    return misfit;
                }
                if self.entries.len() <= endpoint.index() {
                    self.entries.resize(endpoint.index() + 1, ABSENT);
                }
                self.entries[endpoint.index()].exists = true;
                return Ok(Task::None);
            }
            ToInterface::Free(endpoint) => {
                let entry = self.entry(endpoint);
                if !entry.exists || entry.frame != NONE {
                    return misfit;
                }
                self.entries[endpoint.index()] = ABSENT;
                return Ok(Task::None);
            }
            ToInterface::BringToRest(endpoint, frame) => {
                (endpoint, frame, Phase::Resident, Phase::Resting)
            }
            ToInterface::Unload(endpoint, frame) => {
                (endpoint, frame, Phase::AtRest, Phase::Unloading)
            }
            ToInterface::Upload(endpoint, frame) => {
                (endpoint, frame, Phase::Empty, Phase::Uploading)
            }
        };
        let Some(state) = self.frames.get(frame.index()) else {
            return misfit;
        };
        let is_there = state.occupant == endpoint.index() as u32;
        let is_placed = self.entry(endpoint).frame != NONE;
        let fits = state.phase == from && (is_there || from == Phase::Empty && !is_placed);
        if !fits || !self.entry(endpoint).exists {
            return misfit;
        }
        self.frames[frame.index()] = FrameState {
            phase: to,
            occupant: endpoint.index() as u32,
        };
        let entry = &mut self.entries[endpoint.index()];
        entry.frame = frame.index() as u32;
        // The driver has spoken: what was asked before is answered or void.
        entry.was_asked = false;
        Ok(match to {
            Phase::Resting => Task::BringToRest(endpoint, frame),
            Phase::Unloading => Task::Unload(endpoint, frame),
            _ => Task::Upload(endpoint, frame),
        })
    }

    /// Nothing of the endpoint in this frame is outstanding, as the driver wanted.
    ///
    /// # Panics
    /// If the driver did not.
    pub fn at_rest(&mut self, frame: Frame) -> Stamped<ToDriver> {
        let state = &mut self.frames[frame.index()];
        assert!(
            state.phase == Phase::Resting,
            "{frame} is not coming to rest"
        );
        state.phase = Phase::AtRest;
        let endpoint = Endpoint::new(state.occupant);
        self.clocks.stamp(ToDriver::AtRest(endpoint))
    }

    /// The copy of a frame to or from the host is done; `has_work` says of an unloaded endpoint
    /// that it has messages to be sent.
    ///
    /// # Panics
    /// If no copy was under way.
    pub fn moved(&mut self, frame: Frame, has_work: bool) -> Stamped<ToDriver> {
        let state = &mut self.frames[frame.index()];
        let endpoint = Endpoint::new(state.occupant);
        match state.phase {
            Phase::Uploading => state.phase = Phase::Resident,
            Phase::Unloading => {
                state.phase = Phase::Empty;
                state.occupant = NONE;
                self.entries[endpoint.index()].frame = NONE;
            }
            phase => panic!("{frame} is {phase:?}: nothing was to be copied"),
        }
        self.clocks.stamp(ToDriver::Moved { endpoint, has_work })
    }

    /// Where the endpoint of this number is. Any number may be asked for.
    #[inline]
    pub fn lookup(&self, endpoint: Endpoint) -> Lookup {
        let entry = self.entry(endpoint);
        if !entry.exists {
            return Lookup::NoSuchEndpoint;
        }
        match self.frames.get(entry.frame as usize) {
            Some(FrameState {
                phase: Phase::Resident | Phase::Resting,
                ..
            }) => Lookup::Resident(Frame::new(entry.frame as u16)),
            _ => Lookup::NotResident,
        }
    }

    /// The endpoint in this frame, or on the way into it or out of it.
    #[inline]
    #[must_use]
    pub fn occupant(&self, frame: Frame) -> Option<Endpoint> {
        let occupant = self.frames.get(frame.index())?.occupant;
        (occupant != NONE).then(|| Endpoint::new(occupant))
    }

    /// Whether the endpoint in this frame may begin to send messages.
    #[inline]
    #[must_use]
    pub fn may_send(&self, frame: Frame) -> bool {
        self.frames[frame.index()].phase == Phase::Resident
    }

    /// A message came for an endpoint that is [`Lookup::NotResident`]: what to tell the driver, if
    /// it was not told.
    pub fn refused(&mut self, endpoint: Endpoint) -> Option<Stamped<ToDriver>> {
        let entry = self.entries.get_mut(endpoint.index())?;
        if !entry.exists || core::mem::replace(&mut entry.was_asked, true) {
            return None;
        }
        Some(self.clocks.stamp(ToDriver::RemapWanted(endpoint)))
    }

    #[inline]
    fn entry(&self, endpoint: Endpoint) -> Entry {
        let entry = self.entries.get(endpoint.index());
        entry.copied().unwrap_or(ABSENT)
    }
}
