//! Where a notify handler leaves what it was called with, for a future or a thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Holds one thing of one handler.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    state: Mutex<Mail<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Mail<T> {
    contents: Contents<T>,
    waker: Option<Waker>,
    /// Threads in `wait`.
    sleepers: u32,
}

#[derive(Debug)]
enum Contents<T> {
    /// The handler has not been called.
    Awaited,
    /// It has.
    Arrived(T),
    /// It was dropped by the fabric and never will be.
    Abandoned,
}

/// How the handler ended.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Delivery<T> {
    /// Called with this.
    Arrived(T),
    /// Dropped.
    Abandoned,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(Mail {
                contents: Contents::Awaited,
                waker: None,
                sleepers: 0,
            }),
            arrived: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        // Nothing panics under the lock but a waker's clone, which leaves the state whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has arrived.
    pub(crate) fn take(&self) -> Option<Delivery<T>> {
        self.lock().take()
    }

    /// Takes what has arrived, or remembers whom to wake.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Delivery<T>> {
        let mut state = self.lock();
        if let Some(delivery) = state.take() {
            return Poll::Ready(delivery);
        }
        match &mut state.waker {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Sleeps until something arrives; `None` when the time is over.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<Delivery<T>> {
        let mut state = self.lock();
        state.sleepers += 1;
        let is_awaited = |state: &mut Mail<T>| matches!(state.contents, Contents::Awaited);
        state = match limit {
            Some(limit) => {
                let waited = self.arrived.wait_timeout_while(state, limit, is_awaited);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.arrived.wait_while(state, is_awaited);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.sleepers -= 1;
        state.take()
    }

    fn put(&self, contents: Contents<T>) {
        let mut state = self.lock();
        state.contents = contents;
        let waker = state.waker.take();
        let has_sleepers = state.sleepers > 0;
        drop(state);
        // A system call: only for somebody who sleeps.
        if has_sleepers {
            self.arrived.notify_all();
        }
        // Outside the lock: a waker may poll at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Mail<T> {
    fn take(&mut self) -> Option<Delivery<T>> {
        match std::mem::replace(&mut self.contents, Contents::Awaited) {
            Contents::Awaited => None,
            Contents::Arrived(thing) => Some(Delivery::Arrived(thing)),
            Contents::Abandoned => Some(Delivery::Abandoned),
        }
    }
}

/// The handler's end: delivers once, or tells that it was dropped.
#[derive(Debug)]
pub(crate) struct Courier<T>(Option<Arc<Mailbox<T>>>);

impl<T> Courier<T> {
    pub(crate) fn to(mailbox: &Arc<Mailbox<T>>) -> Self {
        Self(Some(Arc::clone(mailbox)))
    }

    pub(crate) fn deliver(mut self, thing: T) {
        if let Some(mailbox) = self.0.take() {
            mailbox.put(Contents::Arrived(thing));
        }
    }
}

impl<T> Drop for Courier<T> {
    fn drop(&mut self) {
        if let Some(mailbox) = self.0.take() {
            mailbox.put(Contents::Abandoned);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_delivery_wakes_the_one_who_polled_last() {
        let mailbox = Mailbox::new();
        let counts = [Arc::new(Count::default()), Arc::new(Count::default())];
        for count in &counts {
            let waker = Waker::from(Arc::clone(count));
            assert!(mailbox.poll(&Context::from_waker(&waker)).is_pending());
        }
        Courier::to(&mailbox).deliver(5);
        assert_eq!(counts[0].0.load(Ordering::SeqCst), 0);
        assert_eq!(counts[1].0.load(Ordering::SeqCst), 1);
        assert_eq!(mailbox.take(), Some(Delivery::Arrived(5)));
        assert_eq!(mailbox.take(), None);
    }

    #[test]
    fn a_dropped_handler_is_noticed() {
        let mailbox = Mailbox::<u32>::new();
        drop(Courier::to(&mailbox));
        assert_eq!(mailbox.wait(None), Some(Delivery::Abandoned));
    }

    #[test]
    fn a_thread_is_woken_or_gives_up() {
        let mailbox = Mailbox::new();
        assert_eq!(mailbox.wait(Some(Duration::from_millis(1))), None);
        let courier = Courier::to(&mailbox);
        let thread = thread::spawn(move || courier.deliver(1));
        assert_eq!(mailbox.wait(None), Some(Delivery::Arrived(1)));
        thread.join().unwrap();
    }
}
