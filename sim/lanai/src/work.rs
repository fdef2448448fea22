//! The work of the interface's processor: the steps that each piece of it consists of.
//!
//! This is the one place that prices what the firmware does. A step costs the same in every piece
//! of work: an acknowledgement is a packet of its own, so it pays for its header, its channel, its
//! sequence, its stamp and the engine as a message does.

use crate::cluster::SHORT_BYTES;

/// Cycles of the interface's processor for each step of its work.
///
/// An interface without a transport does not take the steps from `check_out` to `end`: they are 0.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Steps {
    /// Look at the endpoint whose turn it is.
    pub turn: u32,
    /// Read a send descriptor, and free its entry.
    pub descriptor: u32,
    /// Make the header that every packet has, or read it.
    pub header: u32,
    /// Start the engine that sends.
    pub start: u32,
    /// See that a packet came, and give the engine another buffer.
    pub notice: u32,
    /// Move 4 bytes of a short payload between packet and endpoint.
    pub word: u32,
    /// Find the endpoint that a packet names.
    pub endpoint: u32,
    /// Take an entry of its receive queue and fill it.
    pub queue: u32,
    /// Start the engine of the host's bus, and see that it has ended.
    pub dma: u32,
    /// Error checking and defence where a message is sent.
    pub check_out: u32,
    /// The same where it is taken in.
    pub check_in: u32,
    /// Name and key: from the translation table into the packet, or compared with the endpoint's.
    pub name: u32,
    /// Find the channel of a packet, and its state.
    pub channel: u32,
    /// Give the packet a sequence, or compare it.
    pub sequence: u32,
    /// Write the time into a packet, reflect it, or take the round trip from it.
    pub stamp: u32,
    /// Set a timer, or cancel it.
    pub timer: u32,
    /// End a message that was answered.
    pub end: u32,
    /// Recall a message, so that its endpoint comes to rest.
    pub recall: u32,
    /// Take a word of the driver, or say one.
    pub driver_word: u32,
}

/// A piece of work; what has `bytes` is longer for more of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Work {
    /// A look at an endpoint that cannot send now.
    Look,
    /// A message of an endpoint leaves.
    Send {
        /// Of its payload.
        bytes: u32,
    },
    /// It leaves once more, or an empty packet does in its place.
    SendAgain {
        /// Of its payload.
        bytes: u32,
    },
    /// A packet with a message came, and its endpoint was found.
    Take,
    /// It goes into its endpoint's queue.
    Write {
        /// Of its payload.
        bytes: u32,
    },
    /// An answer leaves.
    Answer,
    /// An answer came.
    HearAnswer,
    /// A message is recalled.
    Recall,
    /// A word of the driver came, or one to it leaves.
    DriverWord,
}

impl Steps {
    /// Cycles of a piece of work.
    #[inline]
    #[must_use]
    pub const fn of(&self, work: Work) -> u32 {
        match work {
            Work::Look => self.turn,
            Work::Send { bytes } => {
                self.turn
                    + self.descriptor
                    + self.check_out
                    + self.name
                    + self.channel
                    + self.sequence
                    + self.timer
                    + self.packet_out()
                    + self.payload(bytes)
            }
            Work::SendAgain { bytes } => self.timer + self.packet_out() + self.payload(bytes),
            Work::Take => self.packet_in() + self.check_in + self.endpoint + self.name,
            Work::Write { bytes } => self.queue + self.payload(bytes),
            Work::Answer => self.sequence + self.packet_out(),
            Work::HearAnswer => self.packet_in() + self.stamp + self.timer + self.end,
            Work::Recall => self.recall,
            Work::DriverWord => self.driver_word,
        }
    }

    /// The same steps, fitted as those of `shipped` are: a message of the first generation, sent
    /// and taken in, takes what its gap gives it, and the descriptor has what the other steps
    /// leave. One that is changed itself stays.
    #[must_use]
    pub fn fitted_as(self, shipped: &Self) -> Self {
        if self.descriptor != shipped.descriptor {
            return self;
        }
        let given = shipped.first_generation_message();
        let others = self.first_generation_message() - self.descriptor;
        Self {
            descriptor: given.saturating_sub(others),
            ..self
        }
    }

