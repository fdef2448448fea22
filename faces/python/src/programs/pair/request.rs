//! A request, from what a program says to what is posted.

use pyo3::prelude::*;
use viaduct_programs::verbs::flags::send;
use viaduct_programs::verbs::{ScatterGatherElement, SendOpcode};
use viaduct_provider::via::verbs::{DatagramDestination, SendRequest};

use crate::programs::address::PairAddress;
use crate::programs::region::Remote;

/// A request to be posted.
pub(super) struct Wish<'a, 'py> {
    pub(super) opcode: SendOpcode,
    pub(super) offset: usize,
    pub(super) length: Option<usize>,
    pub(super) remote: Option<(&'a Bound<'py, PyAny>, u64)>,
    pub(super) to: Option<&'a Bound<'py, PyAny>>,
    pub(super) immediate: Option<u32>,
    pub(super) inline: bool,
    pub(super) atomic: (u64, u64),
}

impl Wish<'_, '_> {
    pub(super) const fn new(opcode: SendOpcode, offset: usize, length: Option<usize>) -> Self {
        Self {
            opcode,
            offset,
            length,
            remote: None,
            to: None,
            immediate: None,
            inline: false,
            atomic: (0, 0),
        }
    }

    pub(super) fn request<'e, A: Copy>(
        &self,
        number: u64,
        element: &'e [ScatterGatherElement; 1],
        remote: Option<Remote>,
        to: Option<(A, PairAddress)>,
    ) -> SendRequest<'e, A> {
        let mut request = SendRequest::new(number, self.opcode);
        if element[0].length > 0 {
            request.elements = element;
        }
        if self.inline {
            request.flags = send::INLINE;
        }
        if let Some(remote) = remote {
            request = request.with_remote(remote.address, remote.key);
        }
        request.immediate = self.immediate.unwrap_or_default();
        (request.compare_add, request.swap) = self.atomic;
        request.datagram = to.map(|(address, to)| DatagramDestination {
            address,
            queue_pair: to.number,
            queue_key: to.queue_key,
        });
        request
    }
}
