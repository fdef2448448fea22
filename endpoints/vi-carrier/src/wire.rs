//! What goes over a VI.
//!
//! ```text
//!  byte 0   kind               12  endpoint of the sender
//!       1   handler            16  tag of the request
//!       2   words | body << 4  20  generation of the endpoint it is for (request), else the
//! sender's
//!       3   detail             24  key (request), else 0
//!       4   acknowledged       32  words, 8 bytes each; then, of a bulk message, its offset (8);
//!       8   endpoint it is for     then the payload
//! ```
//!
//! Numbers are little-endian. An acknowledgement with verdicts has one byte each for the last 32
//! messages after byte 32. 32 bytes and two words are what a fabric sends in one cache line.

use viaduct_am::{Body, HandlerId, MTU_BYTES, Message, Reason, WORDS_MAX, Words};

/// Bytes before the words.
pub(crate) const HEADER_BYTES: usize = 32;
/// Bytes of a message with all its words and an offset.
pub(crate) const SMALL_BYTES: usize = HEADER_BYTES + 8 * WORDS_MAX + 8;
/// Bytes of the longest message.
pub(crate) const MESSAGE_BYTES_MAX: usize = SMALL_BYTES + MTU_BYTES;
/// Messages of one direction that may be without an acknowledgement.
pub(crate) const WINDOW: u32 = 32;

/// What a message is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// A request.
    Request = 1,
    /// Its reply; detail 1 without a message.
    Reply = 2,
    /// A request that had been taken in and could not be handled; the detail is the reason.
    Back = 3,
    /// The endpoint it is for has room again.
    Ready = 4,
    /// An acknowledgement alone. Not counted itself.
    Acknowledgement = 5,
    /// The sender wants to close, and sends nothing more. Not counted.
    Rest = 6,
    /// So be it: all is acknowledged. Not counted.
    AtRest = 7,
}

impl Kind {
    /// Whether it is acknowledged, and kept until then.
    pub(crate) const fn is_counted(self) -> bool {
        matches!(self, Self::Request | Self::Reply | Self::Back | Self::Ready)
    }

    const fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Request,
            2 => Self::Reply,
            3 => Self::Back,
            4 => Self::Ready,
            5 => Self::Acknowledgement,
            6 => Self::Rest,
            7 => Self::AtRest,
            _ => return None,
        })
    }
}

/// The body of a message: where its bytes are, in the message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WireBody {
    Short,
    Medium { first: u32, end: u32 },
    Bulk { offset: u64, first: u32, end: u32 },
}

impl WireBody {
    /// Bytes of the payload.
    pub(crate) const fn bytes(self) -> u64 {
        match self {
            Self::Short => 0,
            Self::Medium { first, end } | Self::Bulk { first, end, .. } => (end - first) as u64,
        }
    }
}

/// What stands before the words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) detail: u8,
    pub(crate) acknowledged: u32,
    pub(crate) target: u32,
    pub(crate) source: u32,
    pub(crate) tag: u32,
    pub(crate) generation: u32,
    pub(crate) key: u64,
}

/// A message whose every part lies where it should.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) handler: HandlerId,
    pub(crate) words: Words,
    pub(crate) body: WireBody,
}

impl Packet {
    pub(crate) const EMPTY: Self = Self {
        header: Header::control(Kind::Ready),
        handler: HandlerId::of(0),
        words: Words::NONE,
        body: WireBody::Short,
    };
}

/// The detail of a reply without a message.
pub(crate) const NO_MESSAGE: u8 = 1;

impl Header {
    pub(crate) const fn control(kind: Kind) -> Self {
        Self {
            kind,
            detail: 0,
            acknowledged: 0,
            target: 0,
            source: 0,
            tag: 0,
            generation: 0,
            key: 0,
        }
    }

    /// Writes it, with a message behind; how many bytes that are. The buffer has room.
    #[inline]
    pub(crate) fn emit(&self, message: Option<&Message<'_>>, bytes: &mut [u8]) -> usize {
        let handler = message.map_or(0, |message| message.handler().number());
        let words = message.map_or(&[][..], |message| message.words());
        let body = message.map_or(Body::Short, |message| message.body());
        let shape = match body {
            Body::Short => 0,
            Body::Medium(_) => 1,
            Body::Bulk { .. } => 2,
        };
        let fixed: &mut [u8; HEADER_BYTES] = bytes
            .first_chunk_mut()
            .expect("every buffer has room for a header");
        fixed[..4].copy_from_slice(&[
            self.kind as u8,
            handler,
            words.len() as u8 | shape << 4,
            self.detail,
        ]);
        fixed[4..8].copy_from_slice(&self.acknowledged.to_le_bytes());
        fixed[8..12].copy_from_slice(&self.target.to_le_bytes());
        fixed[12..16].copy_from_slice(&self.source.to_le_bytes());
        fixed[16..20].copy_from_slice(&self.tag.to_le_bytes());
        fixed[20..24].copy_from_slice(&self.generation.to_le_bytes());
        fixed[24..].copy_from_slice(&self.key.to_le_bytes());
        let mut end = HEADER_BYTES;
        let mut append = |part: &[u8]| {
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        };
        for word in words {
            append(&word.to_le_bytes());
        }
        if let Body::Bulk { offset, .. } = body {
            append(&offset.to_le_bytes());
        }
        if let Some(message) = message
            && !message.payload().is_empty()
        {
            append(message.payload());
        }
        end
    }
}

