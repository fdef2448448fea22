//! The name service: which hosts there are and what they are called.
//!
//! All processes of a machine share one host. Its address is made from the identity of the running
//! system, so that containers on it have the same. Other names can be given in a file that the
//! environment variable `VIADUCT_HOSTS` names:
//!
//! ```text
//! # address      names
//! 02:5e:10:00:00:01  storage storage.example
//! 025e10000002       backup
//! ```

use std::fs;
use std::path::Path;

use viaduct_provider::via::HostAddress;
use viaduct_provider::{Error, Result, ReturnCode};

/// Names and addresses, in the order in which they are found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Names {
    entries: Vec<(String, HostAddress)>,
}

impl Names {
    /// This host, and the file that `VIADUCT_HOSTS` names.
    ///
    /// # Errors
    ///
    /// `NameService` for a file that cannot be read or has a line that makes no sense.
    pub(crate) fn from_environment() -> Result<Self> {
        let mut names = Self::own(
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .as_ref(),
        );
        if let Some(path) = std::env::var_os("VIADUCT_HOSTS") {
            names.add_file(Path::new(&path))?;
        }
        Ok(names)
    }

    /// This host, called `node`, its first part, and `localhost`.
    fn own(node: &str) -> Self {
        let address = own_address();
        let mut entries = Vec::new();
        let short = node.split('.').next().unwrap_or(node);
        for name in [node, short, "localhost"] {
            let entry = (name.to_owned(), address);
            if !name.is_empty() && !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        Self { entries }
    }

    fn add_file(&mut self, path: &Path) -> Result<()> {
        let failed = |reason: String| Error::new(ReturnCode::NameService, reason);
        let text = fs::read_to_string(path).map_err(|error| {
            failed(format!(
                "VIADUCT_HOSTS names {}, which cannot be read: {error}",
                path.display()
            ))
        })?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next() else {
                continue;
            };
            let address = parse_address(address).ok_or_else(|| {
                failed(format!(
                    "{}:{}: `{address}` is no host address: write 12 hexadecimal digits, not all 0",
                    path.display(),
                    number + 1
                ))
            })?;
            self.entries
                .extend(words.map(|name| (name.to_owned(), address)));
        }
        Ok(())
    }

    /// The `index`th address of a name. Letter case is ignored.
    ///
    /// # Errors
    ///
    /// `NameService` for an unknown name or an index past the last.
    pub(crate) fn host_by_name(&self, name: &str, index: u32) -> Result<HostAddress> {
        let mut addresses = Vec::new();
        for (known, address) in &self.entries {
            if known.eq_ignore_ascii_case(name) && !addresses.contains(address) {
                addresses.push(*address);
            }
        }
        addresses.get(index as usize).copied().ok_or_else(|| {
            let reason = match addresses.len() {
                0 => format!("no host is called `{name}`: add it to the file VIADUCT_HOSTS names"),
                count => format!("host `{name}` has {count} addresses: index {index} is too high"),
            };
            Error::new(ReturnCode::NameService, reason)
        })
    }

    /// The first name of an address.
    ///
    /// # Errors
    ///
    /// `NameService` for an unknown address.
    pub(crate) fn host_by_address(&self, address: HostAddress) -> Result<String> {
        let mut entries = self.entries.iter();
        entries
            .find(|(_, known)| *known == address)
            .map(|(name, _)| name.clone())
            .ok_or_else(|| {
                let reason = format!("no host has the address {:012x}", address.get());
                Error::new(ReturnCode::NameService, reason)
            })
    }
}

/// The address of this machine: 48 bits, never 0, the same in all its processes and containers.
pub(crate) fn own_address() -> HostAddress {
    // The kernel's own number first: containers have machine ids of their own.
    let identity = ["/proc/sys/kernel/random/boot_id", "/etc/machine-id"]
        .iter()
        .find_map(|path| fs::read(path).ok().filter(|bytes| !bytes.is_empty()))
        .unwrap_or_else(|| rustix::system::uname().nodename().to_bytes().to_vec());
    let [low, _] = crate::rendezvous::digest(&[&identity]);
    let address = low & ((1 << 48) - 1);
    HostAddress::new(address.max(1))
}

fn parse_address(word: &str) -> Option<HostAddress> {
    let digits: String = word.chars().filter(|c| *c != ':').collect();
    if digits.len() != 12 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match u64::from_str_radix(&digits, 16) {
        Ok(0) | Err(_) => None,
        Ok(address) => Some(HostAddress::new(address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_host_is_found_by_its_names_and_back() {
        let names = Names::own("node.example.org");
        for name in ["node.example.org", "node", "localhost", "NODE"] {
            assert_eq!(names.host_by_name(name, 0).unwrap(), own_address());
            let past = names.host_by_name(name, 1).unwrap_err();
            assert_eq!(past.code(), ReturnCode::NameService);
        }
        assert_eq!(
            names.host_by_address(own_address()).unwrap(),
            "node.example.org"
        );
        assert!(names.host_by_name("other", 0).is_err());
        assert!(names.host_by_address(HostAddress::new(0)).is_err());
    }

    #[test]
    fn the_own_address_has_48_bits_and_is_not_zero() {
        let address = own_address();
        assert_eq!(address, own_address());
        assert!(address.get() > 0 && address.get() < 1 << 48);
    }

    #[test]
    fn a_file_adds_hosts_with_several_addresses() {
        let directory = std::env::temp_dir().join(format!("viaduct-names-{}", std::process::id()));
        let file = directory.join("hosts");
        fs::create_dir_all(&directory).unwrap();
        fs::write(
            &file,
            "# hosts\n02:5e:10:00:00:01 storage s1 # both\n025e10000002 storage\n\n",
        )
        .unwrap();
        let mut names = Names::own("node");
        names.add_file(&file).unwrap();
        let first = HostAddress::new(0x025e_1000_0001);
        assert_eq!(names.host_by_name("storage", 0).unwrap(), first);
        assert_eq!(
            names.host_by_name("storage", 1).unwrap().get(),
            0x025e_1000_0002
        );
        assert!(names.host_by_name("storage", 2).is_err());
        assert_eq!(names.host_by_address(first).unwrap(), "storage");

        fs::write(&file, "good:address? storage\n").unwrap();
        let error = names.add_file(&file).unwrap_err();
        assert!(error.to_string().contains("hosts:1:"), "{error}");
        assert!(names.add_file(&directory.join("absent")).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
