//! A process's side, for whoever shares it.

use core::ffi::{CStr, c_void};
use std::sync::OnceLock;

use crate::seat::MESSAGE_BYTES_MAX;
use crate::table::{SYMBOL, Table, VERSION};
use crate::waited::Waited;

/// This process as a client. What it does is done for the thread that calls.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    table: &'static Table,
}

/// This process as a client, if a library in it has made it one; looked for once.
#[must_use]
pub fn client() -> Option<Client> {
    static FOUND: OnceLock<Option<Client>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name is a string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, SYMBOL.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: whoever defines this name gives it this type: `table::SYMBOL`.
        let symbol: extern "C" fn() -> *const Table = unsafe { core::mem::transmute(found) };
        // SAFETY: null, or a table that is never freed.
        let table = unsafe { symbol().as_ref() }?;
        (table.version == VERSION).then_some(Client { table })
    })
}

/// A function of a library in whose place something is simulated, until this is dropped: what it
/// takes the processor is no computing of the program's.
#[derive(Debug)]
pub struct InLibrary(Option<Client>);

impl InLibrary {
    /// At the beginning of the function.
    #[inline]
    #[must_use]
    pub fn enter() -> Self {
        let client = client();
        if let Some(client) = client {
            (client.table.enter)();
        }
        Self(client)
    }
}

impl Drop for InLibrary {
    #[inline]
    fn drop(&mut self) {
        if let Some(client) = self.0 {
            (client.table.leave)();
        }
    }
}

impl Client {
    pub(crate) const fn over(table: &'static Table) -> Self {
        Self { table }
    }

    /// The simulated host that this process runs on.
    #[must_use]
    pub fn host(&self) -> u32 {
        (self.table.host)()
    }

    /// This thread's clock, picoseconds from the start of the run. Reading it costs nothing.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.table.now)()
    }

    /// Before when this thread finds nothing in the world but what it has been told of: what it
    /// asks for before then need not be asked. 0: that is not known.
    #[must_use]
    pub fn quiet_until(&self) -> u64 {
        (self.table.quiet_until)()
    }

    /// Has this thread's clock go on. One that does nothing else gives the turn now and then.
    pub fn charge(&self, picoseconds: u64) {
        (self.table.charge)(picoseconds);
    }

    /// Returns when nothing else is before this thread's clock. Before what others may see, such as
    /// a write to a socket: those that wait for something real try again when the turn is given
    /// next.
    pub fn synchronise(&self) {
        (self.table.synchronise)();
    }

    /// Has others go on until this time, or until a signal's handler has run in this thread.
    pub fn sleep_until(&self, time: u64) {
        (self.table.sleep_until)(time);
    }

    /// Asks the world, and waits for its answer, which is put behind what `answer` has. `what`
    /// names the call to people. False: the world gave no answer until the caller's patience ended;
    /// nothing is put there.
    ///
    /// # Panics
    ///
    /// When the request is longer than [`MESSAGE_BYTES_MAX`].
    pub fn call(&self, what: &CStr, request: &[u8], answer: &mut Vec<u8>) -> bool {
        assert!(
            request.len() <= MESSAGE_BYTES_MAX,
            "a request of {} bytes",
            request.len()
        );
        unsafe extern "C" fn sink(context: *mut c_void, bytes: *const u8, length: usize) {
            // SAFETY: the context is the vector below.
            let answer = unsafe { &mut *context.cast::<Vec<u8>>() };
            // SAFETY: the callee passes bytes of its own.
            answer.extend_from_slice(unsafe { core::slice::from_raw_parts(bytes, length) });
        }
        let context = core::ptr::from_mut(answer).cast();
        // SAFETY: the strings and bytes are valid for the call, the sink is that of the context.
        unsafe {
            (self.table.call)(
                what.as_ptr(),
                request.as_ptr(),
                request.len(),
                sink,
                context,
            )
        }
    }

    /// Tells the world something at this thread's time, without an answer and without giving the
    /// turn: it is passed on when the turn is given next. What it costs is to be charged.
    ///
    /// # Panics
    ///
    /// When it is longer than half of [`MESSAGE_BYTES_MAX`].
    pub fn post(&self, request: &[u8]) {
        assert!(
            request.len() <= MESSAGE_BYTES_MAX / 2,
            "a post of {} bytes",
            request.len()
        );
        // SAFETY: the bytes are valid for the call.
        unsafe { (self.table.post)(request.as_ptr(), request.len()) };
    }

    /// Waits on something real, such as a socket: tries until it is not in vain, each time `waited`
    /// says so. None: the deadline, a simulated time, has come. The clock goes on to when the try
    /// was made. `what` names the wait to people.
    pub fn foreign<R>(
        &self,
        what: &CStr,
        waited: Waited<'_>,
        deadline: Option<u64>,
        mut try_again: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        self.synchronise();
        if let Some(result) = try_again() {
            return Some(result);
        }
        let deadline = deadline.unwrap_or(u64::MAX);
        let waited = waited.to_bytes();
        let mut again = false;
        loop {
            let (bytes, length) = (waited.as_ptr(), waited.len());
            let wait = self.table.foreign_wait;
            // SAFETY: the name is a string, the bytes live until the call returns.
            if !unsafe { wait(what.as_ptr(), deadline, again, bytes, length) } {
                return None;
            }
            again = true;
            if let Some(result) = try_again() {
                (self.table.foreign_end)();
                return Some(result);
            }
        }
    }
}
