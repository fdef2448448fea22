//! What queue pairs, shared receive queues and addresses are told and asked.

use super::flags::attribute;
use super::{Mtu, PathMigrationState, QueuePairState, QueuePairType, transition};

/// `struct ibv_qp_cap`: sizes of the queues of a queue pair.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities {
    /// Sends at once.
    pub max_send_requests: u32,
    /// Receives at once.
    pub max_receive_requests: u32,
    /// Elements of a send.
    pub max_send_elements: u32,
    /// Elements of a receive.
    pub max_receive_elements: u32,
    /// Bytes that a send may bring with it.
    pub max_inline_bytes: u32,
}

/// `struct ibv_global_route`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GlobalRoute {
    /// Where to.
    pub destination_gid: [u8; 16],
    /// Label of a flow.
    pub flow_label: u32,
    /// Index of the source in the GID table.
    pub source_gid_index: u8,
    /// Routers passed at most.
    pub hop_limit: u8,
    /// Class of traffic.
    pub traffic_class: u8,
}

impl GlobalRoute {
    /// The header that stands before a datagram in its receive: that of IPv6.
    #[must_use]
    pub fn header(&self, source_gid: &[u8; 16]) -> [u8; 40] {
        let mut header = [0; 40];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        header[..4].copy_from_slice(&first.to_be_bytes());
        header[6] = 0x1b;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(source_gid);
        header[24..].copy_from_slice(&self.destination_gid);
        header
    }
}

/// `struct ibv_ah_attr`: where a peer is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AddressAttributes {
    /// The route, if `is_global`.
    pub route: GlobalRoute,
    /// The peer's LID, on InfiniBand.
    pub destination_lid: u16,
    /// Level of service.
    pub service_level: u8,
    /// Low bits of the source's LID.
    pub source_path_bits: u8,
    /// A rate of packets.
    pub static_rate: u8,
    /// Whether there is a route.
    pub is_global: bool,
    /// From which port.
    pub port: u8,
}

/// `struct ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueuePairAttributes {
    /// The state to go to, or that it is in.
    pub state: QueuePairState,
    /// The state it is believed to be in.
    pub current_state: QueuePairState,
    /// Bytes of a packet.
    pub path_mtu: Mtu,
    /// Which path.
    pub path_migration_state: PathMigrationState,
    /// Q_Key of a datagram queue pair.
    pub queue_key: u32,
    /// The number of the first packet that comes, 24 bits.
    pub receive_packet_number: u32,
    /// The number of the first packet that goes, 24 bits.
    pub send_packet_number: u32,
    /// The peer's number.
    pub destination: u32,
    /// What the peer may do: bits of [`access`](super::flags::access).
    pub access_flags: u32,
    /// Sizes.
    pub capabilities: Capabilities,
    /// Where the peer is.
    pub address: AddressAttributes,
    /// A second path.
    pub alternate_address: AddressAttributes,
    /// Which P_Key.
    pub partition_key_index: u16,
    /// P_Key of the second path.
    pub alternate_partition_key_index: u16,
    /// Whether to tell when sends are drained.
    pub send_drained_notify: bool,
    /// Whether sends are still being drained.
    pub is_draining: bool,
    /// Reads and atomics under way from here.
    pub max_read_atomic: u8,
    /// Reads and atomics under way to here.
    pub max_destination_read_atomic: u8,
    /// How long a peer without a receive of ours is told to wait, by the table of the timer.
    pub min_receiver_not_ready_timer: u8,
    /// Which port.
    pub port: u8,
    /// How long to wait for an answer: 4.096 us times two to the power of it; 0 is for ever.
    pub timeout: u8,
    /// How often to try again without an answer.
    pub retry_count: u8,
    /// How often to try again when the peer has no receive; 7 is for ever.
    pub receiver_not_ready_retry: u8,
    /// Port of the second path.
    pub alternate_port: u8,
    /// Timeout of the second path.
    pub alternate_timeout: u8,
    /// A rate of packets.
    pub rate_limit: u32,
}

