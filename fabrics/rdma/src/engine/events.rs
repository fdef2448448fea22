//! Calls about contexts, completion channels and completion queues.

use super::*;

pub(crate) fn open_context(device: Device) -> Result<Key> {
    fork::check()?;
    let engine = ENGINE.get_or_init(|| BiasedMutex::new(None));
    fork::watch();
    let mut guard = engine.lock();
    if guard.is_none() {
        *guard = Some(Engine::start()?);
    }
    let mut engine = Guard(guard);
    let context = ContextState {
        device,
        counter: Counter::new()?,
        events: VecDeque::new(),
    };
    let key = engine.notices.contexts.insert(context);
    key.ok_or_else(|| full("too many devices are open"))
}

pub(crate) fn async_fd(context: Key) -> RawFd {
    engine().map_or(-1, |engine| {
        let context = engine.notices.contexts.get(context);
        context.map_or(-1, |context| context.counter.fd())
    })
}

fn nothing_yet() -> Error {
    Error::new(libc::EAGAIN, "there is no event yet")
}

/// Waits until there is an event, unless the descriptor does not block. Its counter is read by
/// whoever takes the event, so that no two wait for one.
pub(crate) fn await_event<T>(
    descriptor: impl Fn() -> RawFd,
    next: impl Fn() -> Result<T>,
) -> Result<T> {
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
        // SAFETY: one descriptor.
        if unsafe { libc::poll(&raw mut waited, 1, -1) } < 0 {
            return Err(of_system(std::io::Error::last_os_error()));
        }
    }
}

pub(crate) fn try_next_async_event(context: Key) -> Result<AsyncEvent> {
    let mut engine = engine()?;
    let state = engine.notices.contexts.get_mut(context).ok_or_else(gone)?;
    let (event, owner) = state.events.pop_front().ok_or_else(nothing_yet)?;
    state.counter.take();
    match owner {
        Some(Owner::Queue(key)) => {
            if let Some(queue) = engine.notices.queues.get_mut(key) {
                queue.async_unacknowledged += 1;
            }
        }
        Some(Owner::Pair(key)) => {
            if let Ok(pair) = engine.pair(key) {
                pair.async_unacknowledged += 1;
            }
        }
        Some(Owner::Shared(key)) => {
            if let Some(shared) = engine.shared.get_mut(key) {
                shared.async_unacknowledged += 1;
            }
        }
        None => {}
    }
    Ok(event)
}

pub(crate) fn acknowledge_async_events(owner: Owner, count: u32) {
    let Ok(mut engine) = engine() else { return };
    let left = match owner {
        Owner::Queue(key) => {
            let queue = engine.notices.queues.get_mut(key);
            queue.map(|queue| &mut queue.async_unacknowledged)
        }
        Owner::Pair(key) => {
            let pair = engine.pair(key).ok();
            pair.map(|pair| &mut pair.async_unacknowledged)
        }
        Owner::Shared(key) => {
            let shared = engine.shared.get_mut(key);
            shared.map(|shared| &mut shared.async_unacknowledged)
        }
    };
    if let Some(left) = left {
        *left = left.saturating_sub(count);
    }
    tell_acknowledged(&engine);
}

pub(crate) fn close_context(context: Key) -> Result<()> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    let pairs: Vec<Key> = engine
        .pairs
        .iter()
        .filter(|(_, pair)| pair.as_ref().is_some_and(|pair| pair.context == context))
        .map(|(key, _)| key)
        .collect();
    for key in pairs {
        engine.remove_pair(key);
    }
    macro_rules! sweep {
        ($table:expr, $each:expr) => {
            let keys: Vec<Key> = $table
                .iter()
                .filter(|(_, object)| object.context == context)
                .map(|(key, _)| key)
                .collect();
            for key in keys {
                $each(&mut engine, key);
            }
        };
    }
    sweep!(engine.shared, |engine: &mut Guard, key| engine
        .shared
        .remove(key));
    sweep!(engine.notices.queues, |engine: &mut Guard, key| {
        let _ = engine.set_armed(key, None);
        engine.notices.queues.remove(key)
    });
    sweep!(engine.notices.channels, |engine: &mut Guard, key| engine
        .notices
        .channels
        .remove(key));
    sweep!(engine.regions, |engine: &mut Guard, key| engine
        .remove_region(key));
    sweep!(engine.addresses, |engine: &mut Guard, key| engine
        .addresses
        .remove(key));
    sweep!(engine.domains, |engine: &mut Guard, key| engine
        .domains
        .remove(key));
    engine.notices.contexts.remove(context);
    Ok(())
}

pub(crate) fn create_completion_channel(context: Key) -> Result<Key> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    let channel = Channel {
        context,
        counter: Counter::new()?,
        events: VecDeque::new(),
        queues: 0,
    };
    let key = engine.notices.channels.insert(channel);
    key.ok_or_else(|| full("too many completion channels"))
}

