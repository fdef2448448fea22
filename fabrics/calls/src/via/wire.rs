//! Values of VIA as bytes.

use std::sync::Arc;
use std::time::Duration;

use viaduct_core::{
    Address, Discriminator, ErrorCode, Extensions, HostAddress, MemoryAttributes, MemoryHandle,
    NicAttributes, ProtectionTag, Queue, ReliabilityLevel, ReliabilityLevels, RemoteViAttributes,
    Timespan, ViAttributes, ViState,
};
use viaduct_provider::{
    CompletionEntry, CompletionQueueHandle, ConnectionHandle, IncomingRequest, NicHandle, ViHandle,
    ViInformation,
};

use super::{Found, Told};
use crate::wire::{Wire, fields};

/// Values that are numbers, and may be none of that kind.
macro_rules! numbers {
    ($($type:ty: $bits:ty, $to:expr, $from:expr;)+) => {
        $(impl Wire for $type {
            fn put(&self, into: &mut Vec<u8>) {
                let to: fn(&Self) -> $bits = $to;
                to(self).put(into);
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                let of: fn($bits) -> Option<Self> = $from;
                of(<$bits>::get(from)?)
            }
        })+
    };
}

numbers! {
    NicHandle: u64, |it| it.bits(), Self::from_bits;
    ViHandle: u64, |it| it.bits(), Self::from_bits;
    CompletionQueueHandle: u64, |it| it.bits(), Self::from_bits;
    ConnectionHandle: u64, |it| it.bits(), Self::from_bits;
    MemoryHandle: u32, |it| it.bits(), |bits| Some(Self::from_bits(bits));
    ProtectionTag: u32, |it| it.bits(), |bits| Some(Self::from_bits(bits));
    HostAddress: u64, |it| it.get(), |bits| Some(Self::new(bits));
    Timespan: u64, |it| it.picoseconds(), |bits| Some(Self::from_picoseconds(bits));
    ReliabilityLevel: u16, |it| *it as u16, Self::from_bits;
    ReliabilityLevels: u16, |it| it.bits(), levels;
    ErrorCode: u32, |it| *it as u32, Self::from_bits;
    Queue: u8, |it| *it as u8, |bits| [Self::Send, Self::Receive].get(usize::from(bits)).copied();
    ViState: u8, |it| *it as u8, |bits| {
        let all = [Self::Idle, Self::Connected, Self::ConnectPending, Self::Error];
        all.get(usize::from(bits)).copied()
    };
    // Longer ones are as good as none: half a million years.
    Duration: u64, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX), |bits| {
        Some(Self::from_nanos(bits))
    };
}

fn levels(bits: u16) -> Option<ReliabilityLevels> {
    let all = [
        ReliabilityLevel::Unreliable,
        ReliabilityLevel::ReliableDelivery,
        ReliabilityLevel::ReliableReception,
    ];
    let of = |levels: ReliabilityLevels, level: &ReliabilityLevel| match bits & *level as u16 {
        0 => levels,
        _ => levels.with(*level),
    };
    let levels = all.iter().fold(ReliabilityLevels::NONE, of);
    (levels.bits() == bits).then_some(levels)
}

impl Wire for Discriminator {
    fn put(&self, into: &mut Vec<u8>) {
        (self.as_bytes().len() as u32).put(into);
        into.extend_from_slice(self.as_bytes());
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(Self::new(&Vec::<u8>::get(from)?))
    }
}

impl Wire for Box<str> {
    fn put(&self, into: &mut Vec<u8>) {
        String::from(&**self).put(into);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        String::get(from).map(String::into_boxed_str)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, into: &mut Vec<u8>) {
        T::put(self, into);
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        T::get(from).map(Self::new)
    }
}

fields! {
    Address { host, discriminator }
    Extensions { flow_control, request_splitting }
    MemoryAttributes { tag, rdma_write, rdma_read }
    ViAttributes {
        reliability, max_transfer_bytes, tag, rdma_write, rdma_read, quality_of_service, extensions,
    }
    RemoteViAttributes {
        reliability, max_transfer_bytes, rdma_write, rdma_read, quality_of_service, extensions,
    }
    ViInformation { state, attributes, send_queue_empty, receive_queue_empty }
    IncomingRequest { connection, remote, attributes }
    CompletionEntry { vi, queue }
    NicAttributes {
        name, max_vis, max_descriptors_per_queue, max_segments_per_descriptor, max_transfer_bytes,
        native_mtu_bytes, max_completion_queues, max_completion_queue_entries, max_protection_tags,
        max_memory_regions, max_region_bytes, max_registered_bytes, max_discriminator_bytes,
        reliability_levels, rdma_read_levels, qualities_of_service, connect_grace,
    }
}

