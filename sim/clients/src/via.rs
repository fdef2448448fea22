//! Requests about VIs as operations of the fabric of simulated hosts.

use std::ptr::NonNull;
use std::sync::Arc;

use viaduct_calls::put_answer;
use viaduct_calls::via::{Failed, Found, Request, Told};
use viaduct_programs::outside::Owner;
use viaduct_programs::{Process, SimulatedFabric};
use viaduct_provider::via::{MemoryAttributes, MemoryHandle, Queue};
use viaduct_provider::{
    AsynchronousError, CompletionEntry, CompletionQueueHandle, Descriptor, Done, Error, NicHandle,
    Provider as _, Result, ReturnCode, ViHandle,
};

use crate::handlers::Given;
use crate::looks::Place;
use crate::perform::Asker;

/// Carries out a request: the bytes of its answer.
#[expect(clippy::too_many_lines, reason = "one arm for each request")]
pub(crate) fn perform(process: &Process, asker: &Asker, request: Request) -> Vec<u8> {
    let process = &request
        .handle()
        .map_or_else(|| process.clone(), |bits| process.at_adapter_of(bits));
    let fabric = &*process.fabric();
    let mut bytes = Vec::new();
    let into = &mut bytes;
    match request {
        Request::OpenNic { device } => put_answer(&open(process, asker, &device), into),
        Request::CloseNic { nic } => put_answer(&close(process, fabric, asker, nic), into),
        Request::QueryNic { nic } => put_answer(&fabric.query_nic(nic), into),
        Request::CreateVi {
            nic,
            attributes,
            completions: (sends, receives),
        } => put_answer(&fabric.create_vi(nic, &attributes, sends, receives), into),
        Request::DestroyVi { vi } => put_answer(&fabric.destroy_vi(vi), into),
        Request::QueryVi { vi } => put_answer(&fabric.query_vi(vi), into),
        Request::SetViAttributes { vi, attributes } => {
            put_answer(&fabric.set_vi_attributes(vi, &attributes), into);
        }
        Request::ConnectWait { nic, local, limit } => {
            put_answer(&fabric.connect_wait(nic, &local, limit), into);
        }
        Request::ConnectAccept { connection, vi } => {
            put_answer(&fabric.connect_accept(connection, vi), into);
        }
        Request::ConnectReject { connection } => {
            put_answer(&fabric.connect_reject(connection), into);
        }
        Request::ConnectRequest {
            vi,
            local,
            remote,
            limit,
        } => put_answer(&fabric.connect_request(vi, &local, &remote, limit), into),
        Request::Disconnect { vi } => put_answer(&fabric.disconnect(vi), into),
        Request::ConnectPeerRequest {
            vi,
            local,
            remote,
            limit,
        } => {
            let asked = fabric.connect_peer_request(vi, &local, &remote, limit);
            put_answer(&asked, into);
        }
        Request::ConnectPeerDone { vi } => put_answer(&fabric.connect_peer_done(vi), into),
        Request::ConnectPeerWait { vi } => put_answer(&fabric.connect_peer_wait(vi), into),
        Request::CreateTag { nic } => put_answer(&fabric.create_protection_tag(nic), into),
        Request::DestroyTag { nic, tag } => {
            put_answer(&fabric.destroy_protection_tag(nic, tag), into);
        }
        Request::RegisterMemory {
            nic,
            address,
            length,
            attributes,
        } => {
            let made = register(fabric, asker, nic, (address, length), &attributes);
            put_answer(&made, into);
        }
        Request::DeregisterMemory {
            nic,
            address,
            handle,
        } => {
            let address = asker.pointer(address);
            put_answer(&fabric.deregister_memory(nic, address, handle), into);
        }
        Request::QueryMemory {
            nic,
            address,
            handle,
        } => {
            let address = asker.pointer(address);
            put_answer(&fabric.query_memory(nic, address, handle), into);
        }
        Request::SetMemoryAttributes {
            nic,
            address,
            handle,
            attributes,
        } => {
            let address = asker.pointer(address);
            let set = fabric.set_memory_attributes(nic, address, handle, &attributes);
            put_answer(&set, into);
        }
        Request::Post {
            vi,
            queue,
            descriptor,
            handle,
        } => put_answer(&post(fabric, asker, (vi, queue), descriptor, handle), into),
        Request::Done { vi, queue } => {
            put_answer(&done(process, fabric, asker, vi, queue), into);
        }
        Request::Wait { vi, queue, limit } => {
            let found = match queue {
                Queue::Send => fabric.send_wait(vi, limit),
                Queue::Receive => fabric.receive_wait(vi, limit),
            };
            put_answer(&found.map(|found| asker.found(found)), into);
        }
        Request::Notify { vi, queue, handler } => {
            put_answer(&notify(process, fabric, asker, (vi, queue), handler), into);
        }
        Request::CreateQueue { nic, entries } => {
            put_answer(&fabric.create_completion_queue(nic, entries), into);
        }
        Request::DestroyQueue { queue } => {
            put_answer(&fabric.destroy_completion_queue(queue), into);
        }
        Request::ResizeQueue { queue, entries } => {
            put_answer(&fabric.resize_completion_queue(queue, entries), into);
        }
        Request::EntryDone { queue } => {
            put_answer(&entry_done(process, fabric, asker, queue), into);
        }
        Request::EntryWait { queue, limit } => {
            put_answer(&fabric.completion_wait(queue, limit), into);
        }
        Request::EntryNotify { queue, handler } => {
            let given = Given::new(&asker.handlers, handler);
            let process = process.clone();
            let set = fabric.completion_notify(
                queue,
                Box::new(move |nic, entry| {
                    given.call(&process, |handler| Told::Entry {
                        handler,
                        nic,
                        entry,
                    });
                }),
            );
            put_answer(&set, into);
        }
        Request::HostByName { nic, name, index } => {
            put_answer(&fabric.host_by_name(nic, &name, index), into);
        }
        Request::HostByAddress { nic, address } => {
            put_answer(&fabric.host_by_address(nic, address), into);
        }
        Request::Discover { nic, hops } => put_answer(&fabric.discover(nic, hops), into),
        Request::SetFlowControl { vi, is_enabled } => {
            put_answer(&fabric.set_flow_control(vi, is_enabled), into);
        }
        Request::SetRequestSplitting { vi, is_enabled } => {
            put_answer(&fabric.set_request_splitting(vi, is_enabled), into);
        }
        Request::SetAnyTag { nic, tag } => put_answer(&fabric.set_any_tag(nic, tag), into),
        // Whoever gives turns answers it: time does not matter to it, nor the host.
        Request::NextCall => {}
    }
    bytes
}

