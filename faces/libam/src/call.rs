//! What every function does around its body: no panic crosses, a refusal becomes a code.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::Code;

/// Why a call is refused: a code, and what to do instead.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: Code,
    text: Cow<'static, str>,
}

impl Refused {
    #[cold]
    pub(crate) fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    pub(crate) fn limit(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Limit, text)
    }

    pub(crate) fn state(text: &'static str) -> Self {
        Self::new(Code::State, text)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Refused>;

/// Runs the body of a function that handlers may call, too.
#[inline]
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<()>) -> Code {
    let body = || {
        check_fork()?;
        body()
    };
    // What a panic may leave half done is the endpoint's that it happened in.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Code::Ok,
        Ok(Err(refused)) => remember(function, refused),
        Err(payload) => panicked(function, payload),
    }
}

/// Runs the body of a function that handlers must not call.
#[inline]
pub(crate) fn call_outside(function: &'static str, body: impl FnOnce() -> Result<()>) -> Code {
    call(function, || {
        if IN_HANDLER.with(Cell::get) {
            let text = "a handler calls it: note what is to be done, and do it after the poll";
            return Err(Refused::new(Code::InHandler, text));
        }
        body()
    })
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    /// What failed last, put into words when it is asked for.
    static LAST: RefCell<Option<(&'static str, Refused)>> = const { RefCell::new(None) };
    static LAST_TEXT: RefCell<CString> = RefCell::default();
}

/// While it lives, this thread runs a handler of the program's.
pub(crate) struct InHandler(());

impl InHandler {
    #[inline]
    pub(crate) fn enter() -> Self {
        IN_HANDLER.with(|flag| flag.set(true));
        Self(())
    }
}

impl Drop for InHandler {
    #[inline]
    fn drop(&mut self) {
        IN_HANDLER.with(|flag| flag.set(false));
    }
}

#[cold]
fn remember(function: &'static str, refused: Refused) -> Code {
    let code = refused.code;
    // A thread that ends has no place for it any more.
    let _ = LAST.try_with(|last| last.replace(Some((function, refused))));
    code
}

#[cold]
fn panicked(function: &'static str, payload: Box<dyn Any + Send>) -> Code {
    let text = (payload.downcast_ref::<&str>().copied())
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let text = format!("a mistake in the library, please report it: {text}");
    let _ = writeln!(std::io::stderr(), "libam: {function}: {text}");
    remember(function, Refused::new(Code::Internal, text))
}

/// The text of `am_error_detail`.
pub(crate) fn detail() -> *const c_char {
    let text = LAST.try_with(|last| match &*last.borrow() {
        Some((function, refused)) => format!("{function}: {}", refused.text),
        None => "no call of this thread has failed".to_owned(),
    });
    let Ok(text) = text else {
        return c"no call of this thread has failed".as_ptr();
    };
    let mut bytes = text.into_bytes();
    bytes.retain(|byte| *byte != 0);
    let text = CString::new(bytes).unwrap_or_default();
    let kept = LAST_TEXT.try_with(|last| {
        // The same text keeps its place, so that two looks at one failure give one pointer.
        if *last.borrow() != text {
            last.replace(text);
        }
        last.borrow().as_ptr()
    });
    kept.unwrap_or(c"no call of this thread has failed".as_ptr())
}

/// Whether this process is a child of one that had opened a station.
static IS_FORKED: AtomicBool = AtomicBool::new(false);

#[inline]
fn check_fork() -> Result<()> {
    // Relaxed: the child's one thread has set it itself.
    if IS_FORKED.load(Ordering::Relaxed) {
        let text = "this process was forked after am_open, and has none of the library's threads: \
                    fork first, then open";
        return Err(Refused::new(Code::Forked, text));
    }
    Ok(())
}

/// Has children of fork() know what they are.
pub(crate) fn watch_forks() -> Result<()> {
    unsafe extern "C" fn forked() {
        IS_FORKED.store(true, Ordering::Relaxed);
    }
    static WATCHES: Once = Once::new();
    let mut outcome = 0;
    WATCHES.call_once(|| {
        // SAFETY: the function only stores, and stays as long as the process.
        outcome = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    if outcome == 0 {
        Ok(())
    } else {
        Err(Refused::new(Code::Resource, "no memory to watch for forks"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn detail_text() -> String {
        // SAFETY: the text stays until the next call of this thread fails.
        let text = unsafe { CStr::from_ptr(detail()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_a_detail() {
        assert_eq!(call("am_test", || panic!("on\0 purpose")), Code::Internal);
        let text = detail_text();
        assert!(text.starts_with("am_test: ") && text.ends_with("on purpose"));
    }

    #[test]
    fn a_detail_is_of_the_thread_that_failed() {
        let refuse = || call("am_test", || Err(Refused::limit("here")));
        assert_eq!(refuse(), Code::Limit);
        let other = std::thread::spawn(detail_text).join().unwrap();
        assert_eq!(other, "no call of this thread has failed");
        assert_eq!(detail_text(), "am_test: here");
    }

    #[test]
    fn what_handlers_must_not_call_is_refused_in_one_only() {
        let calls = || call_outside("am_test", || Ok(()));
        assert_eq!(calls(), Code::Ok);
        let running = InHandler::enter();
        assert_eq!(calls(), Code::InHandler);
        drop(running);
        assert_eq!(calls(), Code::Ok);
    }
}
