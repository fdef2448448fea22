//! Channels and the events on them.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use libc::{EBADF, EINVAL};

use crate::abi::{MOST, RdmaCmEvent, RdmaCmId, RdmaConnParam, RdmaEventChannel, RdmaUdParam};
use crate::attributes;
use crate::call::{call, guarded, last_errno, set_errno};
use crate::devices;
use crate::functions::{migrate, resolve_names_done};
use crate::manager::{Event, EventKind, EventParameters, Manager, Parameters, Refusal, Result};
use crate::object::{ChannelObject, EventObject, Id, NO_DEVICE};

unsafe extern "C-unwind" {
    /// A thread may be cancelled while it waits here, which unwinds it.
    fn read(descriptor: c_int, buffer: *mut c_void, bytes: usize) -> isize;
    /// As here.
    fn poll(descriptors: *mut c_void, count: libc::nfds_t, milliseconds: c_int) -> c_int;
}

/// How long a thread waits that asks a channel which is destroyed. Programs as rping destroy theirs
/// and end while a thread of theirs asks again, and that thread ends the program with an error if
/// it is told so first. The wait makes that unlikely, and an error of such a program late.
const DESTROYED_WAIT_MS: c_int = 100;

/// `rdma_create_event_channel(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_event_channel() -> *mut RdmaEventChannel {
    guarded("rdma_create_event_channel", || {
        devices::are_there()?;
        ChannelObject::create()
    })
    .unwrap_or(ptr::null_mut())
}

/// `rdma_destroy_event_channel(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut RdmaEventChannel) {
    // SAFETY: as the caller says.
    unsafe { ChannelObject::destroy(channel) };
}

/// `rdma_get_cm_event(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rdma_get_cm_event(
    channel: *mut RdmaEventChannel,
    event: *mut *mut RdmaCmEvent,
) -> c_int {
    if channel.is_null() || event.is_null() {
        set_errno(EINVAL);
        return -1;
    }
    loop {
        let mut token = 0_u64;
        // Waits, or does not, as the program has set the descriptor, and comes back from signals as
        // any read does: outside of what catches panics, and with nothing in hand.
        // SAFETY: the channel is the program's, as it says; the buffer is as long as said.
        let bytes = unsafe { read((*channel).fd, (&raw mut token).cast(), size_of::<u64>()) };
        if bytes < 0 {
            if last_errno() == Refusal(EBADF) {
                // SAFETY: there are no descriptors.
                unsafe { poll(ptr::null_mut(), 0, DESTROYED_WAIT_MS) };
                set_errno(EBADF);
            }
            return -1;
        }
        // SAFETY: the channel is the program's, as it says.
        match unsafe { taken(channel) } {
            Some(taken) => {
                // SAFETY: it is a variable, as the program says.
                unsafe { *event = taken };
                return 0;
            }
            // It was withdrawn, or is nothing for the program.
            None => continue,
        }
    }
}

unsafe fn taken(channel: *mut RdmaEventChannel) -> Option<*mut RdmaCmEvent> {
    guarded("rdma_get_cm_event", || {
        // SAFETY: as the caller says.
        let channel = unsafe { ChannelObject::of(channel) }?;
        let Some(event) = Manager::of_process()?.take(&channel.channel) else {
            return Ok(None);
        };
        // SAFETY: an event is taken for an endpoint that is not destroyed, and whoever destroys it
        // waits for the event.
        Ok(unsafe { show(event) })
    })
    .flatten()
}