impl Asker {
    /// An address that its client gives, as the fabric knows its memory.
    fn pointer(&self, address: u64) -> *mut u8 {
        let named = match address {
            0 => 0,
            address => self.memory.name_written(address),
        };
        std::ptr::without_provenance_mut(named as usize)
    }

    fn found(&self, done: Done) -> Found {
        let found = |descriptor: NonNull<Descriptor>, is_error| Found::Descriptor {
            address: address_of(self.memory, descriptor),
            is_error,
        };
        match done {
            Done::NotDone => Found::NotDone,
            Done::Empty => Found::Empty,
            Done::Complete(descriptor) => found(descriptor, false),
            Done::Failed(descriptor) => found(descriptor, true),
        }
    }
}

/// A descriptor by its address in the client.
fn address_of(memory: Owner, descriptor: NonNull<Descriptor>) -> u64 {
    memory.plain_of_own(descriptor.addr().get() as u64)
}

/// Opens a NIC of the host. What goes wrong with it is told to the client's handlers.
fn open(process: &Process, asker: &Asker, device: &str) -> Result<NicHandle> {
    let process = process.at_device(device)?;
    let fabric = process.fabric();
    let nic = fabric.open_nic(device)?;
    asker.opened.lock().nics.push(nic);
    let (handlers, memory) = (asker.handlers.clone(), asker.memory);
    let tell = move |error: &AsynchronousError| {
        let failed = Failed {
            nic: error.nic,
            vi: error.vi,
            completion_queue: error.completion_queue,
            address: error.descriptor.map(|it| address_of(memory, it)),
            operation: error.operation,
            code: error.code,
        };
        handlers.tell(&process, Told::Error(failed));
    };
    fabric.set_error_handler(nic, Some(Arc::new(tell)))?;
    Ok(nic)
}

