//! The name service.
