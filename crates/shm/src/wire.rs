//! Messages of a link.
