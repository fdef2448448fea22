//! The names under which programs of the time open their NIC.

use viaduct_provider::{Error, ReturnCode};

/// Names that open the local NIC: hard-coded in programs, or their default.
const ALIASES: &[&str] = &[
    // VI-GM
    "VINIC",
    "VINIC0",
    // Giganet cLAN
    "nic0",
    "/dev/clanvi0",
    // M-VIA
    "/dev/via_lo",
    "/dev/via_eth0",
    "/dev/via_eth1",
];

/// More such names, with commas between them.
const ALIASES_VARIABLE: &str = "VIADUCT_VIPL_DEVICES";

/// What names have before the number of a NIC.
const NUMBERED: &[&str] = &["VINIC", "nic", "/dev/clanvi", "/dev/via_eth"];

/// The number of the NIC that a name has, where a host may have several.
pub(crate) fn numbered(name: &str) -> Option<u32> {
    let digits = NUMBERED.iter().find_map(|start| name.strip_prefix(start))?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// The fabric's name for the device that a program asks for: any name that is no alias is the
/// fabric's to know.
pub(crate) fn fabric_device<'a>(name: &'a str, local: &'static str) -> &'a str {
    let more = std::env::var(ALIASES_VARIABLE).unwrap_or_default();
    if is_alias(name, &more) { local } else { name }
}

/// What a program is told that asks for a device which is none, in place of the fabric's words.
pub(crate) fn refusal(name: &str, error: Error) -> Error {
    if error.code() != ReturnCode::InvalidParameter {
        return error;
    }
    Error::new(
        error.code(),
        format!(
            "{error}; {} open the local NIC, too, and names that {ALIASES_VARIABLE} lists: \
             {ALIASES_VARIABLE}={name}",
            ALIASES.join(", ")
        ),
    )
}

fn is_alias(name: &str, more: &str) -> bool {
    !name.is_empty() && (ALIASES.contains(&name) || more.split(',').any(|alias| alias == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_time_open_the_local_nic() {
        for name in ["VINIC", "VINIC0", "nic0", "/dev/clanvi0", "/dev/via_eth0"] {
            assert_eq!(fabric_device(name, "local"), "local");
        }
        for name in ["", "VINIC1", "nic", "vinic", "/dev/null"] {
            assert_eq!(fabric_device(name, "local"), name);
        }
    }

    #[test]
    fn names_of_the_time_have_numbers() {
        for (name, number) in [
            ("VINIC0", 0),
            ("VINIC1", 1),
            ("nic12", 12),
            ("/dev/via_eth3", 3),
        ] {
            assert_eq!(numbered(name), Some(number));
        }
        for name in [
            "",
            "VINIC",
            "vinic1",
            "nic+1",
            "nic1x",
            "sim1",
            "/dev/via_lo",
        ] {
            assert_eq!(numbered(name), None, "{name}");
        }
    }

    #[test]
    fn the_user_adds_names() {
        assert!(is_alias("/dev/vi7", "vi0,/dev/vi7"));
        assert!(!is_alias("/dev/vi", "vi0,/dev/vi7"));
        assert!(!is_alias("", ""));
    }
}
