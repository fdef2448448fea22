//! Where processes find each other.
