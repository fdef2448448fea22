//! VIs.
