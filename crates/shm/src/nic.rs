//! An open NIC.
