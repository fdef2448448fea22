//! Switches that trim, against cases worked out by hand and the rate of one link.

use std::sync::Arc;

use viaduct_engine::Time;
use viaduct_network::fluid::ResourceId;
use viaduct_network::{
    Arrival, Buffers, CreditLinks, Frame, LinkConfig, Network, Queueing, Rate, Sharing,
    SwitchModel, Switching, WhenFull,
};
use viaduct_topology::{HostId, LinkId, Ports, Topology};

use crate::common::{BYTE, NO_BUSES, PROPAGATION, SWITCH, carry, carry_or_lose, limited, transfer};

/// Bytes of a frame, and of what is left of one.
const FRAME: u32 = 1_000;
const HEADER: u64 = 64;

fn trims(frames: u64, queueing: Queueing) -> Buffers {
    Buffers {
        bytes_max: Some(frames * u64::from(FRAME)),
        full: WhenFull::Trim,
        queueing,
        ..Buffers::default()
    }
}

#[test]
fn the_header_of_what_finds_no_room_overtakes_and_brings_it_again() {
    // The link from the first switch to the second holds three frames. Of the fourth the header
    // goes when the first frame has left, before the second and third; its frame is asked for and
    // there again before the third has left, so that the link is never idle.
    const BETWEEN: ResourceId = ResourceId(4);
    for queueing in [Queueing::FirstCome, Queueing::Fair] {
        let mut network = limited(2, trims(3, queueing), 1);
        let frames = (0..4).map(|tag| (tag * BYTE, transfer((0, 1), FRAME, tag as usize)));
        let (there, losses) = carry_or_lose(&mut network, &frames.collect::<Vec<_>>());
        assert!(losses.iter().all(Option::is_none));
        let frame = u64::from(FRAME) * BYTE;
        let gap = |place: usize| (there[place].0 - there[place - 1].0).picoseconds();
        assert_eq!(gap(1), frame + HEADER * BYTE);
        assert_eq!((gap(2), gap(3)), (frame, frame));
        let counts = network.queue_counts(BETWEEN, Time::ZERO);
        assert_eq!((counts.trimmed, counts.lost), (1, 0));
        assert_eq!(network.queue_max_bytes(BETWEEN), 3_000);
    }
}

#[test]
fn an_incast_loses_nothing_and_takes_what_its_frames_and_headers_take() {
    let senders = 8;
    let topology = Arc::new(Topology::single_switch(senders + 1, Ports(64)).unwrap());
    let links = |buffers| LinkConfig {
        sharing: Sharing::Packets,
        arrival: Arrival::default(),
        switching: Switching::StoreAndForward,
        rate: Rate::from_bits_per_second(8e9),
        host_rate: Rate::from_bits_per_second(8e9),
        propagation: Time::from_picoseconds(PROPAGATION),
        host_propagation: Time::from_picoseconds(PROPAGATION),
        frame: Frame {
            payload_bytes: FRAME,
            header_bytes: 0,
        },
        buffers,
        credits: CreditLinks::default(),
    };
    let switch = SwitchModel {
        delay: Time::from_picoseconds(SWITCH),
        cut_through_bytes: 0,
    };
    let mut way: Vec<LinkId> = Vec::new();
    topology.route(HostId(1), HostId(0), &mut way);
    let down = ResourceId(way[1].0);
    let transfers: Vec<_> = (1..=senders)
        .map(|host| (0, transfer((host, 0), 50 * FRAME, host as usize - 1)))
        .collect();
    let mut alone = Network::new(
        &topology,
        &links(Buffers::default()),
        switch,
        NO_BUSES,
        false,
    );
    let unlimited = carry(&mut alone, &transfers);
    let last = |there: &[(Time, Time)]| there.iter().map(|it| it.0.picoseconds()).max().unwrap();
    let mut network = Network::new(
        &topology,
        &links(trims(10, Queueing::FirstCome)),
        switch,
        NO_BUSES,
        false,
    );
    let (there, losses) = carry_or_lose(&mut network, &transfers);
    assert!(losses.iter().all(Option::is_none));
    let counts = network.queue_counts(down, Time::ZERO);
    assert!(counts.trimmed > 100 && counts.lost == 0, "{counts:?}");
    assert_eq!(network.queue_max_bytes(down), 10_000);
    // The link is busy with frames and headers all the time: it has ten frames whenever one is
    // trimmed, and asking takes less than these.
    let headers = counts.trimmed * HEADER * BYTE;
    assert_eq!(last(&there), last(&unlimited) + headers);
}
