//! Numbers in words, for programs that print them.

use std::ffi::{CStr, c_char, c_int};

use viaduct_rdma::verbs::{AsyncEventType, CompletionStatus};
use viaduct_verbs_abi::*;

fn name(words: &[(c_int, &'static CStr)], number: c_int) -> *const c_char {
    let known = words.iter().find(|(each, _)| *each == number);
    known.map_or(c"unknown", |(_, word)| word).as_ptr()
}

/// `ibv_wc_status_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    // Of extensions that no queue pair here has.
    const WORDS: &[(c_int, &CStr)] = &[
        (WC_TM_ERR, c"tag matching error"),
        (WC_TM_RNDV_INCOMPLETE, c"tag matching rendezvous incomplete"),
    ];
    let known = u32::try_from(status)
        .ok()
        .and_then(CompletionStatus::from_number);
    if let Some(known) = known {
        return known.text().as_ptr();
    }
    name(WORDS, status)
}

/// `ibv_event_type_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: c_int) -> *const c_char {
    // Of work queues and of links, which nothing here has.
    const WORDS: &[(c_int, &CStr)] = &[
        (EVENT_WQ_FATAL, c"work queue is lost"),
        (EVENT_DEVICE_SPEED_CHANGE, c"device speed change"),
    ];
    let known = u32::try_from(event)
        .ok()
        .and_then(AsyncEventType::from_number);
    if let Some(known) = known {
        return known.text().as_ptr();
    }
    name(WORDS, event)
}

/// `ibv_node_type_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node: c_int) -> *const c_char {
    const WORDS: &[(c_int, &CStr)] = &[
        (NODE_CA, c"InfiniBand channel adapter"),
        (NODE_SWITCH, c"InfiniBand switch"),
        (NODE_ROUTER, c"InfiniBand router"),
        (NODE_RNIC, c"iWARP adapter"),
        (NODE_USNIC, c"usNIC adapter"),
        (NODE_USNIC_UDP, c"usNIC adapter with UDP"),
        (NODE_UNSPECIFIED, c"unspecified"),
    ];
    name(WORDS, node)
}

/// `ibv_port_state_str`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    const WORDS: &[(c_int, &CStr)] = &[
        (PORT_NOP, c"no state change (NOP)"),
        (PORT_DOWN, c"down"),
        (PORT_INIT, c"init"),
        (PORT_ARMED, c"armed"),
        (PORT_ACTIVE, c"active"),
        (PORT_ACTIVE_DEFER, c"active defer"),
    ];
    name(WORDS, state)
}
