//! Devices, their attributes, ports and addresses.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use viaduct_core::verbs::error::invalid;
use viaduct_core::verbs::{Error, LinkLayer, Mtu, PortState, Result};

use crate::context::Context;
use crate::faults;
use crate::limits;

/// A device of this machine.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Device {
    index: u32,
}

/// `struct ibv_device_attr` and the parts of `ibv_device_attr_ex` that are not constant zeros.
#[derive(Clone, Debug)]
pub struct DeviceAttributes {
    /// Version of what stands for firmware.
    pub firmware_version: &'static str,
    /// GUID of the node, network order.
    pub node_guid: [u8; 8],
    /// GUID of the system, network order.
    pub system_image_guid: [u8; 8],
    /// Bytes of the longest region.
    pub max_region_bytes: u64,
    /// Bits of page sizes.
    pub page_size_bits: u64,
    /// Not one of those for which programs use calls of a vendor.
    pub vendor_id: u32,
    /// Number of the part.
    pub vendor_part_id: u32,
    /// Version.
    pub hardware_version: u32,
    /// Queue pairs at once.
    pub max_queue_pairs: u32,
    /// Requests on a queue.
    pub max_requests: u32,
    /// `IBV_DEVICE_*`.
    pub capability_flags: u32,
    /// Elements of a request.
    pub max_elements: u32,
    /// Elements of a read.
    pub max_read_elements: u32,
    /// Completion queues at once.
    pub max_completion_queues: u32,
    /// Entries of a completion queue.
    pub max_completion_entries: u32,
    /// Regions at once.
    pub max_regions: u32,
    /// Protection domains at once.
    pub max_protection_domains: u32,
    /// Reads and atomics under way to a queue pair.
    pub max_destination_read_atomic: u32,
    /// The same of all.
    pub max_read_atomic_resources: u32,
    /// Reads and atomics under way from a queue pair.
    pub max_read_atomic: u32,
    /// `IBV_ATOMIC_GLOB`: 2.
    pub atomic_capability: u32,
    /// Address handles at once.
    pub max_address_handles: u32,
    /// Shared receive queues at once.
    pub max_shared_receive_queues: u32,
    /// Receives of one.
    pub max_shared_receive_requests: u32,
    /// Elements of such a receive.
    pub max_shared_receive_elements: u32,
    /// P_Keys.
    pub max_partition_keys: u16,
    /// Bytes that a send may bring with it.
    pub max_inline_bytes: u32,
    /// Cycles of the clock of timestamps in a second, in kHz.
    pub clock_khz: u64,
    /// Bits of a timestamp.
    pub timestamp_mask: u64,
    /// Ports.
    pub ports: u8,
    /// Vectors of completions.
    pub completion_vectors: u32,
}

/// `struct ibv_port_attr`.
#[derive(Clone, Copy, Debug)]
pub struct PortAttributes {
    /// Up or down.
    pub state: PortState,
    /// The longest packet possible.
    pub max_mtu: Mtu,
    /// The longest packet used.
    pub active_mtu: Mtu,
    /// GIDs.
    pub gid_table_length: u32,
    /// `IBV_PORT_*`.
    pub capability_flags: u32,
    /// Bytes of the longest message.
    pub max_message_bytes: u32,
    /// P_Keys.
    pub partition_key_table_length: u16,
    /// Its LID; 0 on Ethernet.
    pub lid: u16,
    /// LID of the subnet manager.
    pub subnet_manager_lid: u16,
    /// LIDs, as a power of two.
    pub lid_mask_bits: u8,
    /// Virtual lanes.
    pub max_virtual_lanes: u8,
    /// Level of service of the subnet manager.
    pub subnet_manager_service_level: u8,
    /// Lanes: 2 is four.
    pub active_width: u8,
    /// Speed of a lane: 64 is 50 Gb/s.
    pub active_speed: u8,
    /// 5: link up; 3: disabled.
    pub physical_state: u8,
    /// InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// `IBV_QPF_*`.
    pub flags: u8,
}

/// `enum ibv_gid_type`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum GidType {
    /// InfiniBand.
    InfiniBand = 0,
    /// RoCE over UDP.
    RoceV2 = 2,
}

/// An entry of a table of GIDs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GidEntry {
    /// The GID.
    pub gid: [u8; 16],
    /// Its index.
    pub index: u32,
    /// Its port.
    pub port: u8,
    /// Its kind.
    pub kind: GidType,
}

/// Settings of all devices, read once from the environment.
#[derive(Debug)]
struct Settings {
    devices: u32,
    link_layer: LinkLayer,
    mtu: Mtu,
    addresses: Vec<IpAddr>,
    reports_dead_peers: bool,
    shares_memory: bool,
}

/// Physical states of ports.
const DISABLED: u8 = 3;
const LINK_UP: u8 = 5;

/// Devices that a process has at most.
pub const DEVICES_MAX: u32 = 64;

fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        devices: from_environment("VIADUCT_RDMA_DEVICES", "a number from 0 to 64", |text| {
            text.parse().ok().filter(|count| *count <= DEVICES_MAX)
        })
        .unwrap_or(1),
        link_layer: from_environment("VIADUCT_RDMA_LINK", "`roce` or `ib`", |text| match text {
            "roce" | "ethernet" => Some(LinkLayer::Ethernet),
            "ib" | "infiniband" => Some(LinkLayer::InfiniBand),
            _ => None,
        })
        .unwrap_or(LinkLayer::Ethernet),
        mtu: from_environment("VIADUCT_RDMA_MTU", "256, 512, 1024, 2048 or 4096", |text| {
            (1..=5)
                .filter_map(Mtu::from_number)
                .find(|mtu| text.parse() == Ok(mtu.bytes()))
        })
        .unwrap_or(Mtu::Bytes4096),
        addresses: from_environment(
            "VIADUCT_RDMA_GIDS",
            "a list of IP addresses with commas between them",
            |text| {
                text.split(',')
                    .map(|word| word.trim().parse().ok())
                    .collect()
            },
        )
        .unwrap_or_else(own_addresses),
        shares_memory: from_environment("VIADUCT_RDMA_SHARE_MEMORY", "0 or 1", zero_or_one)
            .unwrap_or(false),
        reports_dead_peers: from_environment(
            "VIADUCT_RDMA_REPORT_DEAD_PEERS",
            "0 or 1",
            zero_or_one,
        )
        .unwrap_or(false),
    })
}

/// Whether reliable queue pairs that only wait for a peer fail when its process ends.
pub(crate) fn reports_dead_peers() -> bool {
    settings().reports_dead_peers
}

/// Whether pages of registered memory are shared with peers.
pub(crate) fn shares_memory() -> bool {
    settings().shares_memory
}

fn zero_or_one(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn from_environment<T>(name: &str, wanted: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    let text = value.to_string_lossy();
    let read = read(text.trim());
    if read.is_none() {
        eprintln!("viaduct: {name}: \"{text}\" is ignored: set it to {wanted}");
    }
    read
}

/// The IPv4 addresses of this machine's interfaces, those of loopback last; at least 127.0.0.1.
fn own_addresses() -> Vec<IpAddr> {
    let mut found: Vec<Ipv4Addr> = Vec::new();
    let mut list = std::ptr::null_mut();
    // SAFETY: `list` is a place for the head of a list that the call makes.
    if unsafe { libc::getifaddrs(&raw mut list) } == 0 {
        let mut next = list;
        while !next.is_null() {
            // SAFETY: an entry of the list, which is freed below.
            let entry = unsafe { &*next };
            let family = match entry.ifa_addr.is_null() {
                true => libc::AF_UNSPEC,
                // SAFETY: an address that is not null has at least its family.
                false => i32::from(unsafe { (*entry.ifa_addr).sa_family }),
            };
            if family == libc::AF_INET {
                // SAFETY: an address of this family is a `sockaddr_in`.
                let address = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in>() };
                found.push(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)));
            }
            next = entry.ifa_next;
        }
        // SAFETY: made by `getifaddrs`, and freed once.
        unsafe { libc::freeifaddrs(list) };
    }
    found.sort_by_key(|address| (address.is_loopback(), address.octets()));
    found.dedup();
    if !found.iter().any(Ipv4Addr::is_loopback) {
        found.push(Ipv4Addr::LOCALHOST);
    }
    found.into_iter().map(IpAddr::V4).collect()
}

/// The devices, in the order of their names.
#[must_use]
pub fn devices() -> Vec<Device> {
    (0..settings().devices)
        .map(|index| Device { index })
        .collect()
}

impl Device {
    /// `viaduct0`, `viaduct1`, ...
    #[must_use]
    pub fn name(&self) -> String {
        format!("viaduct{}", self.index)
    }

    /// `uverbs0`, `uverbs1`, ...
    #[must_use]
    pub fn character_device_name(&self) -> String {
        format!("uverbs{}", self.index)
    }

    /// Its number, from 0.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Its GUID in network order.
    #[must_use]
    pub const fn guid(&self) -> [u8; 8] {
        let index = self.index.to_be_bytes();
        [0x02, 0x56, 0x49, 0xff, 0xfe, 0x41, index[2], index[3]]
    }

    /// Opens it. From here on a service thread runs.
    ///
    /// # Errors
    ///
    /// What the system says when it has no memory, descriptors or threads. ENODEV in a child that a
    /// signal's handler forked in the middle of a call.
    pub fn open(&self) -> Result<Context> {
        Context::open(*self)
    }