impl Default for QueuePairAttributes {
    fn default() -> Self {
        Self {
            state: QueuePairState::Reset,
            current_state: QueuePairState::Reset,
            path_mtu: Mtu::Bytes256,
            path_migration_state: PathMigrationState::Migrated,
            queue_key: 0,
            receive_packet_number: 0,
            send_packet_number: 0,
            destination: 0,
            access_flags: 0,
            capabilities: Capabilities::default(),
            address: AddressAttributes::default(),
            alternate_address: AddressAttributes::default(),
            partition_key_index: 0,
            alternate_partition_key_index: 0,
            send_drained_notify: false,
            is_draining: false,
            max_read_atomic: 0,
            max_destination_read_atomic: 0,
            min_receiver_not_ready_timer: 0,
            port: 0,
            timeout: 0,
            retry_count: 0,
            receiver_not_ready_retry: 0,
            alternate_port: 0,
            alternate_timeout: 0,
            rate_limit: 0,
        }
    }
}

/// What is out of its range, whatever the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RangeError {
    /// The number of the peer's queue pair: it has 24 bits.
    Destination,
    /// A timer, of five bits, or a number of retries, of three.
    Patience,
}

/// Bits of the number of a packet, or of a queue pair.
const NUMBER_BITS: u32 = 24;

impl QueuePairAttributes {
    /// Those of a connection to the queue pair of a number, as perftest makes it: over port 1, by a
    /// route, with the longest packets, seven retries after 67 ms each, and for ever where the peer
    /// has no receive. What the peer may do, and reads and atomics, are to be added.
    #[must_use]
    pub fn connection(destination: u32) -> Self {
        Self {
            destination,
            port: 1,
            path_mtu: Mtu::Bytes4096,
            timeout: 14,
            retry_count: 7,
            receiver_not_ready_retry: 7,
            min_receiver_not_ready_timer: 12,
            address: AddressAttributes {
                is_global: true,
                port: 1,
                ..AddressAttributes::default()
            },
            ..Self::default()
        }
    }

    /// Whether those that a mask names have a meaning on any device.
    ///
    /// Source: `ibv_modify_qp(3)`.
    ///
    /// # Errors
    ///
    /// The first that has none.
    pub const fn check_ranges(&self, mask: u32) -> Result<(), RangeError> {
        if mask & attribute::DESTINATION != 0 && self.destination >= 1 << NUMBER_BITS {
            return Err(RangeError::Destination);
        }
        if mask & attribute::TIMEOUT != 0 && self.timeout > 31
            || mask & attribute::RETRY_COUNT != 0 && self.retry_count > 7
            || mask & attribute::RECEIVER_NOT_READY_RETRY != 0 && self.receiver_not_ready_retry > 7
            || mask & attribute::MIN_RECEIVER_NOT_READY_TIMER != 0
                && self.min_receiver_not_ready_timer > 31
        {
            return Err(RangeError::Patience);
        }
        Ok(())
    }

    /// Those that a step between two states must name, with the state; none if there is no such
    /// step.
    #[must_use]
    pub fn required(kind: QueuePairType, from: QueuePairState, to: QueuePairState) -> Option<u32> {
        transition::masks(kind, from, to).map(|masks| attribute::STATE | masks.required)
    }

    /// The steps from RESET to RTS with these attributes, each with the mask of what it must name.
    pub fn steps_up(&self, kind: QueuePairType) -> impl Iterator<Item = (Self, u32)> {
        use QueuePairState::{Init, ReadyToReceive, ReadyToSend, Reset};
        let steps = [
            (Reset, Init),
            (Init, ReadyToReceive),
            (ReadyToReceive, ReadyToSend),
        ];
        let attributes = *self;
        steps.into_iter().map(move |(from, state)| {
            let mask = Self::required(kind, from, state).unwrap_or_default();
            let step = Self {
                state,
                ..attributes
            };
            (step, mask)
        })
    }

