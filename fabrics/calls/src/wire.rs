//! Values as bytes, in the order of this machine: both ends are of one build.

use viaduct_core::verbs::{
    AddressAttributes, AsyncElement, AsyncEvent, AsyncEventType, Capabilities, Completion,
    CompletionOpcode, CompletionQueueOptions, CompletionStatus, GlobalRoute, Key, Limits, Mtu,
    PathMigrationState, QueuePairAttributes, QueuePairOptions, QueuePairState, QueuePairType,
    ScatterGatherElement, SendOpcode, SharedReceiveAttributes,
};

/// A value that goes as bytes.
pub trait Wire: Sized {
    /// Adds its bytes to others.
    fn put(&self, into: &mut Vec<u8>);

    /// Takes it from the beginning of some bytes; none if they are not such a value.
    fn get(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($type:ty),+) => {
        $(impl Wire for $type {
            #[inline]
            fn put(&self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_ne_bytes());
            }

            #[inline]
            fn get(from: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_ne_bytes(*bytes))
            }
        })+
    };
}

integers!(u8, u16, u32, u64);

impl Wire for () {
    fn put(&self, _into: &mut Vec<u8>) {}

    fn get(_from: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl Wire for bool {
    fn put(&self, into: &mut Vec<u8>) {
        into.push(u8::from(*self));
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        match u8::get(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Wire for Key {
    fn put(&self, into: &mut Vec<u8>) {
        self.to_bits().put(into);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        u64::get(from).map(Self::from_bits)
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(*bytes)
    }
}

impl Wire for String {
    fn put(&self, into: &mut Vec<u8>) {
        (self.len() as u32).put(into);
        into.extend_from_slice(self.as_bytes());
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let length = u32::get(from)? as usize;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(str::from_utf8(text).ok()?.to_owned())
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, into: &mut Vec<u8>) {
        self.0.put(into);
        self.1.put(into);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some((A::get(from)?, B::get(from)?))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, into: &mut Vec<u8>) {
        self.is_some().put(into);
        if let Some(value) = self {
            value.put(into);
        }
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(match bool::get(from)? {
            true => Some(T::get(from)?),
            false => None,
        })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, into: &mut Vec<u8>) {
        (self.len() as u32).put(into);
        for value in self {
            value.put(into);
        }
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let count = u32::get(from)?;
        // A count that lies finds no values: nothing is kept free for it.
        (0..count).map(|_| T::get(from)).collect()
    }
}

/// Words of `infiniband/verbs.h` go as their numbers.
macro_rules! words {
    ($($type:ident),+ $(,)?) => {
        $(impl Wire for $type {
            fn put(&self, into: &mut Vec<u8>) {
                self.number().put(into);
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                Self::from_number(u32::get(from)?)
            }
        })+
    };
}

words!(
    AsyncEventType,
    CompletionOpcode,
    CompletionStatus,
    Mtu,
    PathMigrationState,
    QueuePairState,
    QueuePairType,
    SendOpcode,
);

/// Structures go field by field.
macro_rules! fields {
    ($($type:ident { $($field:ident),+ $(,)? })+) => {
        $(impl $crate::wire::Wire for $type {
            fn put(&self, into: &mut Vec<u8>) {
                let Self { $($field),+ } = self;
                $($crate::wire::Wire::put($field, into);)+
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::wire::Wire::get(from)?),+ })
            }
        })+
    };
}
pub(crate) use fields;

fields! {
    ScatterGatherElement { address, length, local_key }
    Capabilities {
        max_send_requests, max_receive_requests, max_send_elements, max_receive_elements,
        max_inline_bytes,
    }
    GlobalRoute {
        destination_gid, flow_label, source_gid_index, hop_limit, traffic_class,
    }
    AddressAttributes {
        route, destination_lid, service_level, source_path_bits, static_rate, is_global, port,
    }
    SharedReceiveAttributes { max_requests, max_elements, limit }
    QueuePairAttributes {
        state, current_state, path_mtu, path_migration_state, queue_key, receive_packet_number,
        send_packet_number, destination, access_flags, capabilities, address, alternate_address,
        partition_key_index, alternate_partition_key_index, send_drained_notify, is_draining,
        max_read_atomic, max_destination_read_atomic, min_receiver_not_ready_timer, port, timeout,
        retry_count, receiver_not_ready_retry, alternate_port, alternate_timeout, rate_limit,
    }
    QueuePairOptions {
        kind, capabilities, send_queue, receive_queue, shared_receive_queue,
        is_every_send_signaled, cookie,
    }
    CompletionQueueOptions {
        entries, cookie, channel, vector, has_timestamps, ignores_overrun,
    }
    Completion {
        request, status, opcode, vendor_error, byte_length, immediate, queue_pair,
        source_queue_pair, flags, partition_key_index, source_lid, service_level,
        destination_path_bits, timestamp,
    }
    AsyncEvent { kind, element }
    Limits {
        first_number, max_queue_pairs, max_regions, max_address_handles, max_objects, max_requests,
        max_elements, max_inline_bytes, min_inline_bytes, max_completion_entries, max_read_atomic,
        max_message_bytes, max_region_bytes, mtu, gids, needs_route,
    }
}

impl Wire for AsyncElement {
    fn put(&self, into: &mut Vec<u8>) {
        let (kind, number) = match *self {
            Self::CompletionQueue(cookie) => (0_u8, cookie),
            Self::QueuePair(cookie) => (1, cookie),
            Self::SharedReceiveQueue(cookie) => (2, cookie),
            Self::Port(port) => (3, u64::from(port)),
            Self::Device => (4, 0),
        };
        (kind, number).put(into);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        let (kind, number) = <(u8, u64)>::get(from)?;
        Some(match kind {
            0 => Self::CompletionQueue(number),
            1 => Self::QueuePair(number),
            2 => Self::SharedReceiveQueue(number),
            3 => Self::Port(u8::try_from(number).ok()?),
            4 => Self::Device,
            _ => return None,
        })
    }
}
