//! The files that programs look for: in sysfs and beside the device files, of the adapters that the
//! libraries show. The shim for paths shows them at their places.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use viaduct_rdma::verbs::LinkLayer;
use viaduct_rdma::{Device, GidType};

use super::{AdapterArguments, places};
use crate::failure::Failure;
use crate::itself;

/// The folder with the files of these adapters. It is made once for each choice of them.
pub(super) fn folder(adapters: &AdapterArguments) -> Result<PathBuf, Failure> {
    let session = places::session()?;
    let mut choice = DefaultHasher::new();
    // The environment names adapters too, and what the machine has may change.
    for (name, value) in settings(adapters) {
        (name, value).hash(&mut choice);
    }
    (env!("CARGO_PKG_VERSION"), listing(adapters)?).hash(&mut choice);
    let folder = session.join(format!("sys-{:016x}", choice.finish()));
    if folder.exists() {
        return Ok(folder);
    }
    // Written beside it and renamed: others may make it at the same time.
    let own = own_folder(&session)?;
    asked(adapters, own.path())?;
    if let Err(error) = fs::rename(own.path(), &folder)
        && !folder.exists()
    {
        return Err(Failure::plain(format!(
            "cannot make {}: {error}",
            folder.display()
        )));
    }
    Ok(folder)
}

/// A folder that no other process has, not even one of the same number in another container.
fn own_folder(session: &Path) -> Result<TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("files-")
        .tempdir_in(session)
        .map_err(|error| {
            Failure::plain(format!(
                "cannot make a folder in {}: {error}",
                session.display()
            ))
        })
}

/// What of the environment the libraries read about adapters, and what the launcher says instead.
fn settings(adapters: &AdapterArguments) -> Vec<(String, String)> {
    let mut settings: std::collections::BTreeMap<String, String> = std::env::vars()
        .filter(|(name, _)| name.starts_with("VIADUCT_RDMA_"))
        .collect();
    let chosen = adapters.variables();
    settings.extend(
        chosen
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value)),
    );
    settings.into_iter().collect()
}

