//! Messages, and their limits.

use std::fmt;

/// Words of a message, at most.
pub const WORDS_MAX: usize = 8;
/// Bytes of payload of a medium or bulk message, at most: the maximum transmission unit.
pub const MTU_BYTES: usize = 8192;
/// Handler numbers of an endpoint: 0 to 63.
pub const HANDLERS_MAX: usize = 64;
/// Entries of an endpoint's queue of requests.
pub const REQUEST_QUEUE_ENTRIES: u32 = 32;
/// Requests of an endpoint that may wait for their replies, if not said: what one receive queue has
/// room for.
pub const CREDITS_DEFAULT: u32 = REQUEST_QUEUE_ENTRIES;

/// The number of a handler, 0 to 63; both ends have to mean the same by it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HandlerId(u8);

impl HandlerId {
    /// `None` from [`HANDLERS_MAX`] on.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < HANDLERS_MAX {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number of a constant.
    ///
    /// # Panics
    ///
    /// From [`HANDLERS_MAX`] on; in a constant that is an error of the compiler.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match Self::new(number) {
            Some(handler) => handler,
            None => panic!("handler numbers go from 0 to 63"),
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// What goes with the words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body<'a> {
    /// Nothing.
    Short,
    /// Bytes that the handler sees.
    Medium(&'a [u8]),
    /// Bytes that are written into the target endpoint's segment before the handler runs.
    Bulk {
        /// Where in the segment, in bytes.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
}

/// A message that keeps the limits: which handler, its words, its body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Message<'a> {
    handler: HandlerId,
    words: &'a [u64],
    body: Body<'a>,
}

impl<'a> Message<'a> {
    /// A message.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for more than [`WORDS_MAX`] words or [`MTU_BYTES`] bytes.
    #[inline]
    pub const fn new(
        handler: HandlerId,
        words: &'a [u64],
        body: Body<'a>,
    ) -> Result<Self, Invalid> {
        if words.len() > WORDS_MAX {
            return Err(Invalid::Words { count: words.len() });
        }
        let message = Self {
            handler,
            words,
            body,
        };
        let bytes = message.payload().len();
        if bytes > MTU_BYTES {
            return Err(Invalid::Payload { bytes });
        }
        Ok(message)
    }

    /// Which handler.
    #[must_use]
    pub const fn handler(&self) -> HandlerId {
        self.handler
    }

    /// Its words.
    #[must_use]
    pub const fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Its body.
    #[must_use]
    pub const fn body(&self) -> Body<'a> {
        self.body
    }

    /// The bytes of its body; none of a short one.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        match self.body {
            Body::Short => &[],
            Body::Medium(bytes) | Body::Bulk { bytes, .. } => bytes,
        }
    }
}

/// A message outside the limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Invalid {
    /// Too many words.
    Words {
        /// How many.
        count: usize,
    },
    /// Too many bytes.
    Payload {
        /// How many.
        bytes: usize,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words { count } => write!(
                formatter,
                "the message has {count} words; at most {WORDS_MAX} go: send a medium message"
            ),
            Self::Payload { bytes } => write!(
                formatter,
                "the message has {bytes} bytes; at most {MTU_BYTES} go: send several"
            ),
        }
    }
}

impl std::error::Error for Invalid {}

/// The words of a message that arrived.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Words {
    values: [u64; WORDS_MAX],
    /// As wide as they are: a narrow count has the struct copied in pieces that overlap.
    count: u64,
}

impl Words {
    /// No words.
    pub const NONE: Self = Self {
        values: [0; WORDS_MAX],
        count: 0,
    };

    /// The first [`WORDS_MAX`] of them.
    #[inline]
    #[must_use]
    pub fn new(words: &[u64]) -> Self {
        Self::read(words.len(), |index| words[index])
    }

    /// The first `count`, at most [`WORDS_MAX`], each read once.
    #[inline]
    #[must_use]
    pub fn read(count: usize, word: impl Fn(usize) -> u64) -> Self {
        let count = count.min(WORDS_MAX);
        let mut values = [0; WORDS_MAX];
        for (index, value) in values[..count].iter_mut().enumerate() {
            *value = word(index);
        }
        Self {
            values,
            count: count as u64,
        }
    }

    /// Them.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        // The constructors keep the count at what there is.
        &self.values[..self.count as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLER: HandlerId = HandlerId::of(63);

    #[test]
    fn limits_hold_at_them_and_one_past() {
        assert!(Message::new(HANDLER, &[0; WORDS_MAX], Body::Short).is_ok());
        let too_many = Message::new(HANDLER, &[0; WORDS_MAX + 1], Body::Short);
        assert_eq!(too_many, Err(Invalid::Words { count: 9 }));
        let bytes = [0; MTU_BYTES + 1];
        assert!(Message::new(HANDLER, &[], Body::Medium(&bytes[1..])).is_ok());
        for body in [
            Body::Medium(&bytes),
            Body::Bulk {
                offset: 0,
                bytes: &bytes,
            },
        ] {
            let too_long = Message::new(HANDLER, &[], body);
            assert_eq!(too_long, Err(Invalid::Payload { bytes: 8193 }));
        }
        assert_eq!(HandlerId::new(64), None);
    }

    #[test]
    fn words_that_arrive_are_those_that_left() {
        assert_eq!(Words::new(&[1, 2, 3]).as_slice(), [1, 2, 3]);
        assert_eq!(Words::read(200, |index| index as u64).as_slice().len(), 8);
    }
}