/// What the program sees of an event, with all that comes before it is seen; `None` for nothing.
unsafe fn show(event: Event) -> Option<*mut RdmaCmEvent> {
    let owner = event.cookie as *mut Id;
    let mut shown = EventObject::new(owner);
    shown.public.event = event.kind as c_int;
    shown.public.status = event.status;
    // SAFETY: as the caller says.
    let id = unsafe { &mut *owner };
    match event.kind {
        EventKind::AddressResolved => {
            if let Err(refusal) = show_address(id) {
                fail(&mut shown, EventKind::AddressError, refusal);
            }
        }
        EventKind::RouteResolved => {
            if let Ok(ends) = id.ends() {
                id.show_path(&ends);
            }
        }
        EventKind::ConnectRequest => {
            let newcomer = event.newcomer.and_then(|number| Id::adopt(id, number));
            let Some(newcomer) = newcomer else {
                id.acknowledge();
                return None;
            };
            shown.public.listen_id = owner.cast();
            shown.public.id = newcomer.cast();
            // SAFETY: it was just made.
            if id.is_synchronous && unsafe { migrate(newcomer.cast(), ptr::null_mut()) }.is_err() {
                // SAFETY: nobody else has seen it.
                unsafe { super::rdma_destroy_id(newcomer.cast()) };
                id.acknowledge();
                return None;
            }
            // SAFETY: as above.
            show_parameters(&mut shown, unsafe { &*newcomer }, &event.parameters);
        }
        EventKind::ConnectResponse => {
            show_parameters(&mut shown, id, &event.parameters);
            if let EventParameters::Connection(parameters) = &event.parameters {
                id.remote_ece = parameters.ece;
            }
            if let Ok(ends) = id.ends() {
                id.show_addresses(&ends);
                id.show_path(&ends);
            }
            if !id.public.qp.is_null() {
                shown.public.event = EventKind::Established as c_int;
                if let Err(refusal) = answer_response(id) {
                    id.has_failed = true;
                    fail(&mut shown, EventKind::ConnectError, refusal);
                }
            }
        }
        EventKind::Rejected | EventKind::Disconnected => {
            // It has been told of a failure: one is enough.
            if id.has_failed {
                id.acknowledge();
                return None;
            }
            show_parameters(&mut shown, id, &event.parameters);
            if event.kind == EventKind::Rejected {
                let _ = attributes::make_failed(id);
            }
        }
        EventKind::AddressInformationResolved | EventKind::AddressInformationError => {
            resolve_names_done(id, event.kind);
        }
        _ => show_parameters(&mut shown, id, &event.parameters),
    }
    Some(Box::into_raw(shown).cast())
}

fn fail(shown: &mut EventObject, kind: EventKind, Refusal(errno): Refusal) {
    shown.public.event = kind as c_int;
    shown.public.status = -errno;
}

fn show_address(id: &mut Id) -> Result<()> {
    let ends = id.ends()?;
    let source = ends.source.ok_or(NO_DEVICE)?;
    id.attach(source)?;
    id.show_addresses(&ends);
    Ok(())
}

/// Makes the queue pair ready, and tells the other side.
pub(crate) fn answer_response(id: &Id) -> Result<()> {
    let answered = attributes::make_ready(id, MOST, MOST)
        .and_then(|()| Manager::of_process()?.ready(id.number));
    if answered.is_err() {
        let _ = attributes::make_failed(id);
    }
    answered
}

fn show_parameters(shown: &mut EventObject, id: &Id, parameters: &EventParameters) {
    match parameters {
        EventParameters::None => {}
        EventParameters::Argument(argument) => shown.public.param.arg = *argument,
        EventParameters::Connection(parameters) => {
            shown.public.param.conn = connection(shown, parameters);
        }
        EventParameters::Datagram {
            parameters,
            queue_key,
        } => {
            let (private_data, private_data_len) = shown.keep(&parameters.private_data);
            let ends = id.ends().ok();
            let remote = ends.and_then(|ends| ends.remote);
            let address = id.interface.zip(remote).and_then(|(interface, remote)| {
                attributes::address_of(id, interface, &remote).ok()
            });
            shown.public.param.ud = RdmaUdParam {
                private_data,
                private_data_len,
                ah_attr: address.unwrap_or_default(),
                qp_num: parameters.queue_pair,
                qkey: *queue_key,
            };
        }
    }
}

