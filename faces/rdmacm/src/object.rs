//! What stands behind the structures that programs hold: channels, identifiers and events.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use libc::{EINVAL, ENODEV};
use viaduct_verbs_abi::{IbvGid, IbvQpInitAttr, QPT_RC, QPT_UD};

use crate::abi::{
    IbvSaPathRec, RdmaAddrinfo, RdmaCmEvent, RdmaCmId, RdmaEventChannel, UDP_QUEUE_KEY,
};
use crate::address;
use crate::devices::{self, Interface, PORT};
use crate::functions::rdma_freeaddrinfo;
use crate::manager::{
    Channel, Ece, EndpointNumber, Ends, Manager, Refusal, Result, Side, Space, random,
};

/// The one partition that there is: everybody in full.
const PARTITION_KEY: u16 = 0xffff;

/// Behind a `rdma_event_channel`.
#[repr(C)]
pub(crate) struct ChannelObject {
    public: RdmaEventChannel,
    pub(crate) channel: Arc<Channel>,
}

impl ChannelObject {
    pub(crate) fn create() -> Result<*mut RdmaEventChannel> {
        let channel = Arc::new(Channel::new()?);
        let public = RdmaEventChannel {
            fd: channel.descriptor(),
        };
        Ok(Box::into_raw(Box::new(Self { public, channel })).cast())
    }

    /// # Safety
    ///
    /// It is NULL, or came from [`Self::create`] and was not destroyed.
    pub(crate) unsafe fn of<'a>(channel: *mut RdmaEventChannel) -> Result<&'a Self> {
        // SAFETY: as the caller says; what is behind it is one of these.
        unsafe { channel.cast::<Self>().as_ref() }.ok_or(Refusal(EINVAL))
    }

    /// # Safety
    ///
    /// As of [`Self::of`]; nobody uses it any more.
    pub(crate) unsafe fn destroy(channel: *mut RdmaEventChannel) {
        if !channel.is_null() {
            // SAFETY: as the caller says.
            drop(unsafe { Box::from_raw(channel.cast::<Self>()) });
        }
    }
}

/// Behind a `rdma_cm_id`. Fields of the public part are the program's to read at any time; the rest
/// is used by one call for an identifier at a time, which is the contract of librdmacm, but for
/// what counts acknowledgements.
#[repr(C)]
pub(crate) struct Id {
    pub(crate) public: RdmaCmId,
    pub(crate) number: EndpointNumber,
    /// Whether its channel is its own, and its calls wait for their event.
    pub(crate) is_synchronous: bool,
    pub(crate) interface: Option<Interface>,
    pub(crate) packet_number: u32,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    /// What this side said when it asked for the connection; `None` of one that was asked.
    pub(crate) retry_count: Option<u8>,
    pub(crate) local_ece: Ece,
    pub(crate) remote_ece: Ece,
    /// Private data that goes ahead of that of `rdma_connect`.
    pub(crate) connect: Vec<u8>,
    /// Of a listener: queue pairs that its connections get.
    pub(crate) queue_pair: Option<IbvQpInitAttr>,
    /// Whether the program was told that its connection has failed already.
    pub(crate) has_failed: bool,
    pub(crate) traffic_class: u8,
    pub(crate) acknowledge_timeout: Option<u8>,
    pub(crate) resolved: *mut RdmaAddrinfo,
    is_resolving: bool,
    acknowledged: Mutex<u32>,
    has_acknowledged: Condvar,
}

impl Id {
    /// Makes an identifier and its endpoint.
    pub(crate) fn create(
        channel: *mut RdmaEventChannel,
        context: *mut c_void,
        port_space: c_int,
        qp_type: c_int,
    ) -> Result<*mut Self> {
        devices::are_there()?;
        address::learn_of_devices(devices::addresses);
        let space = u16::try_from(port_space).ok().and_then(Space::from_code);
        let space = space.ok_or(Refusal(EINVAL))?;
        let is_synchronous = channel.is_null();
        let channel = if is_synchronous {
            ChannelObject::create()?
        } else {
            channel
        };
        let id = Self::alloc(channel, context, port_space, qp_type);
        // SAFETY: the channel is the program's, which says that it is one, or was made above; the
        // identifier was made above.
        unsafe {
            (*id).is_synchronous = is_synchronous;
            let channel = &ChannelObject::of(channel)?.channel;
            let is_datagram = qp_type == QPT_UD;
            (*id).number = Manager::of_process()?.create(channel, id as usize, space, is_datagram);
        }
        Ok(id)
    }

