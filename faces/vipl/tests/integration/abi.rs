//! The header, the library and the contract agree on every size, offset and value.

use crate::support;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

use vipl::abi::{
    VIP_INFINITE, VIP_SMI_AUTODISCOVERY, VipAutodiscoveryList, VipBoolean, VipControlSegment,
    VipDescriptor, VipDescriptorSegment, VipErrorDescriptor, VipErrorHandler, VipMemAttributes,
    VipMemHandle, VipNetAddress, VipNicAttributes, VipPvoid, VipReliabilityLevel, VipReturn,
    VipUlong, VipViAttributes, VipViCallback,
};

use viaduct_c_programs::abi_numbers;

/// The tables of the contract, as the C program prints them.
const CONTRACT: &str = include_str!("../c/abi.expected");

#[test]
fn the_header_is_the_contract_in_c() {
    for standard in ["c89", "c99", "c11", "gnu17"] {
        assert_eq!(
            support::printed_abi(false, standard),
            CONTRACT,
            "-std={standard}"
        );
    }
}

#[test]
fn the_header_is_the_contract_in_cxx() {
    for standard in ["c++98", "c++11", "c++20"] {
        assert_eq!(
            support::printed_abi(true, standard),
            CONTRACT,
            "-std={standard}"
        );
    }
}

#[test]
fn both_spellings_of_descriptors_compile_with_and_without_vipl095() {
    let source = support::scratch().join("spelling.c");
    let text = "#include <vipl.h>\n\
        VIP_UINT32 both(VIP_DESCRIPTOR *d)\n\
        {\n\
            d->CS.SegCount = 1;\n\
            d->DS[0].Local.Length = 2;\n\
            d->DS[1].Remote.Handle = 3;\n\
            d->CS.Next.Descriptor = d;\n\
            return d->Control.SegCount + d->Data[0].Length + d->Data[1].Handle;\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    for define in [None, Some("-DVIPL095")] {
        let mut command = Command::new(support::compiler(false));
        command.args([
            "-std=c89",
            "-pedantic-errors",
            "-Wall",
            "-Wextra",
            "-Werror",
        ]);
        command.args(define).arg("-I").arg(support::include());
        command.arg("-fsyntax-only").arg(&source);
        support::run(&mut command);
    }
}

#[test]
fn kernel_consumers_get_no_infinite() {
    let source = support::scratch().join("kernel.c");
    let text = "#define VIP_KERNEL\n#include <vipl.h>\n#ifdef VIP_INFINITE\n#error defined\n\
                #endif\nint nothing_else;\n";
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new(support::compiler(false));
    command.arg("-I").arg(support::include());
    support::run(command.arg("-fsyntax-only").arg(&source));
}

macro_rules! offsets {
    ($found:ident, $rust:ty, $name:literal: $($field:ident = $c:literal),+) => {
        $found.push((concat!("sizeof ", $name).to_owned(), size_of::<$rust>()));
        $($found.push((concat!($name, ".", $c).to_owned(), offset_of!($rust, $field)));)+
    };
}

macro_rules! fields {
    ($found:ident, $rust:ty, $name:literal: $($field:ident),+) => {
        $found.push((concat!("sizeof ", $name).to_owned(), size_of::<$rust>()));
        $($found.push((
            concat!($name, ".", stringify!($field)).to_owned(),
            offset_of!($rust, $field),
        ));)+
    };
}

#[test]
fn the_library_lays_out_what_the_header_does() {
    let mut found: Vec<(String, usize)> = Vec::new();
    for (name, size) in [
        ("VIP_PVOID", size_of::<VipPvoid>()),
        ("VIP_BOOLEAN", size_of::<VipBoolean>()),
        ("VIP_ULONG", size_of::<VipUlong>()),
        ("VIP_MEM_HANDLE", size_of::<VipMemHandle>()),
        ("VIP_RELIABILITY_LEVEL", size_of::<VipReliabilityLevel>()),
        ("VIP_RETURN", size_of::<VipReturn>()),
        ("VIP_ERROR_HANDLER", size_of::<VipErrorHandler>()),
        ("VIP_VI_CALLBACK", size_of::<VipViCallback>()),
    ] {
        found.push((format!("sizeof {name}"), size));
    }
    offsets!(found, VipControlSegment, "VIP_CONTROL_SEGMENT":
        next = "Next", next_handle = "NextHandle", segment_count = "SegCount",
        control = "Control", reserved = "Reserved", immediate = "ImmediateData",
        length = "Length", status = "Status");
    offsets!(found, VipDescriptorSegment, "VIP_DATA_SEGMENT":
        address = "Data", handle = "Handle", length = "Length");
    offsets!(found, VipDescriptorSegment, "VIP_ADDRESS_SEGMENT":
        address = "Data", handle = "Handle", length = "Reserved");
    offsets!(found, VipDescriptor, "VIP_DESCRIPTOR":
        control = "CS", control = "Control", segments = "DS", segments = "Data");
    found.push((
        "VIP_DESCRIPTOR alignment".into(),
        align_of::<VipDescriptor>(),
    ));
    fields!(found, VipNetAddress, "VIP_NET_ADDRESS":
        HostAddressLen, DiscriminatorLen, HostAddress);
    fields!(found, VipNicAttributes, "VIP_NIC_ATTRIBUTES":
        Name, HardwareVersion, ProviderVersion, NicAddressLen, LocalNicAddress, ThreadSafe,
        MaxDiscriminatorLen, MaxRegisterBytes, MaxRegisterRegions, MaxRegisterBlockBytes, MaxVI,
        MaxDescriptorsPerQueue, MaxSegmentsPerDesc, MaxCQ, MaxCQEntries, MaxTransferSize,
        NativeMTU, MaxPtags, ReliabilityLevelSupport, RDMAReadSupport);
    fields!(found, VipViAttributes, "VIP_VI_ATTRIBUTES":
        ReliabilityLevel, MaxTransferSize, QoS, Ptag, EnableRdmaWrite, EnableRdmaRead);
    fields!(found, VipMemAttributes, "VIP_MEM_ATTRIBUTES":
        Ptag, EnableRdmaWrite, EnableRdmaRead);
    fields!(found, VipErrorDescriptor, "VIP_ERROR_DESCRIPTOR":
        NicHandle, ViHandle, CQHandle, DescriptorPtr, OpCode, ResourceCode, ErrorCode);
    fields!(found, VipAutodiscoveryList, "VIP_AUTODISCOVERY_LIST":
        NumberOfHops, ADAddrArray, NumAdAddrs);
    let contract = abi_numbers(CONTRACT);
    for (name, value) in found {
        assert_eq!(contract.get(name.as_str()), Some(&(value as u64)), "{name}");
    }
}

