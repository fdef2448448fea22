use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};

use super::*;
use crate::deadline::Deadline;

fn address(bytes: &[u8]) -> Address {
    Address::new(HostAddress::new(0x1234_5678_9abc), bytes)
}

fn attributes() -> RemoteViAttributes {
    RemoteViAttributes {
        reliability: ReliabilityLevel::ReliableReception,
        max_transfer_bytes: 0x0102_0304,
        rdma_write: true,
        rdma_read: false,
        quality_of_service: 3,
        extensions: Extensions {
            flow_control: false,
            request_splitting: true,
        },
    }
}

fn process() -> Process {
    Process {
        nonce: *b"0123456789abcdef",
        nonce_address: 0x7fff_1234_5678,
        protected: true,
    }
}

fn end() -> EndFacts {
    EndFacts {
        attributes: attributes(),
        nic: u64::MAX - 5,
        tag: 0x0010_0001,
        regions: true,
    }
}

fn handshakes() -> Vec<Handshake> {
    vec![
        Handshake::Request(Request {
            peer_to_peer: true,
            process: process(),
            end: end(),
            local: address(&[7; DISCRIMINATOR_BYTES_MAX]),
            remote: address(b""),
        }),
        Handshake::Taken,
        Handshake::Accept(Accept {
            process: process(),
            end: end(),
            link: 1,
            new_link: true,
            key: 2,
            trusted: false,
            channel: 3,
            connection: 4,
        }),
        Handshake::Established {
            key: 9,
            trusted: true,
        },
        Handshake::LinkGone,
        Handshake::Reject,
        Handshake::NoMatch,
        Handshake::Differs(attributes()),
    ]
}

fn link_messages() -> Vec<LinkMessage> {
    vec![
        LinkMessage::Close {
            channel: 1,
            connection: u64::MAX,
            reason: CloseReason::Broken,
        },
        LinkMessage::CloseAck {
            channel: u32::MAX,
            connection: 2,
        },
        LinkMessage::Kick { channel: 3 },
        LinkMessage::Event {
            channel: 4,
            code: 5,
            operation: 0x0003_0000,
        },
        LinkMessage::Segment {
            id: 6,
            length: 1 << 40,
        },
        LinkMessage::SegmentGone { id: 7 },
        LinkMessage::Regions { nic: 8 },
        LinkMessage::RegionsGone { nic: 9 },
        LinkMessage::Chunk { index: 10 },
    ]
}

#[test]
fn messages_come_out_as_they_went_in_and_in_no_other_length() {
    for message in handshakes() {
        let packet = message.packet();
        let bytes = packet.bytes();
        assert_eq!(Handshake::parse(bytes), Ok(message));
        for length in 0..bytes.len() {
            assert_eq!(Handshake::parse(&bytes[..length]), Err(Garbage), "{length}");
        }
        assert_eq!(Handshake::parse(&[bytes, &[0]].concat()), Err(Garbage));
        assert_eq!(LinkMessage::parse(bytes), Err(Garbage));
    }
    for message in link_messages() {
        let packet = message.packet();
        let bytes = packet.bytes();
        assert_eq!(LinkMessage::parse(bytes), Ok(message));
        for length in 0..bytes.len() {
            assert_eq!(LinkMessage::parse(&bytes[..length]), Err(Garbage));
        }
        assert_eq!(LinkMessage::parse(&[bytes, &[0]].concat()), Err(Garbage));
        assert_eq!(Handshake::parse(bytes), Err(Garbage));
    }
}

