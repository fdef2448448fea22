//! Queue pairs whose requests are built call by call, between `ibv_wr_start` and `ibv_wr_complete`.

use std::ffi::{c_int, c_void};
use std::ops::Range;

use viaduct_rdma::Result;
use viaduct_rdma::verbs::{self, ScatterGatherElement, SendOpcode};
use viaduct_verbs_abi::*;

use crate::call::{self, invalid, unsupported};
use crate::fabric::{self, DatagramDestination, Fabric, Local, Remote, SendRequest};
use crate::objects::{QueuePair, find, given_mut, trust, zeroed};
use crate::post;

/// What a program has built and not completed.
pub(crate) struct Building {
    /// Held from the start to the completion.
    lock: libc::pthread_mutex_t,
    requests: Vec<Built>,
    elements: Vec<ScatterGatherElement>,
    /// Bytes that requests bring with them. Elements of these count from the first byte here until
    /// they are posted, since the bytes may move.
    bytes: Vec<u8>,
    /// The first mistake: told when the program completes.
    mistake: Option<viaduct_rdma::Error>,
}

struct Built {
    request: SendRequest<'static>,
    elements: Range<usize>,
    is_inline: bool,
}

impl Default for Building {
    fn default() -> Self {
        Self {
            lock: zeroed(),
            requests: Vec::new(),
            elements: Vec::new(),
            bytes: Vec::new(),
            mistake: None,
        }
    }
}

impl Building {
    fn clear(&mut self) {
        self.requests.clear();
        self.elements.clear();
        self.bytes.clear();
        self.mistake = None;
    }

    fn mistake(&mut self, reason: &'static str) {
        self.mistake.get_or_insert_with(|| invalid(reason));
    }

    /// The request that setters speak of.
    fn last(&mut self) -> Option<&mut Built> {
        if self.requests.is_empty() {
            self.mistake("a setter before a request");
        }
        self.requests.last_mut()
    }

    /// Posts all requests, whose inline bytes were copied.
    #[inline(always)]
    fn post<F: Fabric>(&self, pair: F::Pair) -> Result<()> {
        let request = |built: &Built| -> Result<verbs::SendRequest<'_, F::Address>> {
            let inline = if built.is_inline { SEND_INLINE } else { 0 };
            let of = &built.request;
            let datagram = match &of.datagram {
                Some(to) => Some(verbs::DatagramDestination {
                    address: F::address(&to.address)?,
                    queue_pair: to.queue_pair,
                    queue_key: to.queue_key,
                }),
                None => None,
            };
            Ok(verbs::SendRequest {
                request: of.request,
                opcode: of.opcode,
                flags: of.flags | inline,
                elements: &self.elements[built.elements.clone()],
                immediate: of.immediate,
                remote_address: of.remote_address,
                remote_key: of.remote_key,
                compare_add: of.compare_add,
                swap: of.swap,
                datagram,
            })
        };
        // SAFETY: what is inline was copied.
        unsafe {
            match self.requests.as_slice() {
                [] => Ok(()),
                [one] => F::post_sends(pair, std::slice::from_ref(&request(one)?)),
                all => F::post_sends(pair, &all.iter().map(request).collect::<Result<Vec<_>>>()?),
            }
        }
    }

    /// Elements for the request, instead of those that it has.
    fn set(&mut self, elements: &[ScatterGatherElement], is_inline: bool) {
        let first = self.elements.len();
        self.elements.extend_from_slice(elements);
        let range = first..self.elements.len();
        if let Some(built) = self.last() {
            built.elements = range;
            built.is_inline = is_inline;
        }
    }

    /// A copy of bytes, as an element.
    ///
    /// # Safety
    ///
    /// So many bytes can be read.
    unsafe fn copied(&mut self, address: *const c_void, bytes: usize) -> ScatterGatherElement {
        let first = self.bytes.len();
        if bytes > 0 {
            // SAFETY: as promised by the caller.
            let new = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), bytes) };
            self.bytes.extend_from_slice(new);
        }
        ScatterGatherElement {
            address: first as u64,
            length: bytes as u32,
            local_key: 0,
        }
    }
}

