use std::collections::BTreeSet;
use std::ops::ControlFlow;

use viaduct_cluster::record::{RecordedDeviceTransfer, Selection, record};
use viaduct_cluster::why::critical_path;
use viaduct_engine::Time;
use viaduct_scenario::{Override, Study};

use super::*;
use crate::explanation::ExplainedPath;

fn recorded(study: &str, overrides: &[&str], count: u64) -> (ClusterConfig, Recording) {
    let overrides: Vec<Override> = overrides
        .iter()
        .map(|&text| Override::fixed(text))
        .collect();
    let config = Study::load(study, &overrides).unwrap().config;
    let selection = Selection {
        from: config.run.warmup,
        every: 1,
        count,
    };
    let recording = record(&config, selection, &mut |_| ControlFlow::Continue(())).unwrap();
    (config, recording)
}

/// The file read again: every slice with its track, and the arrows in order of time.
struct Read {
    names: BTreeMap<u64, String>,
    slices: Vec<(u64, u64, u64, String)>,
    flows: BTreeMap<u64, Vec<(u64, bool)>>,
    /// The values of each counter, with their times.
    counters: BTreeMap<String, Vec<(u64, i64)>>,
}

fn read(bytes: &[u8]) -> Read {
    let trace = Trace::decode(bytes).unwrap();
    let mut read = Read {
        names: BTreeMap::new(),
        slices: Vec::new(),
        flows: BTreeMap::new(),
        counters: BTreeMap::new(),
    };
    let mut open: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut last = 0;
    for packet in trace.packet {
        assert_eq!(packet.trusted_packet_sequence_id, Some(SEQUENCE));
        if let Some(track) = packet.track_descriptor {
            let process = track.process.and_then(|process| process.process_name);
            let name = track.name.or(process).unwrap();
            assert!(read.names.insert(track.uuid.unwrap(), name).is_none());
            let parent = track.parent_uuid;
            assert!(parent.is_none_or(|parent| read.names.contains_key(&parent)));
            continue;
        }
        let (time, event) = (packet.timestamp.unwrap(), packet.track_event.unwrap());
        assert!(time >= last, "in the order of time");
        last = time;
        let track = event.track_uuid.unwrap();
        assert!(read.names.contains_key(&track));
        for flow in &event.flow_ids {
            read.flows.entry(*flow).or_default().push((time, false));
        }
        for flow in &event.terminating_flow_ids {
            read.flows.entry(*flow).or_default().push((time, true));
        }
        match event.r#type.unwrap() {
            SLICE_BEGIN => {
                let before = open.insert(track, (time, event.name.unwrap()));
                assert!(before.is_none(), "slices of one track do not overlap");
            }
            SLICE_END => {
                let (begin, name) = open.remove(&track).unwrap();
                read.slices.push((track, begin, time, name));
            }
            COUNTER => {
                let values = read.counters.entry(read.names[&track].clone());
                let value = event.counter_value.unwrap();
                values.or_default().push((time, value));
            }
            _ => {}
        }
    }
    assert!(open.is_empty());
    read
}

#[test]
fn a_timeline_reads_back_with_an_arrow_a_message() {
    let (config, recording) = recorded("four-hop", &["traffic.size=1 KiB"], 40);
    assert_eq!(recording.messages.len(), 40);
    let read = read(&timeline(&config, &recording));
    let has = |text: &str| read.names.values().any(|name| name.contains(text));
    for track in [
        "host ",
        "switch ",
        "processor",
        "bus",
        "NIC: doorbell",
        "NIC: receive",
        "link ",
    ] {
        assert!(has(track), "{track}: {:?}", read.names);
    }
    assert_eq!(read.flows.len(), 40);
    for (flow, steps) in &read.flows {
        let ends = steps.iter().filter(|(_, is_end)| *is_end).count();
        assert!(
            steps.len() > 4 && ends == 1 && steps.last().unwrap().1,
            "{flow}: {steps:?}"
        );
    }
    // Whoever posted it is at the beginning, and the last of all is its receiver's processor.
    for message in &recording.messages {
        let number = message.message.number;
        let mut slices: Vec<_> = read
            .slices
            .iter()
            .filter(|slice| slice.3.ends_with(&format!(" {number}")))
            .collect();
        slices.sort_by_key(|slice| slice.1);
        assert!(slices[0].3.starts_with("post "), "{slices:?}");
        let taken = slices
            .iter()
            .find(|slice| slice.3.starts_with("take "))
            .unwrap();
        assert_eq!(taken.2, message.ended.picoseconds() / 1000);
    }
}

