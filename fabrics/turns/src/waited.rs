//! What a thread waits for that waits for something real.

use std::os::fd::RawFd;

/// Descriptors that one wait names at most: one for more waits for [`Waited::Anything`].
const DESCRIPTORS_MAX: usize = 1024;
/// A descriptor and its events.
const DESCRIPTOR_BYTES: usize = 6;

/// When a try may no longer be in vain.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waited<'a> {
    /// After whatever anybody has done.
    Anything,
    /// After what another thread of this process has done.
    Process,
    /// When one of these descriptors of this process has one of its events, as `poll` has them; or
    /// an error to tell.
    Descriptors(&'a [(RawFd, i16)]),
}

impl Waited<'_> {
    /// As a client tells its coordinator.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Process => vec![1],
            Self::Descriptors(list) if list.len() <= DESCRIPTORS_MAX => {
                let mut bytes = vec![2];
                for (descriptor, events) in list {
                    bytes.extend(descriptor.to_ne_bytes());
                    bytes.extend(events.to_ne_bytes());
                }
                bytes
            }
            Self::Anything | Self::Descriptors(_) => vec![0],
        }
    }
}

/// The same as its coordinator has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Told {
    Anything,
    Process,
    Descriptors(Vec<(RawFd, i16)>),
}

impl Told {
    /// What is not understood may be anything.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        match bytes.split_first() {
            Some((1, [])) => Self::Process,
            Some((2, list)) => {
                let (list, rest) = list.as_chunks::<DESCRIPTOR_BYTES>();
                if !rest.is_empty() || list.len() > DESCRIPTORS_MAX {
                    return Self::Anything;
                }
                let parse = |[a, b, c, d, e, f]: &[u8; DESCRIPTOR_BYTES]| {
                    let descriptor = RawFd::from_ne_bytes([*a, *b, *c, *d]);
                    (descriptor, i16::from_ne_bytes([*e, *f]))
                };
                Self::Descriptors(list.iter().map(parse).collect())
            }
            _ => Self::Anything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_arrives_and_nonsense_is_anything() {
        let told = |waited: Waited<'_>| Told::from_bytes(&waited.to_bytes());
        assert_eq!(told(Waited::Anything), Told::Anything);
        assert_eq!(told(Waited::Process), Told::Process);
        let list = [(3, 1), (-1, 5)];
        assert_eq!(
            told(Waited::Descriptors(&list)),
            Told::Descriptors(list.to_vec())
        );
        let many = vec![(3, 1); DESCRIPTORS_MAX + 1];
        assert_eq!(told(Waited::Descriptors(&many)), Told::Anything);
        let longer: Vec<u8> = [vec![2], vec![0; DESCRIPTOR_BYTES * many.len()]].concat();
        for bytes in [&[] as &[u8], &[3], &[1, 0], &[2, 0, 0, 0], &longer] {
            assert_eq!(Told::from_bytes(bytes), Told::Anything);
        }
    }
}
