//! Calls about protection domains, regions, shared receive queues and address handles.

use super::*;

pub(crate) fn allocate_protection_domain(context: Key) -> Result<Key> {
    let mut engine = engine()?;
    engine.notices.contexts.get(context).ok_or_else(gone)?;
    let domain = Domain { context, users: 0 };
    let key = engine.domains.insert(domain);
    key.ok_or_else(|| full("too many protection domains"))
}

pub(crate) fn deallocate_protection_domain(key: Key) -> Result<()> {
    let mut engine = engine()?;
    if engine.domains.get(key).ok_or_else(gone)?.users > 0 {
        return Err(busy("a protection domain still has objects"));
    }
    engine.domains.remove(key);
    Ok(())
}

pub(crate) fn register_memory(
    domain: Key,
    address: u64,
    length: u64,
    iova: u64,
    flags: u32,
) -> Result<(Key, u32)> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    let first = if flags & access::ZERO_BASED != 0 {
        0
    } else {
        iova
    };
    check_region(address, length, first, flags, limits::REGION_BYTES_MAX)?;
    let full = || full("too many memory regions");
    let place = engine.regions.next_key().ok_or_else(full)?;
    let variant = engine.key_variant;
    engine.key_variant = variant % 255 + 1;
    let region = Region {
        domain: domain.index(),
        access: flags,
        first,
        length,
    };
    let memory_key = regions::key_at(place.index(), variant);
    let state = RegionState {
        context,
        domain,
        key: memory_key,
        region,
        address,
    };
    let key = engine.regions.insert(state).ok_or_else(full)?;
    engine
        .tables
        .regions
        .set(memory_key, Some((&region, address)));
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok((key, memory_key))
}

pub(crate) fn reregister_memory(
    key: Key,
    flags: u32,
    domain: Option<Key>,
    address: u64,
    length: u64,
    access: u32,
) -> Result<()> {
    let mut engine = engine()?;
    let mut state = *engine.regions.get(key).ok_or_else(gone)?;
    let known = reregister::TRANSLATION | reregister::PROTECTION_DOMAIN | reregister::ACCESS;
    if flags == 0 || flags & !known != 0 {
        return Err(invalid(format!("flags {flags:#x} of a new registration")));
    }
    if flags & reregister::ACCESS != 0 {
        state.region.access = access;
    }
    if flags & reregister::TRANSLATION != 0 {
        state.address = address;
        state.region.length = length;
        state.region.first = address;
    }
    if state.region.access & access::ZERO_BASED != 0 {
        state.region.first = 0;
    }
    let before = state.domain;
    if flags & reregister::PROTECTION_DOMAIN != 0 {
        let domain = domain.ok_or_else(|| invalid("a protection domain is missing"))?;
        if engine.context_of_domain(domain)? != state.context {
            return Err(invalid("the protection domain is of another context"));
        }
        state.domain = domain;
        state.region.domain = domain.index();
    }
    check_region(
        state.address,
        state.region.length,
        state.region.first,
        state.region.access,
        limits::REGION_BYTES_MAX,
    )?;
    engine
        .tables
        .regions
        .set(state.key, Some((&state.region, state.address)));
    if let Some(domain) = engine.domains.get_mut(before) {
        domain.users -= 1;
    }
    if let Some(domain) = engine.domains.get_mut(state.domain) {
        domain.users += 1;
    }
    *engine.regions.get_mut(key).ok_or_else(gone)? = state;
    Ok(())
}

pub(crate) fn deregister_memory(key: Key) -> Result<()> {
    engine()?.remove_region(key).ok_or_else(gone)
}

pub(crate) fn create_shared_receive_queue(
    domain: Key,
    attributes: &SharedReceiveAttributes,
    cookie: u64,
) -> Result<Key> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    if attributes.max_requests > limits::REQUESTS_MAX
        || attributes.max_elements > limits::ELEMENTS_MAX
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
        max_requests: attributes.max_requests,
        max_elements: attributes.max_elements.max(1),
        limit: 0,
        receives: VecDeque::new(),
        users: 0,
        async_unacknowledged: 0,
    };
    let key = engine.shared.insert(shared);
    let key = key.ok_or_else(|| full("too many shared receive queues"))?;
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok(key)
}

pub(crate) fn post_shared_receive(key: Key, request: &ReceiveRequest<'_>) -> Result<()> {
    let mut engine = engine()?;
    let shared = engine.shared.get_mut(key).ok_or_else(gone)?;
    if request.elements.len() > shared.max_elements as usize {
        return Err(invalid("a receive has too many elements"));
    }
    if shared.receives.len() >= shared.max_requests as usize {
        return Err(full("the shared receive queue is full"));
    }
    shared.receives.push_back(Receive {
        request: request.request,
        elements: Elements::new(request.elements),
    });
    Ok(())
}

pub(crate) fn modify_shared_receive_queue(
    key: Key,
    attributes: &SharedReceiveAttributes,
    mask: u32,
) -> Result<()> {
    let mut engine = engine()?;
    let shared = engine.shared.get_mut(key).ok_or_else(gone)?;
    if mask & shared_receive::MAX_REQUESTS != 0 {
        return Err(unsupported("a shared receive queue keeps its size"));
    }
    if mask & !shared_receive::LIMIT != 0 {
        return Err(invalid(
            "an attribute of a shared receive queue is not known",
        ));
    }
    if mask & shared_receive::LIMIT != 0 {
        if attributes.limit > shared.max_requests {
            return Err(invalid("the limit is past the shared receive queue's size"));
        }
        shared.limit = attributes.limit;
    }
    engine.check_limit(key);
    Ok(())
}

pub(crate) fn query_shared_receive_queue(key: Key) -> Result<SharedReceiveAttributes> {
    let engine = engine()?;
    let shared = engine.shared.get(key).ok_or_else(gone)?;
    Ok(SharedReceiveAttributes {
        max_requests: shared.max_requests,
        max_elements: shared.max_elements,
        limit: shared.limit,
    })
}

pub(crate) fn destroy_shared_receive_queue(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let shared = engine.shared.get(key).ok_or_else(gone)?;
    if shared.users > 0 {
        return Err(busy("a queue pair still uses the shared receive queue"));
    }
    let (context, domain) = (shared.context, shared.domain);
    engine.notices.forget_async(context, Owner::Shared(key));
    while engine
        .shared
        .get(key)
        .ok_or_else(gone)?
        .async_unacknowledged
        > 0
    {
        engine = wait(engine)?;
    }
    engine.shared.remove(key);
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users -= 1;
    }
    Ok(())
}

pub(crate) fn create_address_handle(domain: Key, attributes: &AddressAttributes) -> Result<Key> {
    let mut engine = engine()?;
    let context = engine.context_of_domain(domain)?;
    engine.check_address(context, attributes)?;
    let key = engine.addresses.insert(Address {
        context,
        domain,
        attributes: *attributes,
    });
    let key = key.ok_or_else(|| full("too many address handles"))?;
    if let Some(domain) = engine.domains.get_mut(domain) {
        domain.users += 1;
    }
    Ok(key)
}

pub(crate) fn destroy_address_handle(key: Key) -> Result<()> {
    let mut engine = engine()?;
    let address = engine.addresses.remove(key).ok_or_else(gone)?;
    if let Some(domain) = engine.domains.get_mut(address.domain) {
        domain.users -= 1;
    }
    Ok(())
}