const KNOWN_OPERATIONS: u64 = QP_EX_WITH_RDMA_WRITE
    | QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | QP_EX_WITH_SEND
    | QP_EX_WITH_SEND_WITH_IMM
    | QP_EX_WITH_RDMA_READ
    | QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// What a datagram queue pair, and one that does not answer, can do.
fn operations_of(kind: c_int) -> u64 {
    let sends = QP_EX_WITH_SEND | QP_EX_WITH_SEND_WITH_IMM;
    let writes = QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    match kind {
        QPT_UD => sends,
        QPT_UC => sends | writes,
        _ => KNOWN_OPERATIONS,
    }
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    _context: *mut IbvContext,
    attributes: *mut IbvQpInitAttrEx,
) -> *mut IbvQp {
    call::pointer("ibv_create_qp_ex", || {
        // SAFETY: the program passes its attributes.
        let wanted = unsafe { given_mut(attributes, "no attributes") }?;
        let mask = wanted.comp_mask;
        let known = QP_INIT_ATTR_PD | QP_INIT_ATTR_SEND_OPS_FLAGS | QP_INIT_ATTR_CREATE_FLAGS;
        if mask & !known != 0 {
            return Err(unsupported(
                "a bit of comp_mask: XRC, segmentation or spreading",
            ));
        }
        if mask & QP_INIT_ATTR_PD == 0 {
            return Err(invalid("no protection domain"));
        }
        if mask & QP_INIT_ATTR_CREATE_FLAGS != 0 && wanted.create_flags != 0 {
            return Err(unsupported("a flag that is not known"));
        }
        let operations = if mask & QP_INIT_ATTR_SEND_OPS_FLAGS == 0 {
            None
        } else if wanted.send_ops_flags & !operations_of(wanted.qp_type) != 0 {
            return Err(unsupported(
                "an operation that queue pairs of this type have not",
            ));
        } else {
            Some(wanted.send_ops_flags)
        };
        let mut ordinary = IbvQpInitAttr {
            qp_context: wanted.qp_context,
            send_cq: wanted.send_cq,
            recv_cq: wanted.recv_cq,
            srq: wanted.srq,
            cap: wanted.cap,
            qp_type: wanted.qp_type,
            sq_sig_all: wanted.sq_sig_all,
        };
        let building = operations.map(|_| Building::default());
        let pair = crate::pair::create(wanted.pd, &mut ordinary, building)?;
        wanted.cap = ordinary.cap;
        if let Some(operations) = operations {
            // SAFETY: it is live, and nobody else has it yet.
            offer(
                unsafe { &mut (*trust::<QueuePair>(pair)).verbs },
                operations,
            );
        }
        Ok(pair)
    })
}

/// Functions for the operations that the program asked for, and for no others.
fn offer(verbs: &mut IbvQpEx, operations: u64) {
    macro_rules! operations {
        ($($flag:ident $place:ident $function:ident;)+) => {$(
            if operations & $flag != 0 {
                verbs.$place = Some($function);
            }
        )+};
    }
    operations! {
        QP_EX_WITH_RDMA_WRITE wr_rdma_write rdma_write;
        QP_EX_WITH_RDMA_WRITE_WITH_IMM wr_rdma_write_imm rdma_write_immediate;
        QP_EX_WITH_SEND wr_send send;
        QP_EX_WITH_SEND_WITH_IMM wr_send_imm send_immediate;
        QP_EX_WITH_RDMA_READ wr_rdma_read rdma_read;
        QP_EX_WITH_ATOMIC_CMP_AND_SWP wr_atomic_cmp_swp compare_and_swap;
        QP_EX_WITH_ATOMIC_FETCH_AND_ADD wr_atomic_fetch_add fetch_and_add;
    }
    if verbs.base.qp_type == QPT_UD {
        verbs.wr_set_ud_addr = Some(set_datagram);
    }
    verbs.wr_set_inline_data = Some(set_inline);
    verbs.wr_set_inline_data_list = Some(set_inline_list);
    verbs.wr_set_sge = Some(set_element);
    verbs.wr_set_sge_list = Some(set_elements);
    verbs.wr_start = Some(start);
    verbs.wr_complete = Some(complete);
    verbs.wr_abort = Some(abort);
}

