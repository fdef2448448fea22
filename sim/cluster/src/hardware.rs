//! What a run asks of the hosts' hardware, worked out once for each model.

use viaduct_hardware::{ByHost, HostModel, Notice, ProcessorModel, Step};

use crate::config::ClusterConfig;
use crate::error::RunError;

/// What each step of a message asks of a host's hardware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardware {
    /// What the processor spends.
    pub(crate) processor: ProcessorModel,
    /// How applications hear of a message.
    pub(crate) notice: Notice,
    /// How the adapter is told of a post; none where the processor starts messages itself.
    pub(crate) doorbell: Option<Step>,
    /// Messages of one VI whose data may move at once, of drawn traffic: those of programs arrive
    /// in the order of their posts.
    pub(crate) moving_per_vi: u32,
}

impl Hardware {
    pub(crate) fn of(host: &HostModel) -> Self {
        Self {
            processor: host.processor,
            notice: host.notice(),
            doorbell: host.mechanism.doorbell(&host.bus),
            moving_per_vi: host.mechanism.moving_per_vi(),
        }
    }
}

/// Fewest and most messages of one VI whose data may move at once, over all hosts.
pub(crate) fn moving_per_vi(hardware: &ByHost<Hardware>) -> (u32, u32) {
    let counts = hardware.values().map(|it| it.moving_per_vi);
    counts.fold((u32::MAX, 0), |(least, most), count| {
        (least.min(count), most.max(count))
    })
}

impl ClusterConfig {
    /// Whether all adapters understand each other.
    pub(crate) fn check_adapters(&self) -> Result<(), RunError> {
        let common = &self.host.common().mechanism;
        let mut others = self.host.values();
        let differs = others.find_map(|host| common.differs_from(&host.mechanism));
        differs.map_or(Ok(()), |what| Err(RunError::Adapters(what)))
    }
}
