//! Waiting without a processor.