    /// What it can do.
    #[must_use]
    pub fn attributes(&self) -> DeviceAttributes {
        DeviceAttributes {
            firmware_version: env!("CARGO_PKG_VERSION"),
            node_guid: self.guid(),
            system_image_guid: self.guid(),
            max_region_bytes: limits::REGION_BYTES_MAX,
            page_size_bits: 0xffff_ffff_ffff_f000,
            // Locally administered, as the GUID: of no vendor.
            vendor_id: 0x02_5649,
            vendor_part_id: 1,
            hardware_version: 1,
            max_queue_pairs: limits::QUEUE_PAIRS_MAX,
            max_requests: limits::REQUESTS_MAX,
            capability_flags: limits::CAPABILITY_FLAGS,
            max_elements: limits::ELEMENTS_MAX,
            max_read_elements: limits::ELEMENTS_MAX,
            max_completion_queues: limits::OBJECTS_MAX,
            max_completion_entries: limits::COMPLETION_ENTRIES_MAX,
            max_regions: limits::REGIONS_MAX,
            max_protection_domains: limits::OBJECTS_MAX,
            max_destination_read_atomic: u32::from(limits::READ_ATOMIC_MAX),
            max_read_atomic_resources: u32::from(limits::READ_ATOMIC_MAX) * limits::QUEUE_PAIRS_MAX,
            max_read_atomic: u32::from(limits::READ_ATOMIC_MAX),
            // Atomic among queue pairs (IBV_ATOMIC_HCA), which programs such as UCX ask for. That
            // they are atomic for processors too is said by `pci_atomic_caps` of the C face.
            atomic_capability: 1,
            max_address_handles: limits::ADDRESS_HANDLES_MAX,
            max_shared_receive_queues: limits::OBJECTS_MAX,
            max_shared_receive_requests: limits::REQUESTS_MAX,
            max_shared_receive_elements: limits::ELEMENTS_MAX,
            max_partition_keys: 1,
            max_inline_bytes: limits::INLINE_BYTES_MAX,
            clock_khz: 1_000_000,
            timestamp_mask: u64::MAX,
            ports: 1,
            completion_vectors: 1,
        }
    }

    /// A port; there is one, number 1.
    ///
    /// # Errors
    ///
    /// EINVAL for another number.
    pub fn port(&self, port: u8) -> Result<PortAttributes> {
        self.check_port(port)?;
        let settings = settings();
        let is_ethernet = settings.link_layer == LinkLayer::Ethernet;
        let is_down = faults::is_port_down();
        Ok(PortAttributes {
            state: if is_down {
                PortState::Down
            } else {
                PortState::Active
            },
            max_mtu: Mtu::Bytes4096,
            active_mtu: settings.mtu,
            gid_table_length: self.gids().len() as u32,
            // IBV_PORT_CM_SUP and IBV_PORT_IP_BASED_GIDS.
            capability_flags: 1 << 16 | if is_ethernet { 1 << 26 } else { 0 },
            max_message_bytes: limits::MESSAGE_BYTES_MAX,
            partition_key_table_length: 1,
            lid: if is_ethernet {
                0
            } else {
                1 + self.index as u16
            },
            subnet_manager_lid: u16::from(!is_ethernet),
            lid_mask_bits: 0,
            max_virtual_lanes: 1,
            subnet_manager_service_level: 0,
            active_width: 2,
            active_speed: 64,
            physical_state: if is_down { DISABLED } else { LINK_UP },
            link_layer: settings.link_layer,
            // IBV_QPF_GRH_REQUIRED is for other fabrics.
            flags: 0,
        })
    }

    /// Its GIDs, each at its index: on Ethernet an IPv4-mapped one for each address, and a
    /// link-local one; on InfiniBand the one of the port.
    #[must_use]
    pub fn gids(&self) -> Vec<GidEntry> {
        let guid = self.guid();
        let mut link_local = [0_u8; 16];
        link_local[..2].copy_from_slice(&[0xfe, 0x80]);
        link_local[8..].copy_from_slice(&guid);
        let settings = settings();
        let mut gids = Vec::new();
        let kind = if settings.link_layer == LinkLayer::Ethernet {
            // The first address, the link-local one, and the others.
            gids.extend(settings.addresses.iter().map(|address| gid_of(*address)));
            gids.insert(gids.len().min(1), link_local);
            GidType::RoceV2
        } else {
            gids.push(link_local);
            GidType::InfiniBand
        };
        (0..)
            .zip(gids)
            .map(|(index, gid)| GidEntry {
                gid,
                index,
                port: 1,
                kind,
            })
            .collect()
    }

    /// The GID of an index.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1, ENODATA past the end of the table.
    pub fn gid(&self, port: u8, index: u32) -> Result<GidEntry> {
        self.check_port(port)?;
        self.gids().get(index as usize).copied().ok_or_else(|| {
            Error::new(
                libc::ENODATA,
                format!("{} has no GID of index {index}", self.name()),
            )
        })
    }

    /// The P_Key of an index, in network order: there is the default one.
    ///
    /// # Errors
    ///
    /// EINVAL for another port than 1 or another index than 0.
    pub fn partition_key(&self, port: u8, index: u32) -> Result<u16> {
        self.check_port(port)?;
        if index != 0 {
            return Err(invalid(format!("port 1 has one P_Key, not {index}")));
        }
        Ok(0xffff)
    }

    fn check_port(&self, port: u8) -> Result<()> {
        if port == 1 {
            Ok(())
        } else {
            Err(invalid(format!("{} has port 1, not {port}", self.name())))
        }
    }
}

/// The GID of an IP address.
#[must_use]
pub fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

pub(crate) fn link_layer() -> LinkLayer {
    settings().link_layer
}

pub(crate) fn active_mtu() -> Mtu {
    settings().mtu
}