    /// Makes an identifier for an endpoint that there is.
    pub(crate) fn adopt(listener: &Self, number: EndpointNumber) -> Option<*mut Self> {
        let public = &listener.public;
        let id = Self::alloc(public.channel, public.context, public.ps, public.qp_type);
        // SAFETY: it was just made.
        let adopted = unsafe {
            (*id).number = number;
            let manager = Manager::of_process().ok();
            manager.and_then(|manager| manager.adopt(number, id as usize))
        };
        let Some(ends) = adopted else {
            // SAFETY: it was just made.
            drop(unsafe { Box::from_raw(id) });
            return None;
        };
        // SAFETY: as above.
        let id_mut = unsafe { &mut *id };
        id_mut.responder_resources = ends.said.responder_resources;
        id_mut.initiator_depth = ends.said.initiator_depth;
        id_mut.remote_ece = ends.said.ece;
        id_mut.show_addresses(&ends);
        // Without a device it cannot be accepted; that says so then.
        if let Some(source) = ends.source {
            let _ = id_mut.attach(source);
        }
        id_mut.show_path(&ends);
        Some(id)
    }

    fn alloc(
        channel: *mut RdmaEventChannel,
        context: *mut c_void,
        port_space: c_int,
        qp_type: c_int,
    ) -> *mut Self {
        // SAFETY: all of it is numbers and pointers that may be null.
        let mut public: RdmaCmId = unsafe { std::mem::zeroed() };
        public.channel = channel;
        public.context = context;
        public.ps = port_space;
        public.qp_type = qp_type;
        Box::into_raw(Box::new(Self {
            public,
            number: EndpointNumber::NONE,
            is_synchronous: false,
            interface: None,
            packet_number: (random() & 0xff_ffff) as u32,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: None,
            local_ece: Ece::default(),
            remote_ece: Ece::default(),
            connect: Vec::new(),
            queue_pair: None,
            has_failed: false,
            traffic_class: 0,
            acknowledge_timeout: None,
            resolved: ptr::null_mut(),
            is_resolving: false,
            acknowledged: Mutex::new(0),
            has_acknowledged: Condvar::new(),
        }))
    }

    /// # Safety
    ///
    /// It is NULL, or came from here and was not destroyed, and no other call uses it now.
    pub(crate) unsafe fn of<'a>(id: *mut RdmaCmId) -> Result<&'a mut Self> {
        // SAFETY: as the caller says; what is behind it is one of these.
        unsafe { id.cast::<Self>().as_mut() }.ok_or(Refusal(EINVAL))
    }

    pub(crate) fn is_datagram(&self) -> bool {
        self.public.qp_type == QPT_UD
    }

    pub(crate) fn ends(&self) -> Result<Ends> {
        Manager::of_process()?.ends(self.number)
    }

    pub(crate) fn interface(&self) -> Result<Interface> {
        self.interface.ok_or(Refusal(EINVAL))
    }

    /// What the other side must know of this one.
    pub(crate) fn side(&self) -> Result<Side> {
        let interface = self.interface()?;
        let port = interface.device.port()?;
        Ok(Side {
            gid: interface.gid,
            lid: port.lid,
            mtu: port.active_mtu.clamp(1, 5) as u8,
            packet_number: self.packet_number,
            queue_key: UDP_QUEUE_KEY,
        })
    }

    /// Binds it to the device that has an address of this machine.
    pub(crate) fn attach(&mut self, source: SocketAddr) -> Result<()> {
        if self.interface.is_some() || source.ip().is_unspecified() {
            return Ok(());
        }
        let interface = devices::interface_of(source)?;
        let pd = interface.device.take_default_pd()?;
        self.interface = Some(interface);
        self.public.verbs = interface.device.verbs();
        // A program may have given one to a listener's identifier before.
        if self.public.pd.is_null() {
            self.public.pd = pd;
        }
        self.public.port_num = PORT;
        let ib = &mut self.public.route.addr.ib;
        ib.sgid = IbvGid::new(interface.gid);
        ib.pkey = PARTITION_KEY.to_be();
        Ok(())
    }

    pub(crate) fn show_addresses(&mut self, ends: &Ends) {
        let addr = &mut self.public.route.addr;
        if let Some(source) = ends.source {
            address::write(source, &mut addr.source);
        }
        if let Some(destination) = ends.destination {
            address::write(destination, &mut addr.destination);
            addr.ib.dgid = IbvGid::new(address::gid(destination.ip()));
        }
        if let Some(remote) = ends.remote {
            addr.ib.dgid = IbvGid::new(remote.gid);
        }
    }

