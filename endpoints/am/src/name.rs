//! Names of endpoints, and keys.

use std::fmt;
use std::str::FromStr;

/// The key of an endpoint: only a message that carries it is delivered there.
#[derive(Clone, Copy, Default, Eq, Hash, PartialEq)]
pub struct Key(pub u64);

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever knows it may send: it stays out of logs.
        formatter.write_str("Key(..)")
    }
}

/// The name of an endpoint: opaque, exchanged by any means, as bytes or as text in hexadecimal.
///
/// It says which process, which of its endpoints, and which life of each: the name of a process
/// that is gone or of an endpoint that was freed never reaches a later one. What the bytes mean is
/// the carrier's.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Name([u8; Self::BYTES]);

impl Name {
    /// Bytes of a name.
    pub const BYTES: usize = 32;

    /// From bytes that [`Name::to_bytes`] gave. Any are taken: a carrier refuses what names
    /// nothing.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }
}

/// 64 hexadecimal digits, as [`FromStr`] reads them.
impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Name({self})")
    }
}

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        if text.len() != 2 * Self::BYTES {
            return Err(ParseNameError::Length { bytes: text.len() });
        }
        let mut bytes = [0; Self::BYTES];
        for (index, pair) in text.as_bytes().chunks_exact(2).enumerate() {
            let digit = |at: usize| {
                let digit = char::from(pair[at]).to_digit(16);
                digit.ok_or(ParseNameError::Digit {
                    position: 2 * index + at,
                })
            };
            // Two digits of 16 fit a byte.
            bytes[index] = (digit(0)? << 4 | digit(1)?) as u8;
        }
        Ok(Self(bytes))
    }
}

/// Why a text is no name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParseNameError {
    /// It has another length.
    Length {
        /// How long it is.
        bytes: usize,
    },
    /// Something stands in it that is no hexadecimal digit.
    Digit {
        /// Where, from 0.
        position: usize,
    },
}

impl fmt::Display for ParseNameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = 2 * Name::BYTES;
        match self {
            Self::Length { bytes } => write!(
                formatter,
                "the name has {bytes} characters; one has {digits} hexadecimal digits"
            ),
            Self::Digit { position } => write!(
                formatter,
                "character {position} of the name is no hexadecimal digit; all {digits} are"
            ),
        }
    }
}

impl std::error::Error for ParseNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_as_text_is_read_back() {
        let name = Name::from_bytes(std::array::from_fn(|index| (index * 37) as u8));
        assert_eq!(name.to_string().parse(), Ok(name));
        assert_eq!(name.to_string().to_uppercase().parse(), Ok(name));
    }

    #[test]
    fn what_is_no_name_says_where() {
        assert_eq!(
            "12".parse::<Name>(),
            Err(ParseNameError::Length { bytes: 2 })
        );
        let mut text = "0".repeat(64);
        text.replace_range(7..8, "g");
        assert_eq!(
            text.parse::<Name>(),
            Err(ParseNameError::Digit { position: 7 })
        );
        // Two bytes of one character are no digits, and no place to cut.
        assert!(format!("{}\u{e9}", "0".repeat(62)).parse::<Name>().is_err());
    }

    #[test]
    fn a_key_stays_out_of_logs() {
        assert_eq!(format!("{:?}", Key(1234)), "Key(..)");
    }
}