pub(crate) fn channel_fd(channel: Key) -> RawFd {
    engine().map_or(-1, |engine| {
        let channel = engine.notices.channels.get(channel);
        channel.map_or(-1, |channel| channel.counter.fd())
    })
}

pub(crate) fn try_next_completion_event(channel: Key) -> Result<u64> {
    let mut engine = engine()?;
    let state = engine.notices.channels.get_mut(channel).ok_or_else(gone)?;
    let (queue, cookie) = state.events.pop_front().ok_or_else(nothing_yet)?;
    state.counter.take();
    if let Some(queue) = engine.notices.queues.get_mut(queue) {
        queue.unacknowledged += 1;
    }
    Ok(cookie)
}

pub(crate) fn destroy_completion_channel(key: Key) -> Result<()> {
    let mut engine = engine()?;
    if engine.notices.channels.get(key).ok_or_else(gone)?.queues > 0 {
        return Err(busy("a completion queue still uses the channel"));
    }
    engine.notices.channels.remove(key);
    Ok(())
}

fn check_entries(entries: u32) -> Result<()> {
    if entries == 0 || entries > limits::COMPLETION_ENTRIES_MAX {
        return Err(invalid(format!(
            "a completion queue has 1 to {} entries, not {entries}",
            limits::COMPLETION_ENTRIES_MAX
        )));
    }
    Ok(())
}

pub(crate) fn create_completion_queue(
    context: Key,
    options: &CompletionQueueOptions,
) -> Result<Key> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    check_entries(options.entries)?;
    if options.vector != 0 {
        return Err(invalid(format!(
            "there is vector 0, not {}",
            options.vector
        )));
    }
    if let Some(channel) = options.channel {
        let channel = engine.notices.channels.get_mut(channel.key);
        let channel = channel.filter(|channel| channel.context == context);
        channel.ok_or_else(gone)?.queues += 1;
    }
    let queue = Queue {
        context,
        completions: Completions::new(options.entries, options.ignores_overrun),
        channel: options.channel.map(|channel| channel.key),
        cookie: options.cookie,
        has_timestamps: options.has_timestamps,
        users: 0,
        unacknowledged: 0,
        async_unacknowledged: 0,
    };
    let key = engine.notices.queues.insert(queue);
    key.ok_or_else(|| full("too many completion queues"))
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
    let mut taken = engine.notices.take(key, most, &mut visit)?;
    if taken == 0 && engine.hear_news() > 0 {
        taken = engine.notices.take(key, most, &mut visit)?;
    }
    if taken == 0 && engine.looks >= engine.advance_at {
        engine.advance_all(true);
        taken = engine.notices.take(key, most, &mut visit)?;
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
    engine.set_armed(key, Some(is_solicited_only))?;
    engine.set_attention(true);
    engine.progress();
    if engine.notices.armed == 0 {
        engine.set_attention(false);
    }
    engine.wants_ticks();
    Ok(())
}

pub(crate) fn completion_queue_entries(key: Key) -> Result<u32> {
    let engine = engine()?;
    let queue = engine.notices.queues.get(key).ok_or_else(gone)?;
    Ok(queue.completions.entries())
}

pub(crate) fn resize_completion_queue(key: Key, entries: u32) -> Result<u32> {
    let mut engine = engine()?;
    check_entries(entries)?;
    let queue = engine.notices.queues.get_mut(key).ok_or_else(gone)?;
    if !queue.completions.resize(entries) {
        return Err(invalid(format!(
            "{} completions are in the queue, more than {entries}",
            queue.completions.len()
        )));
    }
    Ok(entries)
}

pub(crate) fn acknowledge_completion_events(key: Key, count: u32) {
    if let Ok(mut engine) = engine()
        && let Some(queue) = engine.notices.queues.get_mut(key)
    {
        queue.unacknowledged = queue.unacknowledged.saturating_sub(count);
        tell_acknowledged(&engine);
    }
}

pub(crate) fn destroy_completion_queue(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let queue = engine.notices.queues.get(key).ok_or_else(gone)?;
    if queue.users > 0 {
        return Err(busy("a queue pair still uses the completion queue"));
    }
    let (context, channel) = (queue.context, queue.channel);
    engine.set_armed(key, None)?;
    if let Some(channel) = channel {
        engine.notices.forget_completion_events(channel, key);
    }
    engine.notices.forget_async(context, Owner::Queue(key));
    loop {
        let queue = engine.notices.queues.get(key).ok_or_else(gone)?;
        if queue.unacknowledged == 0 && queue.async_unacknowledged == 0 {
            break;
        }
        engine = wait(engine)?;
    }
    engine.notices.queues.remove(key);
    if let Some(channel) = channel.and_then(|channel| engine.notices.channels.get_mut(channel)) {
        channel.queues -= 1;
    }
    Ok(())
}
