//! The two hosts of a message. Each prices its own part of it.

use viaduct_network::ByHost;
use viaduct_network::hops::Ends;

use crate::host::HostModel;

/// The hosts that send and receive a message.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The one that it begins at.
    pub sender: &'a HostModel,
    /// The one that it goes to.
    pub receiver: &'a HostModel,
    /// Which of a cluster's models they are, so that what is kept of one pair is not taken for
    /// another's.
    pub(crate) groups: [usize; 2],
}

impl<'a> Pair<'a> {
    /// Two hosts of a cluster, by their numbers.
    #[inline]
    #[must_use]
    pub fn of(hosts: &'a ByHost<HostModel>, sender: u32, receiver: u32) -> Self {
        Self {
            sender: hosts.of(sender),
            receiver: hosts.of(receiver),
            groups: [hosts.group(sender), hosts.group(receiver)],
        }
    }

    /// Hosts of two models, of which nothing is kept.
    #[must_use]
    pub const fn between(sender: &'a HostModel, receiver: &'a HostModel) -> Self {
        Self {
            sender,
            receiver,
            groups: [0; 2],
        }
    }

    /// Hosts of one model.
    #[must_use]
    pub const fn alike(model: &'a HostModel) -> Self {
        Self::between(model, model)
    }

    /// The same two for what goes the other way.
    #[must_use]
    pub const fn back(self) -> Self {
        let [sender, receiver] = self.groups;
        Self {
            sender: self.receiver,
            receiver: self.sender,
            groups: [receiver, sender],
        }
    }

    /// What they are to the network.
    #[must_use]
    pub fn ends(self) -> Ends {
        Ends {
            source: self.sender.end(),
            target: self.receiver.end(),
        }
    }
}
