//! Ctrl-C, SIGTERM, SIGHUP: the first stops the runs and shows what there is, the second ends the
//! program.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user has asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens to Ctrl-C, and to what asks a program to end, from here on.
    ///
    /// Where the system does not let us, Ctrl-C ends the program as it always does.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let asked = Arc::clone(&interrupt.asked);
        let _ = ctrlc::set_handler(move || {
            // Relaxed: the flag guards no other memory.
            if asked.swap(true, Ordering::Relaxed) {
                process::exit(130);
            }
        });
        interrupt
    }

    /// Whether the user has asked.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Why a measurement should end early.
    pub(crate) fn stop_reason(&self) -> Option<String> {
        self.is_asked().then(|| "stopped by Ctrl-C".to_owned())
    }
}
