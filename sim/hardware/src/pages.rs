//! Pages of buffers, as adapters translate them.

/// Buffers begin this many bytes into a page, behind the descriptor that names them.
///
/// A descriptor is 64 bytes at an address that is a multiple of 64.
pub const BUFFER_OFFSET_BYTES: u64 = 64;

/// How often a buffer of `bytes` crosses into its next page.
#[must_use]
pub fn page_crossings(bytes: u32, page_bytes: u32) -> u32 {
    if page_bytes == 0 || bytes == 0 {
        return 0;
    }
    let last = BUFFER_OFFSET_BYTES % u64::from(page_bytes) + u64::from(bytes) - 1;
    (last / u64::from(page_bytes)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_count_from_behind_the_descriptor() {
        assert_eq!(page_crossings(0, 4096), 0);
        assert_eq!(page_crossings(4032, 4096), 0);
        assert_eq!(page_crossings(4033, 4096), 1);
        assert_eq!(page_crossings(65_519, 4096), 16);
        assert_eq!(page_crossings(65_519, 0), 0);
    }
}
