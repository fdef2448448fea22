//! Which states of a queue pair may follow which, and which attributes each step takes.
//!
//! Source: the table `qp_state_table` of the kernel (`drivers/infiniband/core/verbs.c`), which is
//! that of the chapter about queue pair states of the InfiniBand specification; `ibv_modify_qp(3)`
//! lists the same attributes.

use super::flags::attribute::{
    ACCESS_FLAGS, ADDRESS, ALTERNATE_PATH, CURRENT_STATE, DESTINATION, MAX_DESTINATION_READ_ATOMIC,
    MAX_READ_ATOMIC, MIN_RECEIVER_NOT_READY_TIMER, PARTITION_KEY_INDEX, PATH_MIGRATION_STATE,
    PATH_MTU, PORT, QUEUE_KEY, RECEIVE_PACKET_NUMBER, RECEIVER_NOT_READY_RETRY, RETRY_COUNT,
    SEND_DRAINED_NOTIFY, SEND_PACKET_NUMBER, STATE, TIMEOUT,
};
use super::{QueuePairState, QueuePairType};

/// Attributes of a step.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Masks {
    /// Those that must be there.
    pub required: u32,
    /// Those that may be there.
    pub optional: u32,
}

/// Why a queue pair is not modified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ModifyError {
    /// There is no step between these states.
    NoTransition,
    /// These attributes are missing.
    Missing(u32),
    /// These attributes have no place in this step.
    Surplus(u32),
    /// It is not in the state that the caller takes it to be in.
    NotInState,
}

/// The attributes of the step between two states; none if there is no such step.
pub(super) fn masks(
    kind: QueuePairType,
    from: QueuePairState,
    to: QueuePairState,
) -> Option<Masks> {
    use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendDrained, SendError};
    use QueuePairType::{Rc, Uc, Ud};
    let masks = |required, optional| Some(Masks { required, optional });
    // What may be told whenever sends begin, or go on.
    let ready_to_send = match kind {
        Ud => CURRENT_STATE | QUEUE_KEY,
        Uc => CURRENT_STATE | ALTERNATE_PATH | ACCESS_FLAGS | PATH_MIGRATION_STATE,
        Rc => {
            CURRENT_STATE
                | ALTERNATE_PATH
                | ACCESS_FLAGS
                | MIN_RECEIVER_NOT_READY_TIMER
                | PATH_MIGRATION_STATE
        }
    };
    let initial = PARTITION_KEY_INDEX
        | PORT
        | match kind {
            Ud => QUEUE_KEY,
            Uc | Rc => ACCESS_FLAGS,
        };
    match (from, to) {
        (Reset, Error) => None,
        (_, Reset | Error) => masks(0, 0),
        (Reset, Init) => masks(initial, 0),
        (Init, Init) => masks(0, initial),
        (Init, ReadyToReceive) => match kind {
            Ud => masks(0, PARTITION_KEY_INDEX | QUEUE_KEY),
            Uc => masks(
                ADDRESS | PATH_MTU | DESTINATION | RECEIVE_PACKET_NUMBER,
                ALTERNATE_PATH | ACCESS_FLAGS | PARTITION_KEY_INDEX,
            ),
            Rc => masks(
                ADDRESS
                    | PATH_MTU
                    | DESTINATION
                    | RECEIVE_PACKET_NUMBER
                    | MAX_DESTINATION_READ_ATOMIC
                    | MIN_RECEIVER_NOT_READY_TIMER,
                ALTERNATE_PATH | ACCESS_FLAGS | PARTITION_KEY_INDEX,
            ),
        },
        (ReadyToReceive, ReadyToSend) => match kind {
            Ud | Uc => masks(SEND_PACKET_NUMBER, ready_to_send),
            Rc => masks(
                TIMEOUT
                    | RETRY_COUNT
                    | RECEIVER_NOT_READY_RETRY
                    | SEND_PACKET_NUMBER
                    | MAX_READ_ATOMIC,
                ready_to_send,
            ),
        },
        (ReadyToSend | SendDrained, ReadyToSend) => masks(0, ready_to_send),
        (ReadyToSend, SendDrained) => masks(0, SEND_DRAINED_NOTIFY),
        (SendDrained, SendDrained) => match kind {
            Ud => masks(0, PARTITION_KEY_INDEX | QUEUE_KEY),
            Uc => masks(
                0,
                ADDRESS
                    | ALTERNATE_PATH
                    | ACCESS_FLAGS
                    | PARTITION_KEY_INDEX
                    | PATH_MIGRATION_STATE,
            ),
            Rc => masks(
                0,
                PORT | ADDRESS
                    | TIMEOUT
                    | RETRY_COUNT
                    | RECEIVER_NOT_READY_RETRY
                    | MAX_READ_ATOMIC
                    | MAX_DESTINATION_READ_ATOMIC
                    | ALTERNATE_PATH
                    | ACCESS_FLAGS
                    | PARTITION_KEY_INDEX
                    | MIN_RECEIVER_NOT_READY_TIMER
                    | PATH_MIGRATION_STATE,
            ),
        },
        (SendError, ReadyToSend) => match kind {
            Ud => masks(0, CURRENT_STATE | QUEUE_KEY),
            Uc => masks(0, CURRENT_STATE | ACCESS_FLAGS),
            Rc => None,
        },
        _ => None,
    }
}

