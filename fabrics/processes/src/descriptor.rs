//! Descriptors of other processes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

/// One of our own for what another process has under a number. The system asks for the same rights
/// as for copies of its memory ([`crate::cma`]).
///
/// # Errors
///
/// What the system says; `InvalidInput` for numbers that nothing can have.
pub fn duplicate(process: i32, number: u32) -> io::Result<OwnedFd> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let process = Some(process).filter(|process| *process > 0);
    let process = process.and_then(Pid::from_raw).ok_or_else(invalid)?;
    let number = i32::try_from(number).map_err(|_| invalid())?;
    let process = rustix::process::pidfd_open(process, PidfdFlags::empty())?;
    let found = rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty())?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_number_names_is_the_same() {
        let (near, far) = rustix::pipe::pipe().unwrap();
        let process = std::process::id() as i32;
        let number = std::os::fd::AsRawFd::as_raw_fd(&far) as u32;
        let own = duplicate(process, number).unwrap();
        drop(far);
        rustix::io::write(&own, b"x").unwrap();
        drop(own);
        let mut bytes = [0; 2];
        assert_eq!(rustix::io::read(&near, &mut bytes).unwrap(), 1);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let process = std::process::id() as i32;
        assert!(duplicate(process, i32::MAX as u32).is_err());
        assert!(duplicate(process, u32::MAX).is_err());
        assert!(duplicate(0, 0).is_err());
        assert!(duplicate(-1, 0).is_err());
    }
}
