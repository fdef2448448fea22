//! Hosts, NICs, buses and fluid links on the engine, running the VI Architecture.
//!
//! [`run`] takes a [`config::ClusterConfig`] and gives a [`result::RunResult`]. Nothing here reads
//! a clock, a file or the environment: equal configurations give equal results to the bit.
//!
//! # A message's way
//!
//! A message with every stage takes seven events, and three with adapters that cost nothing
//! (`direct.rs`): what is deterministic and can be disturbed by nobody is added up, not scheduled.
//! `Cluster::handle` (`cluster.rs`) hands events out; `Cluster::after` handles an event that is due
//! now at once, so a stage that costs nothing costs no event.
//!
//! 1. **`Arrival`** `arrivals.rs: handle_arrival` posts what was drawn for it, schedules the next
//!    arrival and draws its target and size (`schedule_arrival`, `draw`, `workload/targets.rs`,
//!    `size.rs`). `want_to_post` waits for a send buffer. `post` finds the connection, or sets it
//!    up (`connect.rs: connect`); gives the processor its work (`Processor::work`); calls
//!    `Nic::post_send`; prices the doorbell; `ring` puts the message in its VI's line at the
//!    adapter. Where no doorbell is rung, the processor starts the message itself
//!    (`start_by_processor`): it writes the bytes, or asks the adapter's engine to move them.
//! 2. `serve`: when the sending engine is free, the next VI in turn gives its first message, or the
//!    engine takes a message that a processor has started; `Nic::start_send`, descriptor read. What
//!    each step of a message costs stands in its *plan* (`viaduct-hardware`), which its kind of
//!    adapter makes when it begins with the message.
//! 3. **`Fetched`** `handle_fetched`: the data moves (`begin_transfer`:
//!    `Network::begin`), or waits for the VI's message before it. **`Begins`** is for adapters that
//!    fetch a part of the data first, **`EngineFree`** for engines that are held until the bytes
//!    have left.
//! 4. **`HeadArrives`** `receive.rs: handle_head`: `Nic::start_receive` gives the VI's next receive
//!    descriptor or drops the message; the descriptor is read while data arrives.
//! 5. **`FlowEnds`** `send.rs: handle_flow_end`, `finish_sending`: `Nic::finish_send`, the buffer
//!    is free, the VI's next message moves. This event moves when others begin or end on the way;
//!    all the others stay where they are scheduled.
//! 6. **`TailArrives`** `receive.rs: handle_tail`: `Nic::finish_receive`, the completion queue has
//!    an entry; its process is told (`taking.rs`: interrupt or polling is priced), or finds it when
//!    it has done what it does. **`Looks`** is for processes that the kernel may hold up.
//! 7. **`Reaped`** `handle_reaped`: `accounting.rs: delivered` takes the latency, its stages and
//!    the digest; the application takes its completions (`connect.rs: take_completions`), answers
//!    if it is a ping-pong, posts the descriptor again.
//! 8. **`Reposted`**: the adapter has the receive descriptor (`Nic::post_receive`).
//!
//! With store-and-forward, **`Forwarded`** (`Network::forward`) and `FlowEnds` repeat hop by hop.
//! **`SendReaped`** keeps a window of sends full, **`DeviceTransfer`** is another device on a bus,
//! **`WarmupEnds`** and **`WindowEnds`** are the account's.
//!
//! `viaduct why` runs twice (`why.rs: explain`). A `Chooser` beside the account of deliveries finds
//! the message that is meant; then a `Follower` (`trace.rs`) is told by the steps above who uses
//! the links, buses, processors, adapter and buffers that this message needs while it lives.
//! `why/account.rs` works out waits from overlaps, `why/sharing.rs` what sharing cost at each
//! place. Without them a step asks once whether there is an observer, and nothing is kept. `viaduct
//! trace` has a `Recorder` (`record.rs`) in the follower's place, which keeps what some messages
//! use and what other devices move beside them, and runs once.
//!
//! `viaduct why --critical-path` runs twice as well (`why/critical_path.rs`): the first run keeps
//! which operation freed which (`operations/causes.rs`), from which the path is read backwards, and
//! the second keeps the times of its steps.
//!
//! Messages of programs take the same way. `programs.rs` says what a cluster asks of those who have
//! programs and what it tells them, and `programs/carry.rs` what is of their own at both ends: a
//! message starts when the semantics lets it, which may be later than its turn; its bytes are taken
//! then and placed when all of them are there; `P::settle` tells that a VI has something to be
//! taken. `programs/control.rs` has the messages about connections, `programs/failures.rs` what
//! follows from faults for them. A cluster without programs (`NoPrograms`) is compiled without all
//! that.
//!
//! Remote writes and reads take that way too; `remote.rs` says where theirs is another.
//!
//! What faults do is in `failures.rs`, and what RDMA adapters send again in `retransmission.rs`,
//! for all messages.
//!
//! At the end `run.rs: result` makes the `RunResult` and checks the run on itself:
//! conservation, rates, floors, stages, completions. A check that fails is a *violation* and exit
//! code 2.
//!
//! An application as a graph of operations is drawn traffic of another kind: `operations.rs` says
//! which messages are posted when others have been taken.
//!
//! # Memory
//!
//! A large cluster does not fit into a cache, and an event reads a few dozen lines of it that
//! nothing has read for long. `look_ahead.rs` asks for what the next events will read, in steps:
//! what an event names, then what that names. An open source draws its next message when it
//! schedules the arrival, so that target and connection are known by then.
//!
//! # Decisions
//!
//! - **Simulated hosts run the core.** Each message goes through the descriptor checks, work queues
//!   and completion queues of its two NICs. What is learnt about the semantics in simulation holds
//!   for a real driver, and a run that violates them ends with exit code 2.
//! - **A VI for each pair of processes**, made when the first message between them is posted,
//!   by introducing the two NICs, in no simulated time. A study measures connections that exist;
//!   making them when needed, and giving idle ones back (`idle.rs`), keeps large clusters small.
//! - **Receives are posted when first needed**: a VI gets its `prepost` descriptors before its
//!   peer's first message, not at the start. A VI that only sends holds none. No message can see
//!   the difference.
//! - **Latency** is from the wish to post (a wait for a buffer counts) to the end of the reap. It
//!   is cut into 15 stages that add up to it exactly, in picoseconds.
//! - **Short bus transactions are not flows.** A doorbell, a descriptor read or a status write is
//!   priced as one more member of the bus at that moment, and takes its time from those it shares
//!   the bus with: no event.
//! - **Page crossings are a rate.** A stop at each page lowers a message's own top rate in place of
//!   events at each page.
//! - **`moving_per_vi`** is a number of the preset: 1 for cLAN (a queue's descriptors go in order),
//!   no limit for `ideal`, where messages are independent flows, as in simulators that have no
//!   hosts.
//! - **`cut_through` bytes** on top of a switch's delay: a switch forwards when header and first
//!   cell are there, which costs small messages less.
//! - **Draining.** Traffic stops at `run.until`, and messages under way are carried to their end,
//!   so that slow ones are not missing from the statistics. `run.drain = false` cuts them off.
//! - **Memory does not grow with the length of a run**: histograms, batch means that join, rows of
//!   which every second is dropped when there are too many. Generated topologies keep nothing
//!   per host or link; routes are arithmetic.
//! - **A message crosses all its resources at once** with cut-through, as one flow over its whole
//!   path, not one flow per link: that makes a message cost three to seven events. It is our
//!   rule: the published one schedules each queue by itself.
//!
//! # Words
//!
//! - doorbell: `Stage::Doorbell`, `NicModel::doorbell` (`viaduct-hardware`)
//! - host, process (application): `Buffers`, `Processor`, `Engines`, `Process` (`host.rs`)
//! - place, port: of an adapter in the network; of a process at an adapter (`adapters.rs`)
//! - message: one send and its receive: `Message`, `MessageId` (`message.rs`)
//! - stage: where a message's time goes: `Stage` (15 of them) (`viaduct-hardware`)
//! - resource: a link or a bus that shares its rate: `Resource`, `ResourceId` (`viaduct-network`)
//! - flow: a message's bytes on the move: `Flow`, `FlowId`, `FlowDemand` (`viaduct-network`)
//! - hop of a stored message: what it crosses at once: `Shape::hop_end` (`viaduct-network`)

mod accounting;
pub mod adapters;
mod arrivals;
pub mod background;
pub mod bounds;
mod cluster;
pub mod config;
mod connect;
mod connections;
mod direct;
mod error;
mod event;
mod failures;
pub mod faults;
mod hardware;
mod host;
mod idle;
pub mod interfaces;
mod interval;
pub mod levels;
mod look_ahead;
mod message;
pub mod operations;
pub mod path;
pub mod programs;
mod receive;
pub mod record;
mod remote;
pub mod result;
mod retransmission;
mod run;
mod send;
mod sent;
mod taking;
mod trace;
mod ways;
pub mod why;
pub mod workload;

pub use cluster::{CONTROL_INTERVAL_EVENTS, Progress};
pub use connect::RECEIVES_AT_FIRST;
pub use error::RunError;
pub use idle::{CONNECTIONS_KEPT, connections_kept};
pub use path::floor_latency;
pub use run::run;
