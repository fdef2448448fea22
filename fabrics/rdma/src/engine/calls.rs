//! Calls that do more than ask the objects: they wait, or look after what is under way.

use std::time::{Duration, Instant};

use viaduct_core::verbs::notices::Looker;
use viaduct_core::verbs::{
    QueuePairAttributes, QueuePairState, QueuePairType, SendOpcode, SendRequest,
};

use super::*;
use crate::faults::Struck;
use crate::region::AddressHandle;
use crate::state::{OnRing, Payload};

pub(crate) fn open_context(device: Device) -> Result<Key> {
    fork::check()?;
    let engine = ENGINE.get_or_init(|| BiasedMutex::new(None));
    fork::watch();
    let mut guard = engine.lock();
    if guard.is_none() {
        *guard = Some(Engine::start()?);
    }
    let mut engine = Guard(guard);
    engine.objects.notices.open(device, Counter::new()?)
}

pub(crate) fn nothing_yet() -> Error {
    Error::new(libc::EAGAIN, "there is no event yet")
}

/// Waits until there is an event, for so long at most, unless the descriptor does not block. Its
/// counter is read by whoever takes the event, so that no two wait for one.
pub(crate) fn await_event<T>(
    descriptor: impl Fn() -> RawFd,
    limit: Option<Duration>,
    next: impl Fn() -> Result<T>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        match next() {
            Err(error) if error.errno() == libc::EAGAIN => {}
            found => return found,
        }
        let fd = descriptor();
        // SAFETY: asks for flags. The descriptor may have been closed by now, which fails.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        if flags < 0 {
            return Err(of_system(std::io::Error::last_os_error()));
        }
        if flags & libc::O_NONBLOCK != 0 {
            return Err(nothing_yet());
        }
        let mut waited = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let left = limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        // Rounded up: a wait that ends early would be begun again and again.
        let milliseconds = left.map_or(-1, |left| {
            i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        // SAFETY: one descriptor.
        let ready = unsafe { libc::poll(&raw mut waited, 1, milliseconds) };
        if ready < 0 {
            return Err(of_system(std::io::Error::last_os_error()));
        }
        if ready == 0 && left.is_some_and(|left| left.is_zero()) {
            return Err(nothing_yet());
        }
    }
}

/// Looks in vain, of which each so many offer the processor to others: the peer may need this one.
const LOOKS_A_YIELD: u64 = 256;

/// A program that looks for completions of a queue, at most so many.
struct Looking<F> {
    queue: Key,
    most: usize,
    taken: usize,
    visit: F,
}

impl<F: FnMut(&Completion)> Looker for Looking<F> {
    #[inline(always)]
    fn takes(&mut self, queue: Key, completion: &Completion) -> bool {
        let takes = queue == self.queue && self.taken < self.most;
        if takes {
            (self.visit)(completion);
            self.taken += 1;
        }
        takes
    }
}

/// Shows at most so many completions, oldest first, and tells how many.
#[inline]
pub(crate) fn poll_completions(
    queue: Key,
    most: usize,
    visit: impl FnMut(&Completion),
) -> Result<usize> {
    let mut looking = Looking {
        queue,
        most,
        taken: 0,
        visit,
    };
    let offers = match own_engine() {
        Some(mut own) => own.get().ok_or_else(gone)?.look(&mut looking)?,
        None => look_shared(&mut looking)?,
    };
    if offers {
        std::thread::yield_now();
    }
    Ok(looking.taken)
}

#[inline(never)]
fn look_shared<F: FnMut(&Completion)>(looking: &mut Looking<F>) -> Result<bool> {
    engine()?.look(looking)
}

impl Engine {
    /// Looks for completions. Whether the processor is to be offered to others.
    #[inline(always)]
    fn look<F: FnMut(&Completion)>(&mut self, looking: &mut Looking<F>) -> Result<bool> {
        // First what is there, then what came, then what was acknowledged: each only if there was
        // nothing before, since each looks at lines that the peer writes.
        let notices = &mut self.objects.notices;
        looking.taken = notices.take(looking.queue, looking.most, &mut looking.visit)?;
        if looking.taken > 0 {
            self.is_waiting = false;
            return Ok(false);
        }
        let count = self.hear_news(looking);
        if count > 0 && looking.taken == 0 {
            self.take_held(looking)?;
        }
        if looking.taken == 0 && self.looks >= self.advance_at {
            self.advance_all(true);
            self.take_held(looking)?;
        }
        self.is_waiting = count == 0 && looking.taken == 0;
        if looking.taken > 0 {
            return Ok(false);
        }
        self.looks += 1;
        if IS_TICK_DUE.load(Ordering::Relaxed) {
            IS_TICK_DUE.store(false, Ordering::Relaxed);
            self.tick();
        }
        Ok(self.looks.is_multiple_of(LOOKS_A_YIELD))
    }