fn connection(shown: &mut EventObject, parameters: &Parameters) -> RdmaConnParam {
    let (private_data, private_data_len) = shown.keep(&parameters.private_data);
    RdmaConnParam {
        private_data,
        private_data_len,
        responder_resources: parameters.responder_resources,
        initiator_depth: parameters.initiator_depth,
        flow_control: parameters.flow_control,
        retry_count: parameters.retry_count,
        rnr_retry_count: parameters.rnr_retry_count,
        srq: parameters.has_srq.into(),
        qp_num: parameters.queue_pair,
    }
}

/// `rdma_ack_cm_event(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_ack_cm_event(event: *mut RdmaCmEvent) -> c_int {
    call("rdma_ack_cm_event", || {
        if event.is_null() {
            return Err(Refusal(EINVAL));
        }
        // SAFETY: it came from `show`, as the program says; its owner waits for this.
        unsafe {
            let event = Box::from_raw(event.cast::<EventObject>());
            (*event.owner).acknowledge();
        }
        Ok(())
    })
}

/// Waits for what a call of a synchronous identifier has begun.
///
/// # Safety
///
/// It is an identifier.
pub(crate) unsafe fn complete(id: *mut RdmaCmId) -> c_int {
    // SAFETY: as the caller says, here and below; events of its own channel are its own.
    unsafe {
        if !(*id.cast::<Id>()).is_synchronous {
            return 0;
        }
        if !(*id).event.is_null() {
            rdma_ack_cm_event((*id).event);
            (*id).event = ptr::null_mut();
        }
        let answer = rdma_get_cm_event((*id).channel, &raw mut (*id).event);
        if answer != 0 {
            return answer;
        }
        let event = &*(*id).event;
        if event.status == 0 {
            return 0;
        }
        set_errno(if event.event == EventKind::Rejected as c_int {
            libc::ECONNREFUSED
        } else {
            event.status.saturating_abs()
        });
        -1
    }
}

/// `rdma_event_str(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    let name = match event {
        0 => c"RDMA_CM_EVENT_ADDR_RESOLVED",
        1 => c"RDMA_CM_EVENT_ADDR_ERROR",
        2 => c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        3 => c"RDMA_CM_EVENT_ROUTE_ERROR",
        4 => c"RDMA_CM_EVENT_CONNECT_REQUEST",
        5 => c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        6 => c"RDMA_CM_EVENT_CONNECT_ERROR",
        7 => c"RDMA_CM_EVENT_UNREACHABLE",
        8 => c"RDMA_CM_EVENT_REJECTED",
        9 => c"RDMA_CM_EVENT_ESTABLISHED",
        10 => c"RDMA_CM_EVENT_DISCONNECTED",
        11 => c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        12 => c"RDMA_CM_EVENT_MULTICAST_JOIN",
        13 => c"RDMA_CM_EVENT_MULTICAST_ERROR",
        14 => c"RDMA_CM_EVENT_ADDR_CHANGE",
        15 => c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        16 => c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
        17 => c"RDMA_CM_EVENT_ADDRINFO_ERROR",
        _ => c"UNKNOWN EVENT",
    };
    name.as_ptr()
}

/// Puts an event of the program's own into a channel: `rdma_write_cm_event(3)`.
///
/// # Safety
///
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_write_cm_event(
    id: *mut RdmaCmId,
    event: c_int,
    status: c_int,
    argument: u64,
) -> c_int {
    call("rdma_write_cm_event", || {
        // SAFETY: as the program says.
        let id = unsafe { Id::of(id) }?;
        if event != EventKind::User as c_int {
            return Err(Refusal(EINVAL));
        }
        let parameters = EventParameters::Argument(argument);
        Manager::of_process()?.tell(id.number, EventKind::User, status, parameters);
        Ok(())
    })
}
