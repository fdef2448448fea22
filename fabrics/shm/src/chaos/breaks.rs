//! A message that breaks its connection, and other threads that look before the connection ends.

use std::time::Duration;

use viaduct_core::{ReliabilityLevel, Status, ViState};
use viaduct_provider::{Done, Provider, control};

use super::end::{BUFFER_BYTES, Station};
use super::hostile::connect;
use crate::Shm;
use crate::receive::Look;
use crate::vi;

const SOON: Option<Duration> = Some(Duration::from_secs(10));

#[test]
fn nothing_is_taken_or_told_behind_a_message_that_breaks_the_connection() {
    let (shm, station) = (Shm::global(), Station::open());
    let level = ReliabilityLevel::ReliableReception;
    let (receiver, sender) = (station.vi(level, None), station.vi(level, None));
    let meet = format!("breaks {}", std::process::id());
    connect(&station, receiver, sender, &meet);
    let arena = &station.private;
    arena.post_receive_at(receiver, 0, 0, 64).unwrap();
    arena.post_receive_at(receiver, 1, 0, BUFFER_BYTES).unwrap();
    for (number, bytes) in [(0, 65), (1, 8)] {
        let operation = control::SEND_RECEIVE;
        arena
            .post_send(sender, number, bytes, operation, None, (0, 0))
            .unwrap();
    }
    assert_eq!(vi::look_once(receiver).unwrap(), Look::Breaks);

    // The service thread, by a kick, and the program's thread.
    vi::connectable(receiver).unwrap().kicked();
    let status = |done: Done| {
        let (number, _, _, status) = arena.taken(done.descriptor().unwrap());
        (number, status & Status::ERROR_MASK.bits())
    };
    let too_long = Status::LENGTH_ERROR.bits();
    let received = shm.receive_done(receiver).unwrap();
    assert_eq!(status(received), (0, too_long));
    assert_eq!(shm.receive_done(receiver).unwrap(), Done::NotDone);
    assert_eq!(shm.send_done(sender).unwrap(), Done::NotDone);

    vi::break_connection(receiver).unwrap();
    let refused = Status::REMOTE_DESCRIPTOR_ERROR.bits();
    assert_eq!(status(shm.send_wait(sender, SOON).unwrap()), (0, refused));
    let (number, error) = status(shm.send_wait(sender, SOON).unwrap());
    assert!(number == 1 && error != 0, "{error:#x}");
    assert_eq!(shm.query_vi(sender).unwrap().state, ViState::Error);
}
