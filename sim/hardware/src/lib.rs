//! Hosts as hardware: processor, memory, bus and adapters, and what each step of a
//! message costs on them.
//!
//! It knows no network, no clock and no other message: whoever simulates a cluster asks it, and has
//! parts that are busy waited for.

mod alone;
pub mod bus;
mod host;
pub mod mechanism;
pub mod memory;
pub mod pages;
mod pair;
pub mod processor;
mod stage;

pub use alone::Leg;
pub use bus::BusModel;
pub use host::HostModel;
pub use mechanism::firmware::{FirmwareModel, Ways};
pub use mechanism::kernel::KernelModel;
pub use mechanism::native::{Load, NicModel};
pub use mechanism::rdma::RdmaModel;
pub use mechanism::remote_writes::{NoticeModel, QueueDesign, RemoteWriteModel};
pub use mechanism::{Mechanism, Step};
pub use memory::MemoryModel;
pub use pair::Pair;
pub use processor::{Completion, Notice, ProcessorModel};
pub use stage::{STAGES, Stage};
pub use viaduct_network::{ByHost, Frame, Rate, Switching};