    /// Takes over from others those that a mask names. The state is not among them, which follows
    /// rules of its own ([`transition`](super::transition)).
    pub fn take_over(&mut self, wanted: &Self, mask: u32) {
        const NUMBERS: u32 = (1 << NUMBER_BITS) - 1;
        macro_rules! take {
            ($($bit:ident: $field:ident;)+) => {
                $(if mask & attribute::$bit != 0 {
                    self.$field = wanted.$field;
                })+
            };
        }
        take! {
            SEND_DRAINED_NOTIFY: send_drained_notify;
            ACCESS_FLAGS: access_flags;
            PARTITION_KEY_INDEX: partition_key_index;
            PORT: port;
            QUEUE_KEY: queue_key;
            ADDRESS: address;
            PATH_MTU: path_mtu;
            TIMEOUT: timeout;
            RETRY_COUNT: retry_count;
            RECEIVER_NOT_READY_RETRY: receiver_not_ready_retry;
            RECEIVE_PACKET_NUMBER: receive_packet_number;
            SEND_PACKET_NUMBER: send_packet_number;
            MAX_READ_ATOMIC: max_read_atomic;
            MAX_DESTINATION_READ_ATOMIC: max_destination_read_atomic;
            MIN_RECEIVER_NOT_READY_TIMER: min_receiver_not_ready_timer;
            PATH_MIGRATION_STATE: path_migration_state;
            DESTINATION: destination;
        }
        self.receive_packet_number &= NUMBERS;
        self.send_packet_number &= NUMBERS;
    }
}

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SharedReceiveAttributes {
    /// Receives at once.
    pub max_requests: u32,
    /// Elements of a receive.
    pub max_elements: u32,
    /// Told once when fewer receives than this are left; 0 is never.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mask_names_is_taken_over_and_nothing_else() {
        let wanted = QueuePairAttributes {
            state: QueuePairState::Error,
            destination: 7,
            timeout: 14,
            retry_count: 3,
            send_packet_number: 0xff00_0005,
            ..QueuePairAttributes::default()
        };
        let mut own = QueuePairAttributes::default();
        let mask = attribute::STATE | attribute::TIMEOUT | attribute::SEND_PACKET_NUMBER;
        own.take_over(&wanted, mask);
        let expected = QueuePairAttributes {
            timeout: 14,
            send_packet_number: 5,
            ..QueuePairAttributes::default()
        };
        assert_eq!(own, expected);
        own.take_over(&wanted, attribute::DESTINATION | attribute::RETRY_COUNT);
        assert_eq!((own.destination, own.retry_count), (7, 3));
    }

    #[test]
    fn a_step_that_names_what_it_must_is_one() {
        use QueuePairState::{Init, ReadyToReceive, ReadyToSend, Reset};
        for kind in [QueuePairType::Rc, QueuePairType::Uc, QueuePairType::Ud] {
            let steps = [
                (Reset, Init),
                (Init, ReadyToReceive),
                (ReadyToReceive, ReadyToSend),
            ];
            for (from, to) in steps {
                let mask = QueuePairAttributes::required(kind, from, to).unwrap();
                assert_eq!(transition::next(kind, from, mask, to, from), Ok(to));
            }
            assert_eq!(
                QueuePairAttributes::required(kind, Reset, ReadyToSend),
                None
            );
        }
    }

    #[test]
    fn ranges_are_those_of_the_bits() {
        let mut attributes = QueuePairAttributes {
            destination: (1 << 24) - 1,
            timeout: 31,
            retry_count: 7,
            receiver_not_ready_retry: 7,
            min_receiver_not_ready_timer: 31,
            ..QueuePairAttributes::default()
        };
        assert_eq!(attributes.check_ranges(u32::MAX), Ok(()));
        attributes.destination += 1;
        let check = QueuePairAttributes::check_ranges;
        assert_eq!(check(&attributes, u32::MAX), Err(RangeError::Destination));
        attributes.destination = 0;
        attributes.receiver_not_ready_retry = 8;
        assert_eq!(check(&attributes, u32::MAX), Err(RangeError::Patience));
        assert_eq!(check(&attributes, attribute::TIMEOUT), Ok(()));
    }
}
