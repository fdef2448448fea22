//! Whether a peer runs under this process's user.

use std::fs;

/// Whether a user number, as the system tells it here, is this process's own.
///
/// In a user namespace every user without a number there is told as one and the same, the overflow
/// user. A process that has this number itself cannot tell such a stranger from its own user.
pub fn is_own(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
        && (uid != overflow_user() || every_user_has_a_number())
}

fn overflow_user() -> u32 {
    let told = fs::read_to_string("/proc/sys/kernel/overflowuid");
    told.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(OVERFLOW_USER)
}

fn every_user_has_a_number() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_every_user(&map))
}

/// Whether a map has a number for each user but -1, which is none.
fn maps_every_user(map: &str) -> bool {
    let counts = map
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    counts.sum::<u64>() == u64::from(u32::MAX)
}

/// What the kernel has unless it was told otherwise.
const OVERFLOW_USER: u32 = 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_all_is_told_from_others() {
        assert!(maps_every_user("         0          0 4294967295\n"));
        assert!(maps_every_user("0 5 10\n10 100 4294967285\n"));
        for map in ["", "0 0 1\n", "0 100000 65536\n", "0 0 x\n", "garbage"] {
            assert!(!maps_every_user(map), "{map:?}");
        }
    }
}
