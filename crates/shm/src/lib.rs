//! The VI Architecture between processes of one machine, over shared memory.
#![allow(dead_code)]

mod channel;
mod cma;
mod completion_queue;
mod connect;
mod copy;
mod events;
mod handle;
mod host;
mod link;
mod lock;
mod names;
mod nic;
mod regions;
mod rendezvous;
mod segment;
mod service;
mod shared;
mod transfer;
mod vi;
mod wait;
mod wire;