#[test]
fn what_queues_held_and_did_is_below_their_links() {
    let lossy = [
        "links.model=packets",
        "links.frame_payload=1500 B",
        "links.buffer=6 KB",
        "links.ecn_low=2 KB",
    ];
    let (config, recording) = recorded("torus-1024", &lossy, 200);
    let messages = recording.messages.iter();
    let (first, last) = messages.fold((Time::MAX, Time::ZERO), |(first, last), it| {
        (first.min(it.posted), last.max(it.ended))
    });
    // Windows of their own, from the first of these messages on.
    assert_eq!(recording.queues_from, first);
    let windows = (last - first).picoseconds() / recording.queue_window.picoseconds();
    assert!((40..=200).contains(&windows), "{windows}");
    let counters = read(&timeline(&config, &recording)).counters;
    let mut sums = [0, 0];
    for used in &recording.uses {
        let Used::Link(link) = used.used else {
            continue;
        };
        let name = format!("link {}", config.topology.link_name(link));
        let rows = recording.queues.iter().filter(|row| row.link == link.0);
        let rows: Vec<_> = rows.collect();
        let most = rows.iter().map(|row| row.bytes_max).max().unwrap_or(0);
        let sum = |figure: fn(&viaduct_network::QueueCounts) -> u64| {
            rows.iter().map(|row| figure(&row.counts)).sum::<u64>()
        };
        let of = |figure: &str| counters.get(&format!("{name}, {figure}"));
        let shown = of("queue").map_or(0, |it| it.iter().map(|(_, value)| *value).max().unwrap());
        assert_eq!(shown, most as i64, "{name}");
        for (place, (figure, counted)) in [
            ("frames marked", sum(|it| it.marked)),
            ("frames lost", sum(|it| it.lost)),
        ]
        .into_iter()
        .enumerate()
        {
            let values = of(figure).map_or(&[][..], |it| &it[..]);
            let shown: i64 = values.iter().map(|(_, value)| value).sum();
            assert_eq!(shown, counted as i64, "{name}, {figure}");
            sums[place] += shown;
        }
        assert!(of("paused").is_none(), "{name}");
    }
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
    assert!(counters.values().all(|it| it.last().unwrap().1 == 0));
    // At `queues` there is the depth alone, and flows that share links have no queues.
    let (config, recording) = recorded("torus-1024", &["links.model=queues"], 200);
    let counters = read(&timeline(&config, &recording)).counters;
    assert!(!counters.is_empty());
    for (name, values) in counters {
        assert!(name.ends_with(", queue"), "{name}");
        // Two messages at least.
        let most = values.iter().map(|(_, value)| *value).max();
        assert!(most > Some(32_768), "{name}: {most:?}");
    }
    let (config, recording) = recorded("torus-1024", &["links.model=fluid"], 20);
    assert!(read(&timeline(&config, &recording)).counters.is_empty());
}

#[test]
fn a_recording_is_of_the_messages_asked_for_and_stages_agree_with_uses() {
    let (config, recording) = recorded("torus-1024", &[], 50);
    let numbers: Vec<u64> = recording
        .messages
        .iter()
        .map(|known| known.message.number)
        .collect();
    let consecutive: Vec<u64> = (numbers[0]..numbers[0] + 50).collect();
    assert_eq!(numbers, consecutive);
    assert_eq!(recording.under_way, 0);
    for message in &recording.messages {
        assert!(message.posted >= config.run.warmup);
        let stages = message.stages.unwrap();
        let sum: u64 = stages.iter().sum();
        assert_eq!(message.posted + Time::from_picoseconds(sum), message.ended);
        let own = recording
            .uses
            .iter()
            .filter(|used| used.message == message.message.number);
        let links: BTreeSet<Used> = own
            .clone()
            .filter(|used| matches!(used.used, Used::Link(_)))
            .map(|used| used.used)
            .collect();
        let (source, target) = message.message.hosts(config.hosts.processes);
        let length = config.topology.path_length(source, target).unwrap();
        assert_eq!(links.len(), length as usize);
        let moves = own.filter(|used| matches!(used.used, Used::Link(_)));
        let moved = stages[Stage::Transfer as usize] + stages[Stage::Queued as usize];
        for used in moves {
            assert_eq!((used.end - used.begin).picoseconds(), moved);
        }
    }
    // The run ends soon after the last of them: it is of ten simulated seconds.
    assert!(recording.events < 5_000_000, "{}", recording.events);
}

