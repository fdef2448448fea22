//! What is simulated, as the coordinator asks it.

/// A process that takes turns.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Process {
    /// The simulated host that it runs on.
    pub host: u32,
    /// Counts the processes of a run in order of creation; those that are there at its start, by
    /// host and rank.
    pub number: u32,
    /// Its number for the system.
    pub pid: i32,
}

/// A thread of it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Thread {
    /// Whose thread it is.
    pub process: Process,
    /// Counts the threads of the process in order of creation.
    pub number: u32,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The answer is there.
    Done {
        /// What the caller's clock goes on by.
        cost: u64,
    },
    /// [`World::ready`] will tell the answer.
    Waits {
        /// When the caller gives up, and has an empty answer; none: never.
        until: Option<u64>,
    },
}

/// What the coordinator runs its clients against. Times are picoseconds.
pub trait World {
    /// When anything can happen next by itself; none: never.
    fn next_event(&self) -> Option<u64>;

    /// Lets simulated time pass up to `until`, with what happens at that very time, or to the first
    /// instant at which a waiting call can be answered, memory of a client was written or one of
    /// their descriptors can be read. Returns the time reached.
    fn advance(&mut self, until: u64) -> u64;

    /// Before when a thread that has its turn, and whose clock shows `clock`, finds nothing more in
    /// the world than what it has been told of, if no other of its host makes a call; 0: that is
    /// not known.
    fn quiet_until(&self, _thread: Thread, _clock: u64) -> u64 {
        0
    }

    /// A thread makes a call at `now`: nothing that others do from here on is before it. The answer
    /// has at most [`crate::MESSAGE_BYTES_MAX`] bytes.
    fn call(&mut self, thread: Thread, now: u64, request: &[u8], answer: &mut Vec<u8>) -> Outcome;

    /// A thread made a call at `now` that has no answer ([`crate::Client::post`]), and has charged
    /// itself for it.
    fn post(&mut self, thread: Thread, now: u64, request: &[u8]) {
        self.call(thread, now, request, &mut Vec::new());
    }

    /// The next of the calls that waited and can be answered: whose, when its thread goes on, and
    /// the answer.
    fn ready(&mut self) -> Option<(Thread, u64, Vec<u8>)>;

    /// The next of the processes into whose memory something was written, since this was asked, at
    /// the time reached.
    fn written(&mut self) -> Option<Process> {
        None
    }

    /// Whether a descriptor of a client, which waits there as for something real
    /// ([`crate::Client::foreign`]), can be read at the time reached and could not when this was
    /// last asked.
    fn has_rung(&mut self) -> bool {
        false
    }

    /// The next host that has died by the time reached, since this was asked, and when: its
    /// processes are ended.
    fn died(&mut self) -> Option<(u32, u64)> {
        None
    }

    /// The waiting call of a thread was given up at `now`.
    fn gave_up(&mut self, _thread: Thread, _now: u64) {}

    /// A process has come.
    fn came(&mut self, _process: Process, _now: u64) {}

    /// A process has gone, by itself or killed, and waits for nothing any more.
    fn gone(&mut self, process: Process, now: u64);
}
