//! Looks into completion queues that need no answer: the first into each queue since a thread did
//! something else than look, while nothing can have come.
//!
//! Of such looks it is known how they are answered: one by one. A thread that looks into a queue
//! again may be in a loop, whose looks are answered many at once.

use std::cell::RefCell;

use viaduct_core::verbs::Key;

/// Of one thread.
#[derive(Debug, Default)]
struct Looked {
    /// Where it has looked in vain since it did something else, if that is known.
    queues: Option<Vec<Key>>,
    /// What it has posted since it last asked may complete at any time.
    completes_soon: bool,
}

thread_local! {
    static LOOKED: RefCell<Looked> = RefCell::default();
}

/// The thread has asked for something and has its answer: a look in vain is followed by whatever
/// the looks before it were.
pub(crate) fn asked(is_else: bool) {
    LOOKED.with_borrow_mut(|looked| {
        looked.completes_soon = false;
        looked.queues = is_else.then(Vec::new);
    });
}

/// It has posted without an answer.
pub(crate) fn posted(completes_soon: bool) {
    LOOKED.with_borrow_mut(|looked| {
        looked.completes_soon |= completes_soon;
        looked.queues = Some(Vec::new());
    });
}

/// Whether a look into a queue is the first.
pub(crate) fn is_first(queue: Key) -> bool {
    LOOKED.with_borrow(|looked| {
        let queues = looked.queues.as_ref();
        !looked.completes_soon && queues.is_some_and(|queues| !queues.contains(&queue))
    })
}

/// It has looked there, without asking.
pub(crate) fn at(queue: Key) {
    LOOKED.with_borrow_mut(|looked| looked.queues.get_or_insert_default().push(queue));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_looks_since_something_else_need_no_answer() {
        let (one, other) = (Key::from_bits(1), Key::from_bits(2));
        // Nothing is known yet.
        assert!(!is_first(one));
        asked(true);
        assert!(is_first(one));
        at(one);
        assert!(!is_first(one) && is_first(other));
        // A look in vain that was asked for.
        asked(false);
        assert!(!is_first(one) && !is_first(other));
        posted(false);
        assert!(is_first(one));
        // What completes soon does so until the next answer.
        posted(true);
        posted(false);
        assert!(!is_first(one));
        asked(true);
        assert!(is_first(one));
    }
}