#[test]
fn what_is_lost_is_marked_where_it_was_lost() {
    let (config, recording) = recorded("prepost-drops", &["hosts.prepost=1"], 3000);
    let lost = recording
        .messages
        .iter()
        .filter(|message| message.dropped.is_some())
        .count();
    assert!(lost > 0);
    let lanes = read(&timeline(&config, &recording)).names;
    let is_second = |name: &String| name.ends_with(" (2)");
    assert!(lanes.values().any(is_second), "links are shared");
    let trace = Trace::decode(timeline(&config, &recording).as_slice()).unwrap();
    let marks = trace
        .packet
        .iter()
        .filter_map(|packet| packet.track_event.as_ref());
    let marks = marks.filter(|event| event.r#type == Some(INSTANT)).count();
    assert_eq!(marks, lost);
}

#[test]
fn other_devices_stand_beside_the_messages_that_met_them() {
    let settings = ["hosts.bus_load.interval=30 us", "traffic.size=8 KiB"];
    let (config, recording) = recorded("bus-contention", &settings, 60);
    let transfers = &recording.device_transfers;
    let lives: Vec<_> = recording
        .messages
        .iter()
        .map(|known| {
            let (source, target) = known.message.hosts(config.hosts.processes);
            (source, target, known.posted, known.ended)
        })
        .collect();
    for transfer in transfers {
        assert!(transfer.end > transfer.begin && transfer.bytes > 0);
        let met = lives.iter().any(|&(source, target, posted, ended)| {
            let is_there = [source, target].contains(&transfer.host);
            is_there && posted <= transfer.end && transfer.begin < ended
        });
        assert!(met, "{transfer:?}");
    }
    // Each host's load comes by Poisson, and the messages follow each other closely.
    let first = lives.iter().map(|life| life.2).min().unwrap();
    let last = lives.iter().map(|life| life.3).max().unwrap();
    let expected = (last - first).picoseconds() / 30_000_000;
    assert!(
        expected > 5 && transfers.len() as u64 > expected / 4,
        "{expected}: {transfers:?}"
    );

    let read = read(&timeline(&config, &recording));
    let drawn = read.slices.iter().filter(|slice| slice.3 == "other device");
    let drawn: Vec<_> = drawn.collect();
    assert_eq!(drawn.len(), transfers.len());
    for slice in drawn {
        assert!(read.names[&slice.0].starts_with("bus: other devices"));
    }
    let bus_begins = recording
        .uses
        .iter()
        .filter(|used| matches!(used.used, Used::Bus(_)));
    let shared = bus_begins.filter(|used| {
        let beside = |transfer: &&RecordedDeviceTransfer| {
            used.used == Used::Bus(transfer.host)
                && transfer.begin < used.end
                && used.begin < transfer.end
        };
        transfers.iter().any(|transfer| beside(&transfer))
    });
    assert!(shared.count() > 0, "a transfer beside a message's data");
}

#[test]
fn each_processor_of_a_host_has_a_track() {
    let tracks = |processors: &str| -> BTreeSet<String> {
        let (config, recording) = recorded("torus-1024", &["hosts.processes=2", processors], 40);
        let read = read(&timeline(&config, &recording));
        let used: BTreeSet<u64> = read.slices.iter().map(|(track, ..)| *track).collect();
        let names = used.iter().map(|track| read.names[track].clone());
        names.filter(|name| name.starts_with("processor")).collect()
    };
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(tracks("hosts.processors=1"), names(&["processor"]));
    assert_eq!(
        tracks("hosts.processors=2"),
        names(&["processor 0", "processor 1"])
    );
}

#[test]
fn a_critical_path_reads_back_as_a_whole_and_at_whom_it_is() {
    let overrides = [
        "network.hosts=4",
        "traffic.arrivals=collective",
        "traffic.collective=all-reduce",
        "traffic.bytes=200 KiB",
    ];
    let overrides = overrides.map(Override::fixed);
    let config = Study::load("two-hosts", &overrides).unwrap().config;
    let path = critical_path(&config, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert!(path.steps.len() > 3, "{path:?}");
    let explained = ExplainedPath {
        study: "two-hosts",
        version: "1",
        config: &config,
        path: &path,
    };
    let trace = Trace::decode(&critical_path_timeline(&explained)[..]).unwrap();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    // What is open on each track, and how many slices and nanoseconds of it stand on top.
    let mut open: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut on_top: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let (mut arrows, mut last) = (0, 0);
    for packet in trace.packet {
        if let Some(track) = packet.track_descriptor {
            names.insert(track.uuid.unwrap(), track.name.unwrap_or_default());
            continue;
        }
        let (time, event) = (packet.timestamp.unwrap(), packet.track_event.unwrap());
        assert!(time >= last, "in the order of time");
        last = time;
        let track = event.track_uuid.unwrap();
        assert!(names.contains_key(&track));
        let open = open.entry(track).or_default();
        match event.r#type.unwrap() {
            SLICE_BEGIN => {
                arrows += event.flow_ids.len();
                open.push(time);
                assert!(open.len() <= 2, "a stage has nothing within");
            }
            _ => {
                let begin = open.pop().unwrap();
                if open.is_empty() {
                    let (count, sum) = on_top.entry(track).or_default();
                    (*count, *sum) = (*count + 1, *sum + time - begin);
                }
            }
        }
    }
    assert!(open.values().all(Vec::is_empty));
    let whole = |name: &str| {
        let track = names.iter().find(|(_, other)| *other == name).unwrap().0;
        on_top.get(track).copied().unwrap_or_default()
    };
    let makespan = path.makespan.picoseconds() / 1000;
    assert_eq!(whole("all steps"), (path.steps.len(), makespan));
    // Of each step a sender, what carries the bytes, and a receiver.
    let (moves, moving) = whole("links and buses");
    assert_eq!(moves, path.steps.len());
    let (mut at_ranks, mut times) = (0, 0);
    for rank in 0..4 {
        let (count, time) = whole(&format!("rank {rank} (n0-{rank})"));
        (at_ranks, times) = (at_ranks + count, times + time);
    }
    assert_eq!((at_ranks, arrows), (2 * moves, 3 * moves));
    assert_eq!(times + moving, makespan);
}
