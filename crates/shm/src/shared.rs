//! Memory that is shared from the start.
