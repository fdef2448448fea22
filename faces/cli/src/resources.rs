//! What the process has used.

use std::fs;

/// Most memory that the process has held, bytes; none where the system does not tell.
pub(crate) fn peak_rss_bytes() -> Option<u64> {
    peak_of(&fs::read_to_string("/proc/self/status").ok()?)
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_found() {
        assert_eq!(
            peak_of("Name:\tviaduct\nVmHWM:\t   17920 kB\nVmRSS:\t 100 kB\n"),
            Some(18_350_080)
        );
        assert_eq!(peak_of("Name:\tviaduct\n"), None);
    }
}