/// The state after a call that names these attributes.
///
/// # Errors
///
/// What is wrong with the call, which changes nothing then.
pub fn next(
    kind: QueuePairType,
    from: QueuePairState,
    mask: u32,
    wanted: QueuePairState,
    believed: QueuePairState,
) -> Result<QueuePairState, ModifyError> {
    rule!(next_state(kind, from, mask, wanted, believed))
}

fn next_state(
    kind: QueuePairType,
    from: QueuePairState,
    mask: u32,
    wanted: QueuePairState,
    believed: QueuePairState,
) -> Result<QueuePairState, ModifyError> {
    if mask & CURRENT_STATE != 0 && believed != from {
        return Err(ModifyError::NotInState);
    }
    let to = if mask & STATE == 0 { from } else { wanted };
    let masks = masks(kind, from, to).ok_or(ModifyError::NoTransition)?;
    let missing = masks.required & !mask;
    if missing != 0 {
        return Err(ModifyError::Missing(missing));
    }
    let surplus = mask & !(masks.required | masks.optional | STATE);
    if surplus != 0 {
        return Err(ModifyError::Surplus(surplus));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use QueuePairState::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendDrained, SendError};
    use QueuePairType::{Rc, Uc, Ud};

    const INIT: u32 = STATE | PARTITION_KEY_INDEX | PORT | ACCESS_FLAGS;

    /// `qp_state_table` of the kernel.
    #[test]
    fn a_queue_pair_comes_up_in_three_steps() {
        assert_eq!(next(Rc, Reset, INIT, Init, Reset), Ok(Init));
        let receive = STATE | ADDRESS | PATH_MTU | DESTINATION | RECEIVE_PACKET_NUMBER;
        let reliable = receive | MAX_DESTINATION_READ_ATOMIC | MIN_RECEIVER_NOT_READY_TIMER;
        assert_eq!(
            next(Uc, Init, receive, ReadyToReceive, Reset),
            Ok(ReadyToReceive)
        );
        assert_eq!(
            next(Rc, Init, reliable, ReadyToReceive, Reset),
            Ok(ReadyToReceive)
        );
        assert_eq!(
            next(Ud, Init, STATE, ReadyToReceive, Reset),
            Ok(ReadyToReceive)
        );
        let send = STATE | SEND_PACKET_NUMBER;
        assert_eq!(
            next(Ud, ReadyToReceive, send, ReadyToSend, Reset),
            Ok(ReadyToSend)
        );
        let reliable = send | TIMEOUT | RETRY_COUNT | RECEIVER_NOT_READY_RETRY | MAX_READ_ATOMIC;
        assert_eq!(
            next(Rc, ReadyToReceive, reliable, ReadyToSend, Reset),
            Ok(ReadyToSend)
        );
    }

    /// `ib_modify_qp_is_ok` of the kernel.
    #[test]
    fn attributes_that_are_missing_or_too_many_are_named() {
        let short = STATE | PARTITION_KEY_INDEX | PORT;
        assert_eq!(
            next(Rc, Reset, short, Init, Reset),
            Err(ModifyError::Missing(ACCESS_FLAGS))
        );
        let long = INIT | TIMEOUT;
        assert_eq!(
            next(Rc, Reset, long, Init, Reset),
            Err(ModifyError::Surplus(TIMEOUT))
        );
        let datagram = STATE | PARTITION_KEY_INDEX | PORT | QUEUE_KEY;
        assert_eq!(next(Ud, Reset, datagram, Init, Reset), Ok(Init));
        assert!(next(Ud, Reset, INIT, Init, Reset).is_err());
        let believed = STATE | CURRENT_STATE;
        let wrong = next(Rc, ReadyToSend, believed, ReadyToSend, ReadyToReceive);
        assert_eq!(wrong, Err(ModifyError::NotInState));
    }

    /// `qp_state_table` of the kernel.
    #[test]
    fn steps_that_skip_or_go_back_do_not_exist() {
        for kind in [Rc, Uc, Ud] {
            for (from, to) in [
                (Reset, ReadyToReceive),
                (Reset, ReadyToSend),
                (Reset, Error),
                (Init, ReadyToSend),
                (ReadyToReceive, Init),
                (ReadyToReceive, ReadyToReceive),
                (ReadyToSend, ReadyToReceive),
                (Error, Init),
                (Error, ReadyToSend),
                (SendError, SendDrained),
            ] {
                assert_eq!(masks(kind, from, to), None, "{kind:?} {from:?} {to:?}");
            }
            for from in [
                Init,
                ReadyToReceive,
                ReadyToSend,
                SendDrained,
                SendError,
                Error,
            ] {
                assert_eq!(masks(kind, from, Reset), Some(Masks::default()));
                assert_eq!(masks(kind, from, Error), Some(Masks::default()));
            }
        }
        assert_eq!(masks(Rc, SendError, ReadyToSend), None);
        assert!(masks(Ud, SendError, ReadyToSend).is_some());
    }
}
