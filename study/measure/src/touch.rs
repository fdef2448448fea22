//! Writing a whole message and reading all of it, as an application does.

/// Writes `value` into every word, and its bytes into what is left.
#[inline]
pub(crate) fn fill(bytes: &mut [u8], value: u64) {
    let pattern = value.to_ne_bytes();
    let (words, rest) = bytes.as_chunks_mut::<8>();
    words.fill(pattern);
    rest.copy_from_slice(&pattern[..rest.len()]);
}

/// Reads every byte; whether all are as [`fill`] left them.
#[inline]
pub(crate) fn is_filled(bytes: &[u8], value: u64) -> bool {
    let pattern = value.to_ne_bytes();
    let (words, rest) = bytes.as_chunks::<8>();
    // No early end: every byte is read, and the loop is one of wide instructions.
    let difference = words
        .iter()
        .fold(0, |sum, word| sum | (u64::from_ne_bytes(*word) ^ value));
    difference == 0 && *rest == pattern[..rest.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts() {
        for length in [0, 1, 7, 8, 9, 64, 1000] {
            let mut bytes = vec![0; length];
            fill(&mut bytes, 0x0123_4567_89AB_CDEF);
            assert!(is_filled(&bytes, 0x0123_4567_89AB_CDEF));
            for index in 0..length {
                bytes[index] ^= 0x10;
                assert!(
                    !is_filled(&bytes, 0x0123_4567_89AB_CDEF),
                    "{length} {index}"
                );
                bytes[index] ^= 0x10;
            }
        }
    }
}