/// Writes what is acknowledged into a message that is already there.
#[inline]
pub(crate) fn set_acknowledged(bytes: &mut [u8], acknowledged: u32) {
    if let Some(target) = bytes.get_mut(4..8) {
        target.copy_from_slice(&acknowledged.to_le_bytes());
    }
}

/// Reads a message; `None` for one that is none. Each byte is read once.
pub(crate) fn parse(bytes: &[u8]) -> Option<Packet> {
    let mut packet = Packet::EMPTY;
    parse_into(bytes, &mut packet).then_some(packet)
}

/// As [`parse`], in place: a packet is long, and moving what was just written has the processor
/// wait. Whether it is one.
#[inline]
pub(crate) fn parse_into(bytes: &[u8], packet: &mut Packet) -> bool {
    let Some(fixed) = bytes.first_chunk::<HEADER_BYTES>() else {
        return false;
    };
    let fixed = *fixed;
    let word4 = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| fixed[at + index]));
    let (Some(kind), Some(handler)) = (Kind::of(fixed[0]), HandlerId::new(fixed[1])) else {
        return false;
    };
    packet.handler = handler;
    packet.header = Header {
        kind,
        detail: fixed[3],
        acknowledged: word4(4),
        target: word4(8),
        source: word4(12),
        tag: word4(16),
        generation: word4(20),
        key: u64::from_le_bytes(std::array::from_fn(|index| fixed[24 + index])),
    };
    let (count, shape) = (usize::from(fixed[2] & 15), fixed[2] >> 4);
    let words_end = HEADER_BYTES + 8 * count;
    let word8 = |at: usize| {
        let word = bytes.get(at..at + 8)?.first_chunk()?;
        Some(u64::from_le_bytes(*word))
    };
    let Ok(end) = u32::try_from(bytes.len()) else {
        return false;
    };
    if count > WORDS_MAX || words_end > bytes.len() {
        return false;
    }
    packet.words = Words::read(count, |index| {
        word8(HEADER_BYTES + 8 * index).unwrap_or_default()
    });
    packet.body = match shape {
        // Verdicts stand behind an acknowledgement.
        0 if kind == Kind::Acknowledgement || words_end == bytes.len() => WireBody::Short,
        1 => WireBody::Medium {
            first: words_end as u32,
            end,
        },
        2 => {
            let Some(offset) = word8(words_end) else {
                return false;
            };
            WireBody::Bulk {
                offset,
                first: words_end as u32 + 8,
                end,
            }
        }
        _ => return false,
    };
    packet.body.bytes() <= MTU_BYTES as u64
}

/// How a message ended, in the byte of an acknowledgement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// It stands in its endpoint's queue.
    Accepted,
    /// The queue was full: it may be sent again after [`Kind::Ready`].
    Busy,
    /// It goes back to its sender.
    Refused(Reason),
}

impl Verdict {
    const BUSY: u8 = u8::MAX;

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Busy => Self::BUSY,
            Self::Refused(reason) => reason.number(),
        }
    }

    pub(crate) fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Accepted,
            Self::BUSY => Self::Busy,
            number => Self::Refused(Reason::try_from(number).ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Request,
            detail: 0,
            acknowledged: 1,
            target: 2,
            source: 3,
            tag: 4,
            generation: 5,
            key: 6,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let payload: Vec<u8> = (0..MTU_BYTES).map(|index| index as u8).collect();
        let bodies = [
            Body::Short,
            Body::Medium(&[]),
            Body::Medium(&payload),
            Body::Bulk {
                offset: u64::MAX,
                bytes: &payload,
            },
        ];
        for (body, count) in bodies
            .into_iter()
            .flat_map(|body| (0..=8).map(move |n| (body, n)))
        {
            let words = &[9, 8, 7, 6, 5, 4, 3, 2][..count];
            let message = Message::new(HandlerId::of(63), words, body).unwrap();
            let mut bytes = vec![0; MESSAGE_BYTES_MAX];
            let length = header().emit(Some(&message), &mut bytes);
            let packet = parse(&bytes[..length]).unwrap();
            assert_eq!(packet.header, header());
            assert_eq!(packet.words.as_slice(), words);
            let read = match packet.body {
                WireBody::Short => Body::Short,
                WireBody::Medium { first, end } => {
                    Body::Medium(&bytes[first as usize..end as usize])
                }
                WireBody::Bulk { offset, first, end } => Body::Bulk {
                    offset,
                    bytes: &bytes[first as usize..end as usize],
                },
            };
            assert_eq!(read, body);
        }
    }

    #[test]
    fn no_bytes_panic_and_no_range_leaves_the_message() {
        // splitmix64, from 0: a failure is the same every time.
        let mut state = 0_u64;
        let mut draw = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed ^ (mixed >> 31)
        };
        let mut taken = 0;
        for _ in 0..200_000 {
            let length = draw() as usize % 130;
            let mut bytes: Vec<u8> = (0..length).map(|_| draw() as u8).collect();
            if length > 2 {
                bytes[0] %= 9;
                bytes[1] %= 70;
                bytes[2] &= 0x3f;
            }
            if let Some(packet) = parse(&bytes) {
                taken += 1;
                assert!(packet.words.as_slice().len() <= WORDS_MAX);
                if let WireBody::Medium { first, end } | WireBody::Bulk { first, end, .. } =
                    packet.body
                {
                    assert!(first <= end && end as usize <= bytes.len());
                }
            }
        }
        assert!(taken > 1000, "{taken}");
    }
}
