//! What can be wrong with what the rules of verbs say.

use super::{Breakable, Errors};
use crate::verbs::check::PostError;
use crate::verbs::requester::{Again, Begin, EndsWhen, FlushedReceives, Turn};
use crate::verbs::responder::Failure;
use crate::verbs::transition::ModifyError;
use crate::verbs::{AsyncEventType, CompletionOpcode, CompletionStatus, QueuePairState};

/// The ways of what a rule says, by its type as the source writes it.
pub(super) fn ways(says: &str) -> Option<&'static [&'static str]> {
    Some(match says {
        "u32" => u32::WAYS,
        "Option<u8>" => <Option<u8>>::WAYS,
        "Option<u64>" => <Option<u64>>::WAYS,
        "QueuePairState" => QueuePairState::WAYS,
        "CompletionStatus" => CompletionStatus::WAYS,
        "CompletionOpcode" => CompletionOpcode::WAYS,
        "Option<AsyncEventType>" => <Option<AsyncEventType>>::WAYS,
        "Result<(), PostError>" => <Result<(), PostError>>::WAYS,
        "Result<QueuePairState, ModifyError>" => <Result<QueuePairState, ModifyError>>::WAYS,
        "Turn" => Turn::WAYS,
        "Begin" => Begin::WAYS,
        "EndsWhen" => EndsWhen::WAYS,
        "FlushedReceives" => FlushedReceives::WAYS,
        "Again" => Again::WAYS,
        "Failure" => Failure::WAYS,
        _ => return None,
    })
}

impl Breakable for u32 {
    const WAYS: &'static [&'static str] = &["none", "all"];

    fn broken(self, way: usize) -> Self {
        [0, Self::MAX][way]
    }
}

impl Breakable for Option<u64> {
    const WAYS: &'static [&'static str] = &["never", "at-once"];

    fn broken(self, way: usize) -> Self {
        [None, Some(0)][way]
    }
}

impl Breakable for Option<u8> {
    const WAYS: &'static [&'static str] = &["for-ever", "never"];

    fn broken(self, way: usize) -> Self {
        [None, Some(0)][way]
    }
}

impl Breakable for QueuePairState {
    const WAYS: &'static [&'static str] = &["elsewhere"];

    fn broken(self, _: usize) -> Self {
        match self {
            Self::Error => Self::ReadyToSend,
            _ => Self::Error,
        }
    }
}

impl Breakable for Result<QueuePairState, ModifyError> {
    const WAYS: &'static [&'static str] = &["refuses", "accepts", "elsewhere"];

    fn broken(self, way: usize) -> Self {
        match (way, self) {
            (0, Ok(_)) => Err(ModifyError::NoTransition),
            (1, Err(_)) => Ok(QueuePairState::Init),
            (2, Ok(state)) => Ok(state.broken(0)),
            (_, right) => right,
        }
    }
}

impl Errors for PostError {
    const TWO: [Self; 2] = [Self::State, Self::Opcode];
}

impl Breakable for CompletionStatus {
    const WAYS: &'static [&'static str] = &["success", "other-error"];

    fn broken(self, way: usize) -> Self {
        match (way, self) {
            (0, _) => Self::Success,
            (_, Self::LocalLengthError) => Self::GeneralError,
            _ => Self::LocalLengthError,
        }
    }
}

impl Breakable for CompletionOpcode {
    const WAYS: &'static [&'static str] = &["another"];

    fn broken(self, _: usize) -> Self {
        match self {
            Self::Send => Self::RdmaWrite,
            _ => Self::Send,
        }
    }
}

impl Breakable for Option<AsyncEventType> {
    const WAYS: &'static [&'static str] = &["nothing", "told"];

    fn broken(self, way: usize) -> Self {
        [None, Some(AsyncEventType::PathMigrated)][way]
    }
}

impl Breakable for Turn {
    const WAYS: &'static [&'static str] = &["begins", "waits", "flushed"];

    fn broken(self, way: usize) -> Self {
        [Self::Begins, Self::Waits, Self::IsFlushed][way]
    }
}

impl Breakable for Begin {
    const WAYS: &'static [&'static str] = &["now", "later", "fails"];

    fn broken(self, way: usize) -> Self {
        let fails = Self::Fails(CompletionStatus::GeneralError);
        [Self::Now, Self::Later, fails][way]
    }
}

impl Breakable for EndsWhen {
    const WAYS: &'static [&'static str] = &["handed-over", "acknowledged", "answered"];

    fn broken(self, way: usize) -> Self {
        [Self::HandedOver, Self::Acknowledged, Self::Answered][way]
    }
}

impl Breakable for FlushedReceives {
    const WAYS: &'static [&'static str] = &["none", "all"];

    fn broken(self, way: usize) -> Self {
        [Self::None, Self::All][way]
    }
}

impl Breakable for Again {
    const WAYS: &'static [&'static str] = &["at-once", "fails", "other-error"];

    fn broken(self, way: usize) -> Self {
        let fails = Self::Fails(CompletionStatus::GeneralError);
        match (way, self) {
            (0, _) => Self::After(0),
            (1, Self::After(_)) | (2, Self::Fails(_)) => fails,
            (_, right) => right,
        }
    }
}

/// Each field by itself.
impl Breakable for Failure {
    const WAYS: &'static [&'static str] = &["receive", "sender", "event", "fails"];

    fn broken(mut self, way: usize) -> Self {
        match way {
            0 => {
                self.receive = match self.receive {
                    Some(_) => None,
                    None => Some(CompletionStatus::GeneralError),
                }
            }
            1 => {
                self.sender = match self.sender {
                    Some(_) => None,
                    None => Some(CompletionStatus::GeneralError),
                }
            }
            2 => {
                self.event = match self.event {
                    Some(_) => None,
                    None => Some(AsyncEventType::QueuePairFatal),
                }
            }
            _ => self.fails = !self.fails,
        }
        self
    }
}
