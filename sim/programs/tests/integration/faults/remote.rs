//! Remote writes and reads under faults.

use viaduct_cluster::faults::{Fault, Links};
use viaduct_provider::ErrorCode;
use viaduct_topology::LinkId;

use super::two::{
    BYTES, End, Ended, FLUSHED, RD, RR, STRIKE, TRANSPORT, Told, UD, at, breaks, expect, run_two,
    stays, until, with,
};
use crate::models;

const LOST: Fault = Fault::Loss {
    links: Links::All,
    rate: 1.0,
};

/// On the way from host 0 alone: acknowledgements would get through.
const CORRUPT: Fault = Fault::Corruption {
    links: Links::One(LinkId(0)),
    rate: 1.0,
};

fn write(end: &mut End) -> Vec<Ended> {
    let (buffer, remote) = (end.buffer(), end.remote);
    end.vi.post_write(buffer, BYTES, remote).unwrap();
    end.sent(1)
}

fn write_and_tell(end: &mut End) -> Vec<Ended> {
    let (buffer, remote) = (end.buffer(), end.remote);
    let posted = end.vi.post_write_immediate(buffer, BYTES, remote, 9);
    posted.unwrap();
    end.sent(1)
}

fn read(end: &mut End) -> Vec<Ended> {
    let (buffer, remote) = (end.buffer(), end.remote);
    end.vi.post_read(buffer, BYTES, remote).unwrap();
    end.sent(1)
}

fn wait(end: &mut End) -> Vec<Ended> {
    end.received(1)
}

/// Told with an error before the loss of the connection.
fn after(code: ErrorCode, mut told: Told) -> Told {
    told.errors.insert(0, code);
    told
}

#[test]
fn a_lost_write_is_not_placed() {
    let look = |end: &mut End| {
        let ended = end.received(1);
        let mut bytes = [1; BYTES];
        end.window.read(0, &mut bytes);
        assert_eq!(bytes, [0; BYTES]);
        ended
    };
    for part in [write as super::two::Part, write_and_tell] {
        expect(&[LOST], [part, look], |level| {
            [
                Some(match level {
                    UD => stays(&[Ended::Well]),
                    RD => breaks(&[Ended::Well]),
                    RR => after(ErrorCode::RdmaTransport, breaks(&[TRANSPORT])),
                }),
                Some(match level {
                    UD => stays(&[Ended::Waits]),
                    RD | RR => breaks(&[FLUSHED]),
                }),
            ]
        });
    }
}

#[test]
fn a_corrupt_write_is_told_by_an_event() {
    expect(&[CORRUPT], [write, wait], |level| {
        [
            Some(match level {
                UD => stays(&[Ended::Well]),
                RD => breaks(&[Ended::Well]),
                RR => after(ErrorCode::RdmaTransport, breaks(&[TRANSPORT])),
            }),
            Some(match level {
                UD => after(ErrorCode::RdmaWriteData, stays(&[Ended::Waits])),
                RD | RR => after(ErrorCode::RdmaWriteData, breaks(&[FLUSHED])),
            }),
        ]
    });
}

#[test]
fn a_corrupt_write_with_immediate_data_is_told_by_its_receive() {
    expect(&[CORRUPT], [write_and_tell, wait], |level| {
        [
            Some(match level {
                UD => stays(&[Ended::Well]),
                RD => breaks(&[Ended::Well]),
                RR => after(ErrorCode::RdmaTransport, breaks(&[TRANSPORT])),
            }),
            Some(match level {
                UD => stays(&[TRANSPORT]),
                RD | RR => breaks(&[TRANSPORT]),
            }),
        ]
    });
}

/// Reads, of which a request or an answer comes to harm.
fn expect_read_fails(fault: Fault) {
    for model in models::all() {
        for level in [RD, RR] {
            let (outcome, told) = run_two(with(&model, &[fault]), level, [read, wait]);
            assert!(outcome.is_ok(), "{outcome:?}");
            let expected = [
                Some(after(ErrorCode::RdmaTransport, breaks(&[TRANSPORT]))),
                Some(breaks(&[FLUSHED])),
            ];
            assert_eq!(told, expected, "{fault:?} {level:?} on {}", model.name);
        }
    }
}

#[test]
fn a_read_fails_whichever_of_its_messages_comes_to_harm() {
    // From host 0 up to the switch goes the request, from host 1 the answer.
    for link in [LinkId(0), LinkId(1)] {
        let (links, rate) = (Links::One(link), 1.0);
        expect_read_fails(Fault::Loss { links, rate });
        expect_read_fails(Fault::Corruption { links, rate });
    }
}

#[test]
fn a_read_fails_when_its_target_dies() {
    for model in models::all() {
        for level in [RD, RR] {
            let dies = Fault::HostDies {
                host: 1,
                at: at(STRIKE),
            };
            let (outcome, told) = run_two(
                with(&model, &[dies]),
                level,
                [
                    |end| {
                        until(&end.process, STRIKE + 10);
                        read(end)
                    },
                    wait,
                ],
            );
            assert!(outcome.is_ok(), "{outcome:?}");
            let failed = after(ErrorCode::RdmaTransport, breaks(&[TRANSPORT]));
            assert_eq!(told, [Some(failed), None]);
        }
    }
}
