//! The critical path of an application on a time line: once as a whole, once by rank and processor.

use std::collections::BTreeMap;

use prost::Message;
use viaduct_cluster::why::{Doing, Step};
use viaduct_engine::Time;
use viaduct_topology::{HostId, Node};

use super::perfetto::{
    ProcessDescriptor, SLICE_BEGIN, SLICE_END, Trace, TracePacket, TrackDescriptor, TrackEvent,
};
use super::{EXPLICIT_ORDER, INCREMENTAL_STATE_CLEARED, SEQUENCE, nanoseconds, number_annotation};
use crate::explanation::{End, ExplainedPath, end_of, parts_of, what};

/// The track with all steps one after the other.
const WHOLE: u64 = 2;
/// The one arrow that leads from rank to rank.
const FLOW: u64 = 1;

/// Where a step is for some time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum At {
    Rank(u32),
    Links,
}

/// A stretch of time with those that it is made of.
struct Slice {
    begin: Time,
    name: String,
    within: Vec<(String, Time)>,
}

impl Slice {
    fn end(&self) -> Time {
        let times = self.within.iter().map(|(_, time)| *time);
        times.fold(self.begin, Time::saturating_add)
    }
}

/// The file: a track of all steps with what they are made of, a track for each rank of the path and
/// one for the links and buses between them, and an arrow from one to the next.
#[must_use]
pub fn critical_path_timeline(explained: &ExplainedPath<'_>) -> Vec<u8> {
    let mut ranks: BTreeMap<At, (u64, String)> = BTreeMap::new();
    for share in explained.ranks().0 {
        let host = Node::Host(HostId(share.host));
        let host = explained.config.topology.node_name(host);
        ranks.insert(
            At::Rank(share.rank),
            (0, format!("rank {} ({host})", share.rank)),
        );
    }
    ranks.insert(At::Links, (0, "links and buses".to_owned()));
    let group = |uuid, name: &str| TrackDescriptor {
        uuid: Some(uuid),
        process: Some(ProcessDescriptor {
            pid: Some(uuid as i32),
            process_name: Some(name.to_owned()),
        }),
        child_ordering: Some(EXPLICIT_ORDER),
        ..TrackDescriptor::default()
    };
    let track = |uuid, name: &str, parent| TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name.to_owned()),
        parent_uuid: Some(parent),
        sibling_order_rank: Some(uuid as i32),
        ..TrackDescriptor::default()
    };
    let whole_group = WHOLE - 1;
    let rank_group = WHOLE + 1;
    let mut tracks = vec![
        group(whole_group, "critical path"),
        track(WHOLE, "all steps", whole_group),
        group(rank_group, "critical path, by rank"),
    ];
    for ((uuid, name), number) in ranks.values_mut().zip(rank_group + 1..) {
        *uuid = number;
        tracks.push(track(number, name, rank_group));
    }
    let mut events = Vec::new();
    for (step, number) in explained.path.steps.iter().zip(1_u64..) {
        let slice = Slice {
            begin: step.begin,
            name: what(step),
            within: parts_of(step)
                .into_iter()
                .map(|(part, time)| (part.words(), time))
                .collect(),
        };
        write(&mut events, &slice, WHOLE, number, false);
        for (at, slice) in places(step) {
            let (track, _) = ranks[&at];
            write(&mut events, &slice, track, number, true);
        }
    }
    // Stable: on one track an end comes before the next begin.
    events.sort_by_key(|(time, _)| *time);
    let described = tracks.into_iter().enumerate().map(|(place, descriptor)| {
        let is_first = place == 0;
        TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: is_first.then_some(INCREMENTAL_STATE_CLEARED),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        }
    });
    let events = events.into_iter().map(|(time, event)| TracePacket {
        timestamp: Some(time),
        trusted_packet_sequence_id: Some(SEQUENCE),
        track_event: Some(event),
        ..TracePacket::default()
    });
    let trace = Trace {
        packet: described.chain(events).collect(),
    };
    trace.encode_to_vec()
}

/// The same step cut by where it is.
fn places(step: &Step) -> Vec<(At, Slice)> {
    let mut places: Vec<(At, Slice)> = Vec::new();
    let mut reached = step.begin;
    let name = what(step);
    let stages: Vec<(At, String, Time)> = match &step.doing {
        Doing::Message { stages, .. } => {
            let stages = stages.iter().map(|(stage, time)| {
                let at = match end_of(*stage) {
                    End::Sender => At::Rank(step.rank),
                    End::Between => At::Links,
                    End::Receiver => At::Rank(step.receiver()),
                };
                (at, stage.name().replace('_', " "), *time)
            });
            stages.collect()
        }
        _ => {
            let parts = parts_of(step).into_iter();
            parts
                .map(|(part, time)| (At::Rank(step.rank), part.words(), time))
                .collect()
        }
    };
    for (at, stage, time) in stages {
        match places.last_mut() {
            Some((last, slice)) if *last == at => slice.within.push((stage, time)),
            _ => places.push((
                at,
                Slice {
                    begin: reached,
                    name: name.clone(),
                    within: vec![(stage, time)],
                },
            )),
        }
        reached = reached.saturating_add(time);
    }
    places
}

/// Writes a slice and those within it, which stand below it; of a step with this number.
fn write(
    events: &mut Vec<(u64, TrackEvent)>,
    slice: &Slice,
    track: u64,
    step: u64,
    is_on_way: bool,
) {
    let (begin, end) = (slice.begin, slice.end());
    if begin == end {
        return;
    }
    let mut add = |time: Time, name: Option<&str>, is_whole: bool| {
        let is_begin = name.is_some();
        let annotated = is_begin && is_whole;
        let event = TrackEvent {
            debug_annotations: match annotated {
                true => {
                    let time = end.saturating_sub(begin).picoseconds();
                    vec![
                        number_annotation("step", step),
                        number_annotation("time_ps", time),
                    ]
                }
                false => Vec::new(),
            },
            r#type: Some(if is_begin { SLICE_BEGIN } else { SLICE_END }),
            track_uuid: Some(track),
            name: name.map(str::to_owned),
            flow_ids: match annotated && is_on_way {
                true => vec![FLOW],
                false => Vec::new(),
            },
            ..TrackEvent::default()
        };
        events.push((nanoseconds(time.picoseconds()), event));
    };
    add(begin, Some(&slice.name), true);
    let mut reached = begin;
    for (name, time) in &slice.within {
        if *time > Time::ZERO {
            add(reached, Some(name), false);
            reached = reached.saturating_add(*time);
            add(reached, None, false);
        }
    }
    add(end, None, true);
}