    /// Takes what is there.
    #[inline(never)]
    fn take_held<F: FnMut(&Completion)>(&mut self, looking: &mut Looking<F>) -> Result<()> {
        let notices = &mut self.objects.notices;
        looking.taken = notices.take(looking.queue, looking.most, &mut looking.visit)?;
        Ok(())
    }
}

pub(crate) fn arm(key: Key, is_solicited_only: bool) -> Result<()> {
    let mut engine = engine()?;
    engine.objects.notices.arm(key, is_solicited_only)?;
    engine.set_attention(true);
    engine.progress();
    if engine.objects.notices.armed() == 0 {
        engine.set_attention(false);
    }
    engine.wants_ticks();
    Ok(())
}

pub(crate) fn modify_queue_pair(key: Key, wanted: &QueuePairAttributes, mask: u32) -> Result<()> {
    let mut engine = engine()?;
    let to = engine.objects.check_modify(key, wanted, mask)?;
    if to == QueuePairState::Error {
        // What the peer has received and acknowledged by now is done, and is not flushed.
        engine.progress();
    }
    let mut pair = engine.objects.take_pair(key.index()).ok_or_else(gone)?;
    let is_connected = pair.state == QueuePairState::Init && to == QueuePairState::ReadyToReceive;
    engine.objects.apply(&mut pair, wanted, mask, to);
    if is_connected && pair.options.kind != QueuePairType::Ud {
        pair.own.link = engine.link_to(pair.attributes.destination);
    }
    engine.transmit(&mut pair);
    engine.objects.put_pair(pair);
    engine.progress();
    engine.wants_ticks();
    Ok(())
}

pub(crate) unsafe fn post_sends(
    key: Key,
    requests: &[SendRequest<'_, AddressHandle>],
) -> Result<()> {
    match own_engine() {
        // SAFETY: as promised by the caller.
        Some(mut own) => unsafe { own.get().ok_or_else(gone)?.post(key, requests) },
        // SAFETY: as promised by the caller.
        None => unsafe { post_shared(key, requests) },
    }
}

/// # Safety
///
/// As for [`post_sends`].
#[inline(never)]
unsafe fn post_shared(key: Key, requests: &[SendRequest<'_, AddressHandle>]) -> Result<()> {
    // SAFETY: as promised by the caller.
    unsafe { engine()?.post(key, requests) }
}

impl Engine {
    /// # Safety
    ///
    /// As for [`post_sends`].
    #[inline(always)]
    unsafe fn post(&mut self, key: Key, requests: &[SendRequest<'_, AddressHandle>]) -> Result<()> {
        if let [request] = requests {
            // SAFETY: as promised by the caller.
            let is_done = unsafe {
                if request.opcode == SendOpcode::RdmaWrite {
                    self.post_direct(key, request)
                } else {
                    self.post_short(key, request)
                }
            };
            if is_done {
                return Ok(());
            }
        }
        // SAFETY: as promised by the caller.
        unsafe { post_long(self, key, requests) }
    }
}

/// Posts what does not go the short way.
///
/// # Safety
///
/// With the flag `INLINE` the elements' bytes can be read.
#[inline(never)]
unsafe fn post_long(
    engine: &mut Engine,
    key: Key,
    requests: &[SendRequest<'_, AddressHandle>],
) -> Result<()> {
    engine
        .objects
        .post_sends(key, requests, |elements, is_inline, destination| OnRing {
            // SAFETY: as promised by the caller.
            payload: unsafe { Payload::new(elements, is_inline) },
            destination,
            end: 0,
            is_placed: false,
            struck: Struck::default(),
        })?;
    let mut pair = engine.objects.take_pair(key.index()).ok_or_else(gone)?;
    engine.transmit(&mut pair);
    engine.objects.put_pair(pair);
    engine.wants_ticks();
    Ok(())
}
