//! The cases, by subject. A case's number is that of vipl.md section 18; from 81 on they are this
//! suite's own.

mod completion;
mod completion_load;
mod connect;
mod disconnect;
mod errors;
mod extensions;
mod habits;
mod harm;
mod levels;
mod looking;
mod malformed;
mod nic;
mod notify;
mod objects;
mod overlong;
mod peer;
mod rdma;
mod refused;
mod sizes;
mod transfer;

use crate::case::Case;

/// Every case, by number.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut all = [
        nic::CASES,
        objects::CASES,
        connect::CASES,
        transfer::CASES,
        looking::CASES,
        malformed::CASES,
        levels::CASES,
        overlong::CASES,
        disconnect::CASES,
        completion::CASES,
        completion_load::CASES,
        rdma::CASES,
        refused::CASES,
        errors::CASES,
        peer::CASES,
        notify::CASES,
        sizes::CASES,
        habits::CASES,
        extensions::CASES,
        harm::CASES,
    ]
    .concat();
    all.sort_by_key(|case| case.number);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_list_has_one_case() {
        let numbers: Vec<u16> = cases().iter().map(|case| case.number).collect();
        let twice: Vec<_> = numbers.windows(2).filter(|w| w[0] == w[1]).collect();
        assert!(twice.is_empty(), "numbers that come twice: {twice:?}");
        // 4 is about the C header and is checked where that is made.
        let missing: Vec<u16> = (1..=80)
            .filter(|number| *number != 4 && !numbers.contains(number))
            .collect();
        assert!(missing.is_empty(), "numbers without a case: {missing:?}");
    }
}
