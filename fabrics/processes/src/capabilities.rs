//! Rights that a file gives to whoever runs it.

use std::path::Path;

/// Whether a program has capabilities, as `setcap` gives them. The loader ignores what the
/// environment says when one is run, unless root runs it, who has them anyway.
pub fn are_given_by(program: &Path) -> bool {
    let mut found = [0_u8; 64];
    let length = rustix::fs::getxattr(program, "security.capability", &mut found);
    length.is_ok_and(|length| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_capabilities_gives_none() {
        assert!(!are_given_by(Path::new("/proc/self/exe")));
        assert!(!are_given_by(Path::new("/no/such/file")));
    }

    #[test]
    fn a_file_with_capabilities_gives_them() {
        let path = std::env::temp_dir().join(format!("viaduct-capable-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        // Version 2: CAP_NET_RAW, effective.
        let words = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes);
        let flags = rustix::fs::XattrFlags::empty();
        let set = rustix::fs::setxattr(&path, "security.capability", words.as_flattened(), flags);
        let are_given = are_given_by(&path);
        std::fs::remove_file(&path).unwrap();
        // Only root may give them, and some file systems keep none.
        assert_eq!(are_given, set.is_ok());
    }
}