/// Has this program write the files, in an environment that names the adapters: the libraries read
/// it once.
fn asked(adapters: &AdapterArguments, folder: &Path) -> Result<(), Failure> {
    let cannot =
        |reason: String| Failure::plain(format!("cannot write the files of adapters: {reason}"));
    let mut command = itself::command().map_err(|error| cannot(error.to_string()))?;
    command
        .args(["rdma", "files"])
        .arg(folder)
        .envs(adapters.variables());
    let output = command
        .output()
        .map_err(|error| cannot(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(cannot(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}

/// The adapters that programs see, as text.
pub(super) fn listing(adapters: &AdapterArguments) -> Result<String, Failure> {
    let folder = own_folder(&places::session()?)?;
    asked(adapters, folder.path())?;
    let text = fs::read_to_string(folder.path().join("adapters"));
    text.map_err(|error| Failure::plain(format!("cannot list adapters: {error}")))
}

/// Writes the files of the adapters that this process's environment names.
pub(super) fn write(folder: &Path) -> Result<(), Failure> {
    all(folder)
        .map_err(|error| Failure::plain(format!("cannot write into {}: {error}", folder.display())))
}

fn all(folder: &Path) -> io::Result<()> {
    let classes = folder.join("sys/class");
    file(&classes.join("infiniband_verbs/abi_version"), "6")?;
    file(&classes.join("misc/rdma_cm/abi_version"), "4")?;
    fs::create_dir_all(folder.join("dev/infiniband"))?;
    let mut text = String::new();
    for device in viaduct_rdma::devices() {
        describe(&mut text, &device)?;
        device_files(folder, &device)?;
    }
    null(&folder.join("dev/infiniband/rdma_cm"))?;
    fs::write(folder.join("adapters"), text)
}

/// A device file that can be looked at and opened, and does nothing.
fn null(path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink("/dev/null", path)
}

fn file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, format!("{text}\n"))
}

fn device_files(folder: &Path, device: &Device) -> io::Result<()> {
    let classes = folder.join("sys/class");
    let index = device.index();
    let (name, special) = (device.name(), device.character_device_name());
    null(&folder.join("dev/infiniband").join(&special))?;
    let verbs = classes.join("infiniband_verbs").join(&special);
    file(&verbs.join("ibdev"), &name)?;
    file(&verbs.join("dev"), &format!("231:{}", 192 + index))?;
    file(&verbs.join("abi_version"), "1")?;

    let own = classes.join("infiniband").join(&name);
    let attributes = device.attributes();
    file(&own.join("node_type"), "1: CA")?;
    file(&own.join("node_guid"), &guid(attributes.node_guid))?;
    file(
        &own.join("sys_image_guid"),
        &guid(attributes.system_image_guid),
    )?;
    file(&own.join("node_desc"), &name)?;
    file(&own.join("fw_ver"), attributes.firmware_version)?;
    file(&own.join("hca_type"), "viaduct")?;
    file(&own.join("board_id"), "viaduct")?;
    let hardware = own.join("device");
    file(
        &hardware.join("vendor"),
        &format!("{:#06x}", attributes.vendor_id),
    )?;
    file(
        &hardware.join("device"),
        &format!("{:#06x}", attributes.vendor_part_id),
    )?;
    file(&hardware.join("numa_node"), "-1")?;
    let processors = fs::read_to_string("/sys/devices/system/cpu/online");
    file(
        &hardware.join("local_cpulist"),
        processors.unwrap_or_default().trim(),
    )?;
    for interface in interfaces() {
        fs::create_dir_all(hardware.join("net").join(&interface))?;
    }
    for number in 1..=attributes.ports {
        port_files(&own.join("ports").join(number.to_string()), device, number)?;
    }
    Ok(())
}

fn port_files(folder: &Path, device: &Device, number: u8) -> io::Result<()> {
    let port = device
        .port(number)
        .map_err(|error| io::Error::other(error.to_string()))?;
    file(&folder.join("state"), "4: ACTIVE")?;
    file(&folder.join("phys_state"), "5: LinkUp")?;
    file(&folder.join("rate"), "200 Gb/sec (4X HDR)")?;
    file(&folder.join("link_layer"), layer(port.link_layer))?;
    file(&folder.join("lid"), &format!("{:#x}", port.lid))?;
    file(
        &folder.join("lid_mask_count"),
        &port.lid_mask_bits.to_string(),
    )?;
    file(
        &folder.join("sm_lid"),
        &format!("{:#x}", port.subnet_manager_lid),
    )?;
    file(
        &folder.join("sm_sl"),
        &port.subnet_manager_service_level.to_string(),
    )?;
    file(
        &folder.join("cap_mask"),
        &format!("{:#010x}", port.capability_flags),
    )?;
    file(&folder.join("pkeys/0"), "0xffff")?;
    let interface = interfaces().into_iter().next().unwrap_or_default();
    for entry in device.gids() {
        let index = entry.index.to_string();
        file(&folder.join("gids").join(&index), &gid(entry.gid))?;
        let kind = match entry.kind {
            GidType::InfiniBand => "IB/RoCE v1",
            GidType::RoceV2 => "RoCE v2",
        };
        file(&folder.join("gid_attrs/types").join(&index), kind)?;
        file(&folder.join("gid_attrs/ndevs").join(&index), &interface)?;
    }
    for counter in [
        "port_xmit_data",
        "port_rcv_data",
        "port_xmit_packets",
        "port_rcv_packets",
    ] {
        file(&folder.join("counters").join(counter), "0")?;
    }
    Ok(())
}

/// The network interfaces of this machine: the one of loopback first, which every machine has.
fn interfaces() -> Vec<String> {
    let entries = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by_key(|name| (name != "lo", name.clone()));
    if names.is_empty() {
        names.push("lo".to_owned());
    }
    names
}

fn layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
    }
}

/// Four groups of four digits, as sysfs writes it.
fn guid(bytes: [u8; 8]) -> String {
    groups(&bytes)
}

/// Eight groups of four digits.
fn gid(bytes: [u8; 16]) -> String {
    groups(&bytes)
}

fn groups(bytes: &[u8]) -> String {
    let group = |pair: &[u8]| {
        pair.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    bytes.chunks(2).map(group).collect::<Vec<_>>().join(":")
}

fn describe(text: &mut String, device: &Device) -> io::Result<()> {
    let attributes = device.attributes();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}  {}, GUID {}, version {}",
        device.name(),
        device.character_device_name(),
        guid(attributes.node_guid),
        attributes.firmware_version
    );
    for number in 1..=attributes.ports {
        let port = device
            .port(number)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let lid = match port.link_layer {
            LinkLayer::InfiniBand => format!(", LID {}", port.lid),
            LinkLayer::Ethernet => String::new(),
        };
        let _ = writeln!(
            text,
            "  port {number}  active, {}, MTU {}{lid}",
            layer(port.link_layer),
            port.active_mtu.bytes()
        );
        for entry in device.gids() {
            let address = Ipv6Addr::from(entry.gid);
            let address = address
                .to_ipv4_mapped()
                .map_or_else(|| address.to_string(), |address| address.to_string());
            let _ = writeln!(
                text,
                "    GID {}  {}  {address}",
                entry.index,
                gid(entry.gid)
            );
        }
    }
    Ok(())
}
