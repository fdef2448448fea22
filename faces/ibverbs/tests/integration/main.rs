//! The library as C programs see it.

mod interface;
mod support;
mod symbols;
