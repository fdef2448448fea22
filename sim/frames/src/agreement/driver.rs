//! The driver's side: residency, and what of it is said to the interface.

use std::collections::VecDeque;

use viaduct_engine::Stream;

use super::{Clocks, Disagreement, Stamped, ToDriver, ToInterface};
use crate::names::Endpoint;
use crate::residency::{Residency, Step, Write};

/// What the driver does after it was told something.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum News {
    /// Say this to the interface.
    Say(Stamped<ToInterface>),
    /// Read this endpoint's image from disk, then call [`Driver::paged_in`].
    PageIn(Endpoint),
    /// Threads that wait for this endpoint try their write again.
    Wake(Endpoint),
    /// This endpoint is gone; threads that wait for it learn so.
    Gone(Endpoint),
}

/// The driver of one interface.
///
/// After each call drain [`Driver::poll`]: a bounded number of news follows each input. Every call
/// is O(1).
#[derive(Clone, Debug)]
pub struct Driver {
    residency: Residency,
    clocks: Clocks,
    /// Clock of the last word about each endpoint number.
    last_word: Vec<u64>,
    /// The step whose end the interface or the disk has to tell.
    awaited: Option<Step>,
    pending: VecDeque<News>,
    void: u64,
}

impl Driver {
    /// A driver that has said nothing yet.
    #[must_use]
    pub fn new(residency: Residency) -> Self {
        Self {
            residency,
            clocks: Clocks::default(),
            last_word: Vec::new(),
            awaited: None,
            pending: VecDeque::new(),
            void: 0,
        }
    }

    /// What it knows of endpoints and frames.
    #[must_use]
    pub fn residency(&self) -> &Residency {
        &self.residency
    }

    /// Wishes of the interface that were void, because the driver had said something meanwhile.
    #[must_use]
    pub fn void(&self) -> u64 {
        self.void
    }

    /// A new endpoint, and what to say of it to the interface.
    pub fn create(&mut self) -> (Endpoint, Stamped<ToInterface>) {
        let endpoint = self.residency.create();
        (endpoint, self.say(endpoint, ToInterface::Create(endpoint)))
    }

    /// Begins to free an endpoint; [`News::Gone`] ends it. Returns whether there was one.
    pub fn free(&mut self, endpoint: Endpoint) -> bool {
        self.residency.free(endpoint)
    }

    /// The process writes into its endpoint.
    #[inline]
    pub fn write(&mut self, endpoint: Endpoint) -> Write {
        self.residency.write(endpoint)
    }

    /// The thread that remaps looks at what there is to do: [`Residency::begin_round`].
    pub fn begin_round(&mut self) {
        self.residency.begin_round();
    }

    /// Pages an endpoint out, if that is allowed.
    pub fn page_out(&mut self, endpoint: Endpoint) -> bool {
        self.residency.page_out(endpoint)
    }

    /// Notes that an endpoint was used, for the policies that ask.
    #[inline]
    pub fn touch(&mut self, endpoint: Endpoint) {
        self.residency.touch(endpoint);
    }

    /// The interface said something.
    ///
    /// # Errors
    /// When it does not fit what the driver knows.
    pub fn hear(
        &mut self,
        stamped: Stamped<ToDriver>,
        random: &mut Stream,
    ) -> Result<(), Disagreement> {
        self.clocks.take(&stamped)?;
        let not_asked = Err(Disagreement::NotAsked(stamped.message));
        match (stamped.message, self.awaited) {
            (ToDriver::RemapWanted(endpoint), _) => {
                let Some(last_word) = self.last_word.get(endpoint.index()) else {
                    return not_asked;
                };
                if stamped.seen < *last_word {
                    self.void += 1;
                } else {
                    self.residency.reference(endpoint);
                }
                return Ok(());
            }
            (ToDriver::AtRest(endpoint), Some(Step::BringToRest(awaited, _)))
                if endpoint == awaited =>
            {
                self.finish(false, random);
            }
            (
                ToDriver::Moved { endpoint, has_work },
                Some(Step::Unload(awaited, _) | Step::Upload(awaited, _)),
            ) if endpoint == awaited => self.finish(has_work, random),
            _ => return not_asked,
        }
        Ok(())
    }

    /// The image that [`News::PageIn`] named is in memory.
    pub fn paged_in(&mut self, random: &mut Stream) {
        if matches!(self.awaited, Some(Step::PageIn(_))) {
            self.finish(false, random);
        }
    }

    /// What to do next; none until something else happens.
    pub fn poll(&mut self, random: &mut Stream) -> Option<News> {
        if let Some(news) = self.pending.pop_front() {
            return Some(news);
        }
        let step = self.residency.poll_step(random)?;
        if let Step::Release(endpoint) = step {
            self.pending.push_back(News::Gone(endpoint));
            let word = self.say(endpoint, ToInterface::Free(endpoint));
            return Some(News::Say(word));
        }
        self.awaited = Some(step);
        Some(match step {
            Step::PageIn(endpoint) => News::PageIn(endpoint),
            Step::BringToRest(endpoint, frame) => {
                News::Say(self.say(endpoint, ToInterface::BringToRest(endpoint, frame)))
            }
            Step::Unload(endpoint, frame) => {
                News::Say(self.say(endpoint, ToInterface::Unload(endpoint, frame)))
            }
            Step::Upload(endpoint, frame) => {
                News::Say(self.say(endpoint, ToInterface::Upload(endpoint, frame)))
            }
            Step::Release(_) => unreachable!("it was answered above"),
        })
    }

    fn finish(&mut self, has_work: bool, random: &mut Stream) {
        self.awaited = None;
        if let Some(endpoint) = self.residency.done(has_work, random).wake {
            self.pending.push_back(News::Wake(endpoint));
        }
    }

    fn say(&mut self, endpoint: Endpoint, message: ToInterface) -> Stamped<ToInterface> {
        let stamped = self.clocks.stamp(message);
        if self.last_word.len() <= endpoint.index() {
            self.last_word.resize(endpoint.index() + 1, 0);
        }
        self.last_word[endpoint.index()] = stamped.clock;
        stamped
    }
}
