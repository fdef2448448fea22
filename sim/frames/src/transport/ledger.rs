//! What an observer of all interfaces writes down, and what must be true of it at every moment.

use super::{Output, ReturnReason};

/// How a message ended for its sender.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum End {
    Completed,
    Returned(ReturnReason, bool),
    Released,
    /// The sender rebooted: its messages are gone with it.
    Forgotten,
}

#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Record {
    pub(super) writes: u8,
    pub(super) end: Option<End>,
}

/// One record a message, by token.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Ledger(pub(super) Vec<Record>);

impl Ledger {
    pub(super) fn begin(&mut self) -> u32 {
        self.0.push(Record::default());
        self.0.len() as u32 - 1
    }

    /// The message was written in its destination's queue.
    pub(super) fn write(&mut self, token: u32) {
        let record = &mut self.0[token as usize];
        record.writes += 1;
        assert!(record.writes == 1, "message {token} is written twice");
        match record.end {
            None | Some(End::Forgotten | End::Returned(_, true)) => {}
            Some(end) => panic!("message {token} is written after it ended: {end:?}"),
        }
    }

    /// The transport told its caller something.
    pub(super) fn hear(&mut self, output: Output) {
        let (token, end) = match output {
            Output::Completed { token } => (token, End::Completed),
            Output::Released { token } => (token, End::Released),
            Output::Returned {
                token,
                reason,
                may_have_arrived,
            } => (token, End::Returned(reason, may_have_arrived)),
            Output::Transmit { .. } | Output::ChannelFree(_) => return,
        };
        let record = &mut self.0[token as usize];
        assert_eq!(record.end, None, "message {token} ends again: {end:?}");
        record.end = Some(end);
        match end {
            End::Completed => assert_eq!(record.writes, 1, "message {token} was not written"),
            End::Released | End::Returned(_, false) => {
                assert_eq!(record.writes, 0, "message {token} was written, yet {end:?}");
            }
            End::Returned(..) | End::Forgotten => {}
        }
    }

    pub(super) fn forget(&mut self, token: u32) {
        self.0[token as usize].end.get_or_insert(End::Forgotten);
    }

    pub(super) fn unfinished(&self) -> Vec<usize> {
        let open = |token: &usize| self.0[*token].end.is_none();
        (0..self.0.len()).filter(open).collect()
    }
}
