//! Calls that do more than ask the objects: they wait, or look after what is under way.

use std::time::{Duration, Instant};

use viaduct_core::verbs::{QueuePairAttributes, QueuePairState, QueuePairType, SendRequest};

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

/// Shows at most so many completions, oldest first, and tells how many.
pub(crate) fn poll_completions(
    key: Key,
    most: usize,
    mut visit: impl FnMut(&Completion),
) -> Result<usize> {
    let mut engine = engine()?;
    // First what is there, then what came, then what was acknowledged: each only if there was
    // nothing before, since each looks at lines that the peer writes.
    let mut taken = engine.objects.notices.take(key, most, &mut visit)?;
    if taken == 0 && engine.hear_news() > 0 {
        taken = engine.objects.notices.take(key, most, &mut visit)?;
    }
    if taken == 0 && engine.looks >= engine.advance_at {
        engine.advance_all(true);
        taken = engine.objects.notices.take(key, most, &mut visit)?;
    }
    engine.is_waiting = taken == 0;
    if taken > 0 {
        return Ok(taken);
    }
    engine.looks += 1;
    if IS_TICK_DUE.load(Ordering::Relaxed) {
        IS_TICK_DUE.store(false, Ordering::Relaxed);
        engine.tick();
    }
    let offers = engine.looks.is_multiple_of(LOOKS_A_YIELD);
    drop(engine);
    if offers {
        std::thread::yield_now();
    }
    Ok(0)
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
    let mut engine = engine()?;
    let engine = &mut *engine;
    if let [request] = requests {
        // SAFETY: as promised by the caller.
        let is_sent = unsafe { engine.post_short(key, request) };
        if is_sent {
            return Ok(());
        }
    }
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