/// Closes it, once a handler of its that runs has returned: unless it is that one that closes.
fn close(process: &Process, fabric: &SimulatedFabric, asker: &Asker, nic: NicHandle) -> Result<()> {
    while asker.handlers.is_running(nic, asker.thread) {
        process.relax();
    }
    fabric.close_nic(nic)?;
    asker.opened.lock().nics.retain(|opened| *opened != nic);
    Ok(())
}

fn register(
    fabric: &SimulatedFabric,
    asker: &Asker,
    nic: NicHandle,
    (address, length): (u64, u64),
    attributes: &MemoryAttributes,
) -> Result<MemoryHandle> {
    if asker.memory.name_range(address, length).is_none() {
        let reason = "the range ends past the end of memory";
        return Err(Error::new(ReturnCode::InvalidParameter, reason));
    }
    let address = asker.pointer(address);
    // SAFETY: the memory is the client's, which is read and written by copies of the kernel; where
    // it is not there, these fail.
    unsafe { fabric.register_memory(nic, address, length as usize, attributes) }
}

fn post(
    fabric: &SimulatedFabric,
    asker: &Asker,
    (vi, queue): (ViHandle, Queue),
    descriptor: u64,
    handle: MemoryHandle,
) -> Result<()> {
    let descriptor = asker.pointer(descriptor).cast();
    // SAFETY: as for memory: it is looked at when it lies in a region, and all are clients'.
    unsafe {
        match queue {
            Queue::Send => fabric.post_send(vi, descriptor, handle),
            Queue::Receive => fabric.post_receive(vi, descriptor, handle),
        }
    }
}

/// A look at a work queue. One in a loop stands for several.
fn done(
    process: &Process,
    fabric: &SimulatedFabric,
    asker: &Asker,
    vi: ViHandle,
    queue: Queue,
) -> Result<Found> {
    let (place, now) = (Place::of_vi(vi, queue), process.time());
    let found = fabric.done(vi, queue, asker.looks.next_of_one(place, now))?;
    let is_found = found != Done::NotDone;
    asker.looks.note(place, now, process.time(), is_found);
    Ok(asker.found(found))
}

/// A look into a completion queue, as [`done`].
fn entry_done(
    process: &Process,
    fabric: &SimulatedFabric,
    asker: &Asker,
    queue: CompletionQueueHandle,
) -> Result<Option<CompletionEntry>> {
    let (place, now) = (Place::Entries(queue), process.time());
    let found = fabric.entry_done(queue, asker.looks.next_of_one(place, now))?;
    let is_found = found.is_some();
    asker.looks.note(place, now, process.time(), is_found);
    Ok(found)
}

fn notify(
    process: &Process,
    fabric: &SimulatedFabric,
    asker: &Asker,
    (vi, queue): (ViHandle, Queue),
    handler: u64,
) -> Result<()> {
    let given = Given::new(&asker.handlers, handler);
    let (process, memory) = (process.clone(), asker.memory);
    let tell = Box::new(move |nic, vi, descriptor| {
        given.call(&process, |handler| Told::Descriptor {
            handler,
            nic,
            vi,
            address: address_of(memory, descriptor),
        });
    });
    match queue {
        Queue::Send => fabric.send_notify(vi, tell),
        Queue::Receive => fabric.receive_notify(vi, tell),
    }
}
