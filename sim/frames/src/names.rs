//! Names of endpoints, frames and interfaces: small indices, so that state lies in arrays.

use core::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub struct $name($inner);

        impl $name {
            /// The one with this index.
            #[must_use]
            pub const fn new(index: $inner) -> Self {
                Self(index)
            }

            /// Its index.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

index!(
    /// An endpoint of one host: its number in the tables of driver and interface. A number is given
    /// again when its endpoint was freed.
    Endpoint, u32, "endpoint"
);
index!(
    /// A frame: the place of one endpoint in the interface's memory.
    Frame, u16, "frame"
);
index!(
    /// An interface of the network, as others name it.
    Peer, u32, "interface"
);
index!(
    /// What an interface keeps of one peer: its number among those it has met, in that order. Of
    /// peers that it never met it keeps nothing.
    Line, u32, "line"
);

/// "None" where a link or an occupant would be.
pub(crate) const NONE: u32 = u32::MAX;
