//! Connections: client and server, and between peers.

use crate::abi::{
    VipConnHandle, VipNetAddress, VipNicHandle, VipReturn, VipUlong, VipViAttributes, VipViHandle,
};
use crate::address;
use crate::attributes::remote_attributes_to_c;
use crate::call::{call, connection_handle, given, limit, nic_handle, pointer, vi_handle};
use crate::fabric::fabric;

/// Waits for a request to an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectWait(
    NicHandle: VipNicHandle,
    LocalAddr: *mut VipNetAddress,
    Timeout: VipUlong,
    RemoteAddr: *mut VipNetAddress,
    RemoteViAttribs: *mut VipViAttributes,
    ConnHandle: *mut VipConnHandle,
) -> VipReturn {
    call("VipConnectWait", || {
        let nic = nic_handle(NicHandle)?;
        let local = given(LocalAddr, "LocalAddr")?;
        let remote = given(RemoteAddr, "RemoteAddr")?;
        let attributes = given(RemoteViAttribs, "RemoteViAttribs")?;
        let connection = given(ConnHandle, "ConnHandle")?;
        // SAFETY: the program gives an address with as many bytes as its lengths say.
        let local = unsafe { address::read(local) }?;
        let request = fabric().connect_wait(nic, &local, limit(Timeout))?;
        // SAFETY: the program gives variables for the results, and for an address as much room as
        // the longest discriminator takes.
        unsafe {
            let discriminator = request.remote.discriminator.as_bytes();
            address::write(remote, request.remote.host, discriminator);
            attributes.write(remote_attributes_to_c(&request.attributes));
            connection.write(pointer(request.connection.bits()));
        }
        Ok(VipReturn::Success)
    })
}

/// Accepts a request with an idle VI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectAccept(
    ConnHandle: VipConnHandle,
    ViHandle: VipViHandle,
) -> VipReturn {
    call("VipConnectAccept", || {
        fabric().connect_accept(connection_handle(ConnHandle)?, vi_handle(ViHandle)?)?;
        Ok(VipReturn::Success)
    })
}

/// Rejects a request.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectReject(ConnHandle: VipConnHandle) -> VipReturn {
    call("VipConnectReject", || {
        fabric().connect_reject(connection_handle(ConnHandle)?)?;
        Ok(VipReturn::Success)
    })
}

/// Asks for a connection and waits for the answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectRequest(
    ViHandle: VipViHandle,
    LocalAddr: *mut VipNetAddress,
    RemoteAddr: *mut VipNetAddress,
    Timeout: VipUlong,
    RemoteViAttribs: *mut VipViAttributes,
) -> VipReturn {
    call("VipConnectRequest", || {
        let vi = vi_handle(ViHandle)?;
        let local = given(LocalAddr, "LocalAddr")?;
        let remote = given(RemoteAddr, "RemoteAddr")?;
        let attributes = given(RemoteViAttribs, "RemoteViAttribs")?;
        // SAFETY: the program gives addresses with as many bytes as their lengths say.
        let (local, remote) = unsafe { (address::read(local)?, address::read(remote)?) };
        let answer = fabric().connect_request(vi, &local, &remote, limit(Timeout))?;
        // SAFETY: the program gives a variable for the result.
        unsafe { attributes.write(remote_attributes_to_c(&answer)) };
        Ok(VipReturn::Success)
    })
}

/// Ends the connection and flushes both queues.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipDisconnect(ViHandle: VipViHandle) -> VipReturn {
    call("VipDisconnect", || {
        fabric().disconnect(vi_handle(ViHandle)?)?;
        Ok(VipReturn::Success)
    })
}

/// Starts a connection between equals.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerRequest(
    ViHandle: VipViHandle,
    LocalAddr: *mut VipNetAddress,
    RemoteAddr: *mut VipNetAddress,
    Timeout: VipUlong,
) -> VipReturn {
    call("VipConnectPeerRequest", || {
        let vi = vi_handle(ViHandle)?;
        let local = given(LocalAddr, "LocalAddr")?;
        let remote = given(RemoteAddr, "RemoteAddr")?;
        // SAFETY: the program gives addresses with as many bytes as their lengths say.
        let (local, remote) = unsafe { (address::read(local)?, address::read(remote)?) };
        fabric().connect_peer_request(vi, &local, &remote, limit(Timeout))?;
        Ok(VipReturn::Success)
    })
}

/// Whether it has come about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerDone(
    ViHandle: VipViHandle,
    RemoteViAttribs: *mut VipViAttributes,
) -> VipReturn {
    call("VipConnectPeerDone", || {
        let vi = vi_handle(ViHandle)?;
        let attributes = given(RemoteViAttribs, "RemoteViAttribs")?;
        let Some(answer) = fabric().connect_peer_done(vi)? else {
            return Ok(VipReturn::NotDone);
        };
        // SAFETY: the program gives a variable for the result.
        unsafe { attributes.write(remote_attributes_to_c(&answer)) };
        Ok(VipReturn::Success)
    })
}

/// Waits until it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipConnectPeerWait(
    ViHandle: VipViHandle,
    RemoteViAttribs: *mut VipViAttributes,
) -> VipReturn {
    call("VipConnectPeerWait", || {
        let vi = vi_handle(ViHandle)?;
        let attributes = given(RemoteViAttribs, "RemoteViAttribs")?;
        let answer = fabric().connect_peer_wait(vi)?;
        // SAFETY: the program gives a variable for the result.
        unsafe { attributes.write(remote_attributes_to_c(&answer)) };
        Ok(VipReturn::Success)
    })
}
