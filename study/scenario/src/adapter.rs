//! Adapters, of studies and of presets.

use viaduct_cluster::config::UNLIMITED;
use viaduct_engine::Time;
use viaduct_hardware::{
    FirmwareModel, KernelModel, Mechanism, NicModel, NoticeModel, Rate, RdmaModel,
    RemoteWriteModel, Switching, Ways,
};

use crate::endpoints::EndpointTables;
use crate::keys::Table;
use crate::schema::{Firmware, Kernel, MechanismKind, Nic, Rdma, RemoteWrites, Repeat, WaysKind};
use crate::section::{Absent, AnySetting, Section, Setting};

/// The table of an adapter's own mechanism.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each study")]
pub(crate) enum Adapter {
    Native(Nic),
    RemoteWrites(RemoteWrites),
    Firmware(Firmware),
    Kernel(Kernel),
    Rdma(Rdma),
    Endpoints(EndpointTables),
}

/// The tables of all mechanisms.
pub(crate) fn tables() -> [(MechanismKind, &'static Table); 10] {
    let of_endpoints = EndpointTables::tables();
    let [endpoints, interface, host, network, transport] =
        of_endpoints.map(|table| (MechanismKind::Endpoints, table));
    [
        (MechanismKind::Native, Nic::table()),
        (MechanismKind::RemoteWrites, RemoteWrites::table()),
        (MechanismKind::Firmware, Firmware::table()),
        (MechanismKind::Kernel, Kernel::table()),
        (MechanismKind::Rdma, Rdma::table()),
        endpoints,
        interface,
        host,
        network,
        transport,
    ]
}

impl Adapter {
    pub(crate) fn list(&self) -> Vec<&dyn AnySetting> {
        match self {
            Self::Native(table) => table.list(),
            Self::RemoteWrites(table) => table.list(),
            Self::Firmware(table) => table.list(),
            Self::Kernel(table) => table.list(),
            Self::Rdma(table) => table.list(),
            Self::Endpoints(tables) => tables.list(),
        }
    }

    /// The one with VIA of its own, if it is that.
    pub(crate) const fn native(&self) -> Option<&Nic> {
        match self {
            Self::Native(nic) => Some(nic),
            _ => None,
        }
    }

    /// The largest message that a descriptor takes; none where there are no descriptors.
    pub(crate) const fn transfer_max(&self) -> Option<&Setting<u32>> {
        match self {
            Self::Native(table) => Some(&table.transfer_max),
            Self::RemoteWrites(table) => Some(&table.transfer_max),
            Self::Firmware(table) => Some(&table.transfer_max),
            Self::Kernel(table) => Some(&table.transfer_max),
            Self::Rdma(table) => Some(&table.transfer_max),
            Self::Endpoints(_) => None,
        }
    }

    pub(crate) fn mechanism(&self) -> Result<Mechanism, Absent> {
        Ok(match self {
            Self::Native(table) => Mechanism::Native(native(table)?),
            Self::RemoteWrites(table) => Mechanism::RemoteWrites(remote_writes(table)?),
            Self::Firmware(table) => Mechanism::Firmware(firmware(table)?),
            Self::Kernel(table) => Mechanism::Kernel(kernel(table)?),
            Self::Rdma(table) => Mechanism::Rdma(rdma(table)?),
            // Whoever carries messages in their place does not ask for it.
            Self::Endpoints(_) => Mechanism::Native(FREE),
        })
    }
}

/// An adapter that costs nothing.
const FREE: NicModel = NicModel {
    doorbell: Time::ZERO,
    send_descriptor: Time::ZERO,
    translate: Time::ZERO,
    inline_bytes: 0,
    dma_setup: Time::ZERO,
    moving_per_vi: UNLIMITED,
    rate: Rate::INFINITE,
    page_bytes: 0,
    page_crossing: Time::ZERO,
    forwarding: Switching::CutThrough,
    receive_match: Time::ZERO,
    completion: Time::ZERO,
};

fn native(nic: &Nic) -> Result<NicModel, Absent> {
    Ok(NicModel {
        doorbell: nic.doorbell.get()?,
        send_descriptor: nic.send_descriptor.get()?,
        translate: nic.translate.get()?,
        inline_bytes: nic.inline.get()?,
        dma_setup: nic.dma_setup.get()?,
        moving_per_vi: nic.moving_per_vi.get()?,
        rate: nic.rate.get()?,
        page_bytes: nic.page.get()?,
        page_crossing: nic.page_crossing.get()?,
        forwarding: nic.forwarding.get()?,
        receive_match: nic.receive_match.get()?,
        completion: nic.completion.get()?,
    })
}

fn remote_writes(table: &RemoteWrites) -> Result<RemoteWriteModel, Absent> {
    Ok(RemoteWriteModel {
        adapter: table.adapter.get()?,
        write_rate: table.write_rate.get()?,
        segment: table.segment.get()?,
        map: table.map.get()?,
        mappings: table.mappings.get()?,
        dma_from_bytes: table.dma_from.get()?,
        dma_request: table.dma_request.get()?,
        dma_written_bytes: table.dma_written.get()?,
        dma_setup: table.dma_setup.get()?,
        dma_interrupt: table.dma_interrupt.get()?,
        slot_bytes: table.slot.get()?,
        queues: table.queues.get()?,
        inline_bytes: table.inline.get()?,
        inline_first_bytes: table.inline_first.get()?,
        inline_next_bytes: table.inline_next.get()?,
        returned_every: table.returned_every.get()?,
        notices: NoticeModel {
            tripwires: table.tripwires.get()?,
            tripwire: table.tripwire.get()?,
            events: table.events.get()?,
            interrupt: table.event_interrupt.get()?,
            event: table.event.get()?,
            look: table.look.get()?,
        },
    })
}

fn firmware(table: &Firmware) -> Result<FirmwareModel, Absent> {
    let (written, staged, streamed) = match table.ways.get()? {
        WaysKind::Staged => (false, true, false),
        WaysKind::Streamed => (false, false, true),
        WaysKind::Adaptive => (true, true, true),
    };
    Ok(FirmwareModel {
        cycle: table.cycle.get()?,
        doorbell_cycles: table.doorbell.get()?,
        descriptor_cycles: table.descriptor.get()?,
        page_cycles: table.page.get()?,
        dma_cycles: table.dma.get()?,
        send_cycles: table.send.get()?,
        receive_cycles: table.receive.get()?,
        completion_cycles: table.completion.get()?,
        packet_bytes: table.packet.get()?,
        page_bytes: table.page_size.get()?,
        write_rate: table.write_rate.get()?,
        ways: Ways {
            written,
            staged,
            streamed,
        },
    })
}

fn kernel(table: &Kernel) -> Result<KernelModel, Absent> {
    Ok(KernelModel {
        system_call: table.system_call.get()?,
        send_frame: table.send_frame.get()?,
        receive_frame: table.receive_frame.get()?,
        copy_rate: table.copy_rate.get()?,
        adapter: table.adapter.get()?,
        interrupt: table.interrupt.get()?,
        coalescing: table.coalescing.get()?,
        frame_bytes: table.frame.get()?,
    })
}

fn rdma(table: &Rdma) -> Result<RdmaModel, Absent> {
    Ok(RdmaModel {
        doorbell: table.doorbell.get()?,
        inline_bytes: table.inline.get()?,
        read: table.read.get()?,
        read_credit_bytes: table.read_credit.get()?,
        message: table.message.get()?,
        fetch_batch: table.fetch_batch.get()?,
        adapters: table.adapters.get()?,
        completion: table.completion.get()?,
        connections: table.connections.get()?,
        retries: table.retries.get()?,
        timeout: table.timeout.get()?,
        repeats_selectively: table.retransmission.get()? == Repeat::Selective,
    })
}