    /// Sent and taken in by an interface without a transport, checks and names.
    fn first_generation_message(&self) -> u32 {
        let first = Self {
            check_out: 0,
            check_in: 0,
            name: 0,
            channel: 0,
            sequence: 0,
            stamp: 0,
            timer: 0,
            end: 0,
            ..*self
        };
        let bytes = 16;
        let works = [Work::Send { bytes }, Work::Take, Work::Write { bytes }];
        works.map(|work| first.of(work)).iter().sum()
    }

    /// What any packet takes that leaves.
    const fn packet_out(&self) -> u32 {
        self.header + self.stamp + self.start
    }

    /// What any packet takes that came.
    const fn packet_in(&self) -> u32 {
        self.notice + self.header + self.channel + self.sequence
    }

    /// Short payloads stay in the frame and are moved by the processor, longer ones by the engine
    /// of the host's bus.
    const fn payload(&self, bytes: u32) -> u32 {
        if bytes > SHORT_BYTES {
            self.dma
        } else {
            self.word * bytes.div_ceil(4)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step with a price of its own, so that a sum says which steps are in it.
    const DISTINCT: Steps = Steps {
        turn: 1,
        descriptor: 1 << 1,
        header: 1 << 2,
        start: 1 << 3,
        notice: 1 << 4,
        word: 1 << 5,
        endpoint: 1 << 8,
        queue: 1 << 9,
        dma: 1 << 10,
        check_out: 1 << 11,
        check_in: 1 << 12,
        name: 1 << 13,
        channel: 1 << 14,
        sequence: 1 << 15,
        stamp: 1 << 16,
        timer: 1 << 17,
        end: 1 << 18,
        recall: 1 << 19,
        driver_word: 1 << 20,
    };

    #[test]
    fn an_answer_pays_for_its_packet_as_a_message_does() {
        let it = DISTINCT;
        let out = it.header + it.sequence + it.stamp + it.start;
        let taken = it.notice + it.header + it.channel + it.sequence;
        for (work, packet) in [
            (Work::Send { bytes: 16 }, out),
            (Work::Answer, out),
            (Work::Take, taken),
            (Work::HearAnswer, taken),
        ] {
            assert_eq!(it.of(work) & packet, packet, "{work:?}");
        }
        // Both ends of an exchange look after its timer and its round trip.
        let kept = it.timer | it.stamp;
        for work in [Work::Send { bytes: 16 }, Work::HearAnswer] {
            assert_eq!(it.of(work) & kept, kept, "{work:?}");
        }
    }

    #[test]
    fn what_is_fitted_again_keeps_the_gap_of_the_first_generation() {
        let shipped = crate::Config::am_myrinet(2, 8).firmware.steps;
        // 5.8 us of 37.5 MHz, cut to whole cycles.
        assert_eq!(shipped.first_generation_message(), 217);
        let gam = crate::Config::gam_myrinet(2).firmware.steps;
        assert_eq!(gam.first_generation_message(), 217);
        assert_eq!(shipped.fitted_as(&shipped), shipped);
        let changed = Steps {
            header: shipped.header + 5,
            timer: 1,
            ..shipped
        };
        let fitted = changed.fitted_as(&shipped);
        // A header is made once and read once.
        assert_eq!(fitted.descriptor, shipped.descriptor - 10);
        assert_eq!(fitted.first_generation_message(), 217);
        let own = Steps {
            descriptor: 20,
            ..shipped
        };
        assert_eq!(own.fitted_as(&shipped), own);
    }

    #[test]
    fn long_payloads_cost_the_processor_one_transfer_and_short_ones_their_words() {
        let it = DISTINCT;
        let of = |bytes| it.of(Work::Write { bytes }) - it.queue;
        assert_eq!([0, 1, 16, 64].map(of), [0, 1, 4, 16].map(|n| n * it.word));
        assert_eq!([65, 8192].map(of), [it.dma, it.dma]);
        assert_eq!(
            it.of(Work::SendAgain { bytes: 8192 }),
            it.timer + it.stamp + it.header + it.start + it.dma
        );
    }
}