#[test]
fn every_changed_byte_gives_garbage_or_another_message() {
    // Goal: nothing that a stranger sends ends the process, and nothing is read two ways.
    for message in handshakes() {
        let packet = message.packet();
        for index in 0..packet.bytes().len() {
            for value in 0..=255 {
                let mut bytes = packet.bytes().to_vec();
                bytes[index] = value;
                if let Ok(other) = Handshake::parse(&bytes) {
                    assert_eq!(other.packet().bytes(), bytes);
                }
            }
        }
    }
    for message in link_messages() {
        let packet = message.packet();
        for index in 0..packet.bytes().len() {
            for value in 0..=255 {
                let mut bytes = packet.bytes().to_vec();
                bytes[index] = value;
                if let Ok(other) = LinkMessage::parse(&bytes) {
                    assert_eq!(other.packet().bytes(), bytes);
                }
            }
        }
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    let family = AddressFamily::UNIX;
    rustix::net::socketpair(family, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

#[test]
fn packets_keep_their_bounds_and_bring_descriptors() {
    let (left, right) = pair();
    let mut buffer = [0; 8];
    let empty = receive(right.as_fd(), &mut buffer).unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::WouldBlock);
    send(left.as_fd(), b"one", &[left.as_fd(), right.as_fd()]).unwrap();
    send(left.as_fd(), b"two", &[]).unwrap();
    let received = receive(right.as_fd(), &mut buffer).unwrap();
    assert_eq!(&buffer[..received.length], b"one");
    assert_eq!(received.descriptors.len(), 2);
    for descriptor in &received.descriptors {
        let flags = rustix::io::fcntl_getfd(descriptor).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
    drop(received);
    let received = receive(right.as_fd(), &mut buffer).unwrap();
    assert_eq!(&buffer[..received.length], b"two");
    send(left.as_fd(), b"too long for it", &[]).unwrap();
    let cut = receive(right.as_fd(), &mut buffer).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::InvalidData);
    drop(left);
    assert_eq!(receive(right.as_fd(), &mut buffer).unwrap().length, 0);
    let gone = send(right.as_fd(), b"x", &[]).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn descriptors_that_are_too_many_are_closed() {
    let (left, right) = pair();
    let (watched, end) = pair();
    // More than the receiver has room for: the system closes the rest.
    let many = [end.as_fd(); viaduct_processes::socket::DESCRIPTORS_MAX + 3];
    let mut space = [std::mem::MaybeUninit::uninit();
        rustix::cmsg_space!(ScmRights(viaduct_processes::socket::DESCRIPTORS_MAX + 3))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
    let slices = [std::io::IoSlice::new(b"x")];
    rustix::net::sendmsg(&left, &slices, &mut control, SendFlags::empty()).unwrap();
    drop(end);
    let received = receive(right.as_fd(), &mut [0; 8]).unwrap();
    assert!(received.descriptors.len() < viaduct_processes::socket::DESCRIPTORS_MAX + 3);
    drop(received);
    // Every copy is closed: the other end hears the end of the stream.
    assert_eq!(receive(watched.as_fd(), &mut [0; 8]).unwrap().length, 0);
}

#[test]
fn the_peer_is_known() {
    let (left, _right) = pair();
    let who = credentials(left.as_fd()).unwrap();
    assert_eq!(who.pid, std::process::id() as i32);
    assert_eq!(who.uid, rustix::process::getuid().as_raw());
    assert!(who.pidfd.is_some());
}

#[test]
fn a_deadline_ends_a_poll_and_not_before() {
    let (left, _right) = pair();
    let limit = Duration::from_millis(30);
    let deadline = Deadline::after(Some(limit));
    let mut sources = [PollFd::new(&left, PollFlags::IN)];
    let started = std::time::Instant::now();
    assert!(!poll(&mut sources, deadline).unwrap());
    assert!(started.elapsed() >= limit && deadline.has_passed());
    assert!(!Deadline::after(None).has_passed());
    assert_eq!(Deadline::after(None).remaining(), None);
    let far = Deadline::after(Some(Duration::from_secs(3600)));
    assert!(far.or_after(limit).remaining().unwrap() <= limit);
    assert!(Deadline::after(None).or_after(limit).remaining().unwrap() <= limit);
    assert!(!Deadline::after(Some(Duration::MAX)).has_passed());
}