impl Wire for Found {
    fn put(&self, into: &mut Vec<u8>) {
        match *self {
            Self::NotDone => into.push(0),
            Self::Empty => into.push(1),
            Self::Descriptor { address, is_error } => {
                into.push(2);
                (address, is_error).put(into);
            }
        }
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::get(from)? {
            0 => Self::NotDone,
            1 => Self::Empty,
            2 => {
                let (address, is_error) = Wire::get(from)?;
                Self::Descriptor { address, is_error }
            }
            _ => return None,
        })
    }
}

impl Wire for Told {
    fn put(&self, into: &mut Vec<u8>) {
        match *self {
            Self::Error(failed) => {
                into.push(0);
                failed.put(into);
            }
            Self::Descriptor {
                handler,
                nic,
                vi,
                address,
            } => {
                into.push(1);
                ((handler, nic), (vi, address)).put(into);
            }
            Self::Entry {
                handler,
                nic,
                entry,
            } => {
                into.push(2);
                ((handler, nic), entry).put(into);
            }
            Self::Forgotten { handler } => {
                into.push(3);
                handler.put(into);
            }
        }
    }

    fn get(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::get(from)? {
            0 => Self::Error(Wire::get(from)?),
            1 => {
                let ((handler, nic), (vi, address)) = Wire::get(from)?;
                Self::Descriptor {
                    handler,
                    nic,
                    vi,
                    address,
                }
            }
            2 => {
                let ((handler, nic), entry) = Wire::get(from)?;
                Self::Entry {
                    handler,
                    nic,
                    entry,
                }
            }
            3 => Self::Forgotten {
                handler: Wire::get(from)?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Wire + std::fmt::Debug + PartialEq>(value: &T) {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(T::get(&mut rest).as_ref(), Some(value));
        assert!(rest.is_empty(), "{value:?}");
        // What is cut off is not taken for something else.
        let mut cut = &bytes[..bytes.len() - 1];
        assert_ne!(T::get(&mut cut).as_ref(), Some(value));
    }

    #[test]
    fn values_come_back_as_they_were() {
        let nic = NicHandle::from_bits(1 << 40).unwrap();
        let vi = ViHandle::from_bits(5).unwrap();
        there_and_back(&NicAttributes::default());
        there_and_back(&ReliabilityLevels::NONE.with(ReliabilityLevel::ReliableReception));
        there_and_back(&ViAttributes {
            extensions: Extensions {
                flow_control: true,
                request_splitting: false,
            },
            rdma_read: true,
            ..ViAttributes::unreliable(ProtectionTag::from_bits(9), 77)
        });
        there_and_back(&Address::new(HostAddress::new(u64::MAX), b"a\0b"));
        there_and_back(&Some(Duration::from_millis(3)));
        there_and_back(&Found::Descriptor {
            address: 64,
            is_error: true,
        });
        for code in ErrorCode::ALL {
            there_and_back(&Told::Error(super::super::Failed {
                nic,
                vi: Some(vi),
                completion_queue: None,
                address: Some(128),
                operation: 3,
                code,
            }));
        }
        let queue = Queue::Receive;
        there_and_back(&Told::Entry {
            handler: 4,
            nic,
            entry: CompletionEntry { vi, queue },
        });
        there_and_back(&Told::Descriptor {
            handler: 4,
            nic,
            vi,
            address: 192,
        });
    }

    #[test]
    fn what_is_no_value_is_none() {
        assert!(Queue::get(&mut &[2][..]).is_none());
        assert!(ViState::get(&mut &[4][..]).is_none());
        assert!(ViHandle::get(&mut &[0; 8][..]).is_none());
        assert!(ReliabilityLevels::get(&mut &[8, 0][..]).is_none());
        assert!(ReliabilityLevel::get(&mut &[3, 0][..]).is_none());
        assert!(String::get(&mut &[1, 0, 0, 0, 0xff][..]).is_none());
    }
}