#[test]
fn the_library_has_the_values_of_the_header() {
    use viaduct_provider::via::Status;
    use viaduct_provider::{ErrorCode, ResourceCode, control};

    let contract = abi_numbers(CONTRACT);
    let value = |name: &str| contract[name];
    for (number, code) in VipReturn::ALL.into_iter().enumerate() {
        assert_eq!(code as usize, number);
        assert_eq!(value(code.name().to_str().unwrap()), number as u64);
    }
    assert_eq!(value("VIP_INFINITE"), VIP_INFINITE);
    assert_eq!(value("VIP_SMI_AUTODISCOVERY"), VIP_SMI_AUTODISCOVERY);
    assert_eq!(value("VIP_STATUS_DONE"), u64::from(Status::DONE.bits()));
    assert_eq!(
        value("VIP_STATUS_ERROR_MASK"),
        u64::from(Status::ERROR_MASK.bits())
    );
    assert_eq!(
        value("VIP_STATUS_OP_MASK"),
        u64::from(Status::OPERATION_MASK.bits())
    );
    assert_eq!(
        value("VIP_STATUS_IMMEDIATE"),
        u64::from(Status::IMMEDIATE.bits())
    );
    assert_eq!(
        value("VIP_CONTROL_OP_RDMAWRITE"),
        u64::from(control::RDMA_WRITE)
    );
    assert_eq!(
        value("VIP_CONTROL_OP_RDMAREAD"),
        u64::from(control::RDMA_READ)
    );
    assert_eq!(
        value("VIP_CONTROL_OP_MASK"),
        u64::from(control::OPERATION_MASK)
    );
    assert_eq!(
        value("VIP_CONTROL_IMMEDIATE"),
        u64::from(control::IMMEDIATE)
    );
    assert_eq!(value("VIP_CONTROL_QFENCE"), u64::from(control::QUEUE_FENCE));
    assert_eq!(value("VIP_CONTROL_RESERVED"), u64::from(control::RESERVED));
    for (name, code) in [
        ("VIP_ERROR_POST_DESC", ErrorCode::PostDescriptor),
        ("VIP_ERROR_CONN_LOST", ErrorCode::ConnectionLost),
        ("VIP_ERROR_RECVQ_EMPTY", ErrorCode::ReceiveQueueEmpty),
        ("VIP_ERROR_VI_OVERRUN", ErrorCode::ViOverrun),
        ("VIP_ERROR_RDMAW_PROT", ErrorCode::RdmaWriteProtection),
        ("VIP_ERROR_RDMAW_DATA", ErrorCode::RdmaWriteData),
        ("VIP_ERROR_RDMAW_ABORT", ErrorCode::RdmaWriteAbort),
        ("VIP_ERROR_RDMAR_PROT", ErrorCode::RdmaReadProtection),
        ("VIP_ERROR_COMP_PROT", ErrorCode::CompletionProtection),
        ("VIP_ERROR_RDMA_TRANSPORT", ErrorCode::RdmaTransport),
        ("VIP_ERROR_CATASTROPHIC", ErrorCode::Catastrophic),
    ] {
        assert_eq!(value(name), code as u64, "{name}");
    }
    for (name, code) in [
        ("VIP_RESOURCE_NIC", ResourceCode::Nic),
        ("VIP_RESOURCE_VI", ResourceCode::Vi),
        ("VIP_RESOURCE_CQ", ResourceCode::CompletionQueue),
        ("VIP_RESOURCE_DESCRIPTOR", ResourceCode::Descriptor),
    ] {
        assert_eq!(value(name), code as u64, "{name}");
    }
}
