//! One suite of cases that every fabric must pass.