/// `ibv_qp_to_qp_ex`: null for a queue pair that was made without operations.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_qp_to_qp_ex(pair: *mut IbvQp) -> *mut IbvQpEx {
    call::pointer("ibv_qp_to_qp_ex", || {
        let pair = find::<QueuePair>(pair)?;
        // SAFETY: it is live.
        let pair = unsafe { &mut *pair };
        if !pair.is_extended {
            return Err(unsupported("it was made without send_ops_flags"));
        }
        Ok(&raw mut pair.verbs)
    })
}

/// # Safety
///
/// The queue pair is live, and this thread builds.
unsafe fn building<'a>(pair: *mut IbvQpEx) -> &'a mut Building {
    // SAFETY: as promised by the caller.
    unsafe { &mut *(*trust::<QueuePair>(pair.cast())).building.get() }
}

/// Begins a request with the word and the flags that the program has written.
///
/// # Safety
///
/// As for [`building`].
unsafe fn begin(pair: *mut IbvQpEx, opcode: SendOpcode, fill: impl FnOnce(&mut SendRequest<'_>)) {
    // SAFETY: as promised by the caller.
    let (word, flags) = unsafe { ((*pair).wr_id, (*pair).wr_flags) };
    // Whether bytes are inline is said by the setter.
    let mut request = SendRequest::new(word, opcode).with_flags(flags & !SEND_INLINE);
    fill(&mut request);
    // SAFETY: as promised by the caller.
    unsafe { building(pair) }.requests.push(Built {
        request,
        elements: 0..0,
        is_inline: false,
    });
}

unsafe extern "C" fn send(pair: *mut IbvQpEx) {
    // SAFETY: the program builds on this queue pair.
    unsafe { begin(pair, SendOpcode::Send, |_| ()) }
}

unsafe extern "C" fn send_immediate(pair: *mut IbvQpEx, immediate: u32) {
    // SAFETY: the program builds on this queue pair.
    unsafe {
        begin(pair, SendOpcode::SendWithImmediate, |request| {
            request.immediate = immediate
        })
    }
}

unsafe extern "C" fn rdma_write(pair: *mut IbvQpEx, key: u32, address: u64) {
    // SAFETY: the program builds on this queue pair.
    unsafe {
        begin(pair, SendOpcode::RdmaWrite, |request| {
            (request.remote_key, request.remote_address) = (key, address);
        });
    }
}

unsafe extern "C" fn rdma_write_immediate(
    pair: *mut IbvQpEx,
    key: u32,
    address: u64,
    immediate: u32,
) {
    // SAFETY: the program builds on this queue pair.
    unsafe {
        begin(pair, SendOpcode::RdmaWriteWithImmediate, |request| {
            (request.remote_key, request.remote_address) = (key, address);
            request.immediate = immediate;
        });
    }
}

unsafe extern "C" fn rdma_read(pair: *mut IbvQpEx, key: u32, address: u64) {
    // SAFETY: the program builds on this queue pair.
    unsafe {
        begin(pair, SendOpcode::RdmaRead, |request| {
            (request.remote_key, request.remote_address) = (key, address);
        });
    }
}

unsafe extern "C" fn compare_and_swap(
    pair: *mut IbvQpEx,
    key: u32,
    address: u64,
    compare: u64,
    swap: u64,
) {
    // SAFETY: the program builds on this queue pair.
    unsafe {
        begin(pair, SendOpcode::AtomicCompareAndSwap, |request| {
            (request.remote_key, request.remote_address) = (key, address);
            (request.compare_add, request.swap) = (compare, swap);
        });
    }
}

unsafe extern "C" fn fetch_and_add(pair: *mut IbvQpEx, key: u32, address: u64, add: u64) {
    // SAFETY: the program builds on this queue pair.
    unsafe {
        begin(pair, SendOpcode::AtomicFetchAndAdd, |request| {
            (request.remote_key, request.remote_address) = (key, address);
            request.compare_add = add;
        });
    }
}

unsafe extern "C" fn set_datagram(pair: *mut IbvQpEx, handle: *mut IbvAh, number: u32, key: u32) {
    let to = IbvUd {
        ah: handle,
        remote_qpn: number,
        remote_qkey: key,
    };
    // SAFETY: the program builds on this queue pair, with an address handle that is live.
    let (building, to) = unsafe { (building(pair), post::destination(to)) };
    let to: Option<DatagramDestination> = match to {
        Ok(to) => Some(to),
        Err(mistake) => {
            building.mistake.get_or_insert(mistake);
            None
        }
    };
    if let Some(built) = building.last() {
        built.request.datagram = to;
    }
}

unsafe extern "C" fn set_element(pair: *mut IbvQpEx, key: u32, address: u64, length: u32) {
    let element = ScatterGatherElement {
        address,
        length,
        local_key: key,
    };
    // SAFETY: the program builds on this queue pair.
    unsafe { building(pair) }.set(&[element], false);
}

unsafe extern "C" fn set_elements(pair: *mut IbvQpEx, count: usize, list: *const IbvSge) {
    // SAFETY: the program builds on this queue pair, with a list of so many elements.
    unsafe {
        let list = if count == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(list.cast::<ScatterGatherElement>(), count)
        };
        building(pair).set(list, false);
    }
}

