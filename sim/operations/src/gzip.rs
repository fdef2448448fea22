//! Files by gzip.

use std::io::{self, Read as _};

use flate2::bufread::MultiGzDecoder;

/// The first bytes of such a file.
pub(crate) const FIRST: [u8; 2] = [0x1f, 0x8b];

/// Why one cannot be read.
pub(crate) fn problem(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file by gzip ends too early".to_owned(),
        _ => format!("it cannot be read: {error}"),
    }
}

/// What is packed in a file by gzip, of at most so many bytes; another file as it is.
///
/// # Errors
///
/// What is wrong with the file.
pub fn unpacked(file: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, String> {
    if !file.starts_with(&FIRST) {
        return Ok(file);
    }
    let mut plain = Vec::new();
    MultiGzDecoder::new(&*file)
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut plain)
        .map_err(|error| problem(&error))?;
    match plain.len() > bytes_max {
        true => Err(format!("unpacked it is longer than {bytes_max} B")),
        false => Ok(plain),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_file_that_is_cut_broken_or_too_long_is_told() {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(b"0 init\n0 finalize\n").unwrap();
        let packed = writer.finish().unwrap();
        assert_eq!(
            unpacked(packed.clone(), 18).unwrap(),
            b"0 init\n0 finalize\n"
        );
        assert_eq!(unpacked(b"0 init\n".to_vec(), 1).unwrap(), b"0 init\n");
        let problem = |file: &[u8]| unpacked(file.to_vec(), 17).unwrap_err();
        assert_eq!(problem(&packed), "unpacked it is longer than 17 B");
        for cut in [2, 12, packed.len() - 1] {
            let problem = unpacked(packed[..cut].to_vec(), 18).unwrap_err();
            assert_eq!(problem, "the file by gzip ends too early", "{cut}");
        }
        let mut broken = packed;
        let last = broken.len() - 1;
        broken[last] ^= 1;
        let problem = unpacked(broken, 18).unwrap_err();
        assert!(problem.starts_with("it cannot be read: "), "{problem}");
    }
}
