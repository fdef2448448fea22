//! Shared receive queues.

use alloc::collections::VecDeque;

use super::{Objects, Owner, change};
use crate::verbs::carrier::Carrier;
use crate::verbs::error::{Result, busy, full, gone, invalid, unsupported};
use crate::verbs::flags::shared_receive;
use crate::verbs::notices::Destruction;
use crate::verbs::{
    AsyncElement, AsyncEventType, Elements, Key, Pair, Receive, ReceiveRequest,
    SharedReceiveAttributes, responder,
};

/// A shared receive queue.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) context: Key,
    domain: Key,
    cookie: u64,
    /// Its sizes, and its limit until that has been told of.
    attributes: SharedReceiveAttributes,
    receives: VecDeque<Receive>,
    users: u32,
    pub(super) async_unacknowledged: u32,
}

impl<C: Carrier> Objects<C> {
    /// Makes a shared receive queue.
    ///
    /// # Errors
    ///
    /// EINVAL for sizes past the device's, ENOMEM when there are too many.
    pub fn create_shared(
        &mut self,
        domain: Key,
        attributes: &SharedReceiveAttributes,
        cookie: u64,
    ) -> Result<Key> {
        let context = self.context_of_domain(domain)?;
        if attributes.max_requests > self.limits.max_requests
            || attributes.max_elements > self.limits.max_elements
            || attributes.max_requests == 0
        {
            return Err(invalid(
                "a shared receive queue of this size is not to be had",
            ));
        }
        let shared = Shared {
            context,
            domain,
            cookie,
            attributes: SharedReceiveAttributes {
                max_requests: attributes.max_requests,
                max_elements: attributes.max_elements.max(1),
                limit: 0,
            },
            receives: VecDeque::new(),
            users: 0,
            async_unacknowledged: 0,
        };
        let key = self.shared.insert(shared);
        let key = key.ok_or_else(|| full("too many shared receive queues"))?;
        self.use_domain(domain, true);
        Ok(key)
    }

    fn shared(&mut self, key: Key) -> Result<&mut Shared> {
        self.shared.get_mut(key).ok_or_else(gone)
    }

    pub(super) fn context_of_shared(&self, key: Key) -> Result<Key> {
        Ok(self.shared.get(key).ok_or_else(gone)?.context)
    }

    pub(super) fn use_shared(&mut self, key: Key, is_used: bool) {
        if let Some(shared) = self.shared.get_mut(key) {
            shared.users = shared.users.wrapping_add_signed(change(is_used));
        }
    }

    /// Posts a receive for many queue pairs.
    ///
    /// # Errors
    ///
    /// ENOMEM when the queue is full, EINVAL for too many elements.
    pub fn post_shared_receive(&mut self, key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
        let shared = self.shared(key)?;
        if request.elements.len() > shared.attributes.max_elements as usize {
            return Err(invalid("a receive has too many elements"));
        }
        if shared.receives.len() >= shared.attributes.max_requests as usize {
            return Err(full("the shared receive queue is full"));
        }
        shared.receives.push_back(Receive {
            request: request.request,
            elements: Elements::new(request.elements),
        });
        Ok(())
    }

    /// Changes what bits of [`shared_receive`] name.
    ///
    /// # Errors
    ///
    /// EINVAL for a limit past the queue's size, EOPNOTSUPP for another size.
    pub fn modify_shared(
        &mut self,
        key: Key,
        attributes: &SharedReceiveAttributes,
        mask: u32,
    ) -> Result<()> {
        let own = &mut self.shared(key)?.attributes;
        if mask & shared_receive::MAX_REQUESTS != 0 {
            return Err(unsupported("a shared receive queue keeps its size"));
        }
        if mask & !shared_receive::LIMIT != 0 {
            return Err(invalid(
                "an attribute of a shared receive queue is not known",
            ));
        }
        if mask & shared_receive::LIMIT != 0 {
            if attributes.limit > own.max_requests {
                return Err(invalid("the limit is past the shared receive queue's size"));
            }
            own.limit = attributes.limit;
        }
        self.check_limit(key);
        Ok(())
    }

    /// Sizes of a shared receive queue, and its limit if it has not been told of.
    ///
    /// # Errors
    ///
    /// EINVAL when it is gone.
    pub fn query_shared(&self, key: Key) -> Result<SharedReceiveAttributes> {
        Ok(self.shared.get(key).ok_or_else(gone)?.attributes)
    }

    /// Destroys a shared receive queue, with the events that nobody has taken.
    ///
    /// # Errors
    ///
    /// EBUSY while a queue pair uses it.
    pub fn destroy_shared(&mut self, key: Key) -> Result<Destruction> {
        let shared = self.shared(key)?;
        if shared.users > 0 {
            return Err(busy("a queue pair still uses the shared receive queue"));
        }
        let (context, domain) = (shared.context, shared.domain);
        let is_held = shared.async_unacknowledged > 0;
        self.notices.forget_async(context, Owner::Shared(key));
        if is_held {
            return Ok(Destruction::Waits);
        }
        self.shared.remove(key);
        self.use_domain(domain, false);
        Ok(Destruction::Done)
    }

    /// Tells once that a shared receive queue runs short.
    fn check_limit(&mut self, key: Key) {
        if let Some(shared) = self.shared.get_mut(key)
            && responder::tells_limit(shared.receives.len(), shared.attributes.limit)
        {
            shared.attributes.limit = 0;
            let (context, cookie) = (shared.context, shared.cookie);
            let kind = AsyncEventType::SharedReceiveQueueLimitReached;
            let element = AsyncElement::SharedReceiveQueue(cookie);
            self.notices
                .tell(context, kind, element, Some(Owner::Shared(key)));
        }
    }

    /// Whether a queue pair has a receive for what comes.
    #[must_use]
    pub fn has_receive(&self, pair: &Pair<C>) -> bool {
        match pair.options.shared_receive_queue {
            None => !pair.receives.is_empty(),
            Some(key) => {
                let shared = self.shared.get(key);
                shared.is_some_and(|shared| !shared.receives.is_empty())
            }
        }
    }

    /// Takes the next receive of a queue pair, if there is one.
    pub fn next_receive(&mut self, pair: &mut Pair<C>) -> Option<Receive> {
        let Some(key) = pair.options.shared_receive_queue else {
            return pair.receives.pop_front();
        };
        let receive = self.shared.get_mut(key)?.receives.pop_front();
        self.check_limit(key);
        receive
    }

    /// Gives a receive back, for the next message.
    pub fn give_back(&mut self, pair: &mut Pair<C>, receive: Receive) {
        match pair.options.shared_receive_queue {
            None => pair.receives.push_front(receive),
            Some(key) => {
                if let Some(shared) = self.shared.get_mut(key) {
                    shared.receives.push_front(receive);
                }
            }
        }
    }
}