unsafe extern "C" fn set_inline(pair: *mut IbvQpEx, address: *mut c_void, length: usize) {
    // SAFETY: the program builds on this queue pair, with bytes that can be read.
    unsafe {
        let building = building(pair);
        let element = building.copied(address, length);
        building.set(&[element], true);
    }
}

unsafe extern "C" fn set_inline_list(pair: *mut IbvQpEx, count: usize, list: *const IbvDataBuf) {
    // SAFETY: the program builds on this queue pair, with bytes that can be read.
    unsafe {
        let building = building(pair);
        // One piece of memory after the other is one element.
        let mut all = building.copied(std::ptr::null(), 0);
        for index in 0..count {
            let each = &*list.add(index);
            all.length += building.copied(each.addr, each.length).length;
        }
        building.set(&[all], true);
    }
}

unsafe extern "C" fn start(pair: *mut IbvQpEx) {
    // SAFETY: the program passes a live queue pair.
    unsafe {
        let building = (*trust::<QueuePair>(pair.cast())).building.get();
        libc::pthread_mutex_lock(&raw mut (*building).lock);
        (*building).clear();
    }
}

unsafe extern "C" fn complete(pair: *mut IbvQpEx) -> c_int {
    // SAFETY: the program builds on this queue pair.
    let (building, handle) = unsafe { (building(pair), crate::pair::handle(pair.cast())) };
    let number = call::status("ibv_wr_complete", || {
        if let Some(mistake) = building.mistake.take() {
            return Err(mistake);
        }
        for built in building.requests.iter().filter(|built| built.is_inline) {
            for element in &mut building.elements[built.elements.clone()] {
                // The bytes stay where they are from here on.
                element.address += building.bytes.as_ptr() as u64;
            }
        }
        match handle {
            fabric::QueuePair::Local(pair) => building.post::<Local>(pair),
            fabric::QueuePair::Remote(pair) => building.post::<Remote>(pair),
        }
    });
    // SAFETY: locked by the start.
    unsafe { libc::pthread_mutex_unlock(&raw mut building.lock) };
    number
}

unsafe extern "C" fn abort(pair: *mut IbvQpEx) {
    // SAFETY: the program builds on this queue pair; locked by the start.
    unsafe {
        let building = building(pair);
        building.clear();
        libc::pthread_mutex_unlock(&raw mut building.lock);
    }
}