    /// Shows the one path that there is.
    pub(crate) fn show_path(&mut self, ends: &Ends) {
        let Some(port) = (self.interface).and_then(|interface| interface.device.port().ok()) else {
            return;
        };
        let ib = self.public.route.addr.ib;
        let mtu = port.active_mtu.clamp(1, 5) as u8;
        let path = IbvSaPathRec {
            dgid: ib.dgid,
            sgid: ib.sgid,
            dlid: ends.remote.map_or(0, |remote| remote.lid).to_be(),
            slid: port.lid.to_be(),
            hop_limit: HOP_LIMIT,
            traffic_class: self.traffic_class,
            reversible: 1,
            numb_path: 1,
            pkey: PARTITION_KEY.to_be(),
            // These are exact.
            mtu_selector: 2,
            mtu: ends.remote.map_or(mtu, |remote| remote.mtu.min(mtu)),
            rate_selector: 2,
            // `IBV_RATE_MAX` is no rate of a path; this is 100 Gbit/s.
            rate: 16,
            packet_life_time_selector: 2,
            packet_life_time: PACKET_LIFE_TIME,
            ..IbvSaPathRec::default()
        };
        let route = &mut self.public.route;
        if route.path_rec.is_null() {
            route.path_rec = Box::into_raw(Box::new(path));
        } else {
            // SAFETY: it was made above.
            unsafe { *route.path_rec = path };
        }
        route.num_paths = 1;
    }

    /// Counts an event that its program has acknowledged.
    pub(crate) fn acknowledge(&self) {
        let mut acknowledged = self
            .acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *acknowledged = acknowledged.wrapping_add(1);
        self.has_acknowledged.notify_all();
    }

    /// Waits until so many events have been acknowledged.
    pub(crate) fn wait_for_acknowledgements(&self, count: u32) {
        let acknowledged = self
            .acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .has_acknowledged
            .wait_while(acknowledged, |now| *now < count);
        drop(waited);
    }

    /// One resolution of names at a time.
    pub(crate) fn begin_to_resolve(&mut self) -> Result<()> {
        if self.is_resolving || !self.resolved.is_null() {
            return Err(Refusal(libc::EBUSY));
        }
        self.is_resolving = true;
        Ok(())
    }

    pub(crate) fn has_not_resolved(&mut self) {
        self.is_resolving = false;
    }

    /// Frees it.
    ///
    /// # Safety
    ///
    /// It came from here; nobody uses it any more.
    pub(crate) unsafe fn free(id: *mut Self) {
        // SAFETY: as the caller says.
        let id = unsafe { Box::from_raw(id) };
        if let Some(interface) = id.interface {
            interface.device.give_default_pd_back();
        }
        if !id.public.route.path_rec.is_null() {
            // SAFETY: it was made by `show_path`.
            drop(unsafe { Box::from_raw(id.public.route.path_rec) });
        }
        // SAFETY: a synchronous identifier's channel is its own.
        unsafe {
            if id.is_synchronous {
                ChannelObject::destroy(id.public.channel);
            }
            rdma_freeaddrinfo(id.resolved);
        }
    }
}

/// How far packets go.
pub(crate) const HOP_LIMIT: u8 = 64;

/// How long a packet may be under way, as RoCE has it: 4.096 us times 2 to this power.
pub(crate) const PACKET_LIFE_TIME: u8 = 16;

/// The kind of queue pair of a port space.
pub(crate) fn qp_type_of(port_space: c_int) -> c_int {
    match u16::try_from(port_space).ok().and_then(Space::from_code) {
        Some(Space::Ipoib | Space::Udp) => QPT_UD,
        _ => QPT_RC,
    }
}

/// Behind a `rdma_cm_event`.
#[repr(C)]
pub(crate) struct EventObject {
    pub(crate) public: RdmaCmEvent,
    /// Whose acknowledgement it is: of a request its listener's.
    pub(crate) owner: *mut Id,
    pub(crate) private_data: [u8; 256],
}

impl EventObject {
    pub(crate) fn new(owner: *mut Id) -> Box<Self> {
        // SAFETY: all of it is numbers and pointers that may be null.
        let mut event: Box<Self> = Box::new(unsafe { std::mem::zeroed() });
        event.owner = owner;
        event.public.id = owner.cast();
        event
    }

    /// Keeps private data as long as the event, and returns where it is.
    pub(crate) fn keep(&mut self, data: &[u8]) -> (*const c_void, u8) {
        let bytes = data.len().min(255);
        self.private_data[..bytes].copy_from_slice(&data[..bytes]);
        if bytes == 0 {
            (ptr::null(), 0)
        } else {
            (self.private_data.as_ptr().cast(), bytes as u8)
        }
    }
}

/// A device that an identifier needs and does not have.
pub(crate) const NO_DEVICE: Refusal = Refusal(ENODEV);
