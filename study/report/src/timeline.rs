//! Some messages of a run on a time line, as a file that Perfetto's viewer opens.
//!
//! Hosts and switches are groups of tracks: of a host its processor, the two sides of its adapter,
//! its bus, the other devices there, and its link; of a switch its links. What several messages
//! use at a time has a lane for each. Below a link stand counters of its queue, where frames wait.
//! An arrow leads along each message's way, from its post to its receiver's taking it.

mod counters;
mod path;
mod perfetto;

pub use self::path::critical_path_timeline;

use std::collections::BTreeMap;

use prost::Message;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::record::{RecordedMessage, Recording, Used};
use viaduct_cluster::why::Work;
use viaduct_hardware::Stage;
use viaduct_topology::{HostId, Node};

use self::counters::{Counter, counters};
use self::perfetto::{
    COUNTER, CounterDescriptor, DebugAnnotation, INSTANT, ProcessDescriptor, SLICE_BEGIN,
    SLICE_END, Trace, TracePacket, TrackDescriptor, TrackEvent,
};

/// All packets come from one writer.
const SEQUENCE: u32 = 1;

/// The first packet says that nothing before it counts.
const INCREMENTAL_STATE_CLEARED: u32 = 1;

/// Children of a track stand in the order of their ranks.
const EXPLICIT_ORDER: i32 = 3;

/// A kind of track within a host or a switch, from top to bottom.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Row {
    /// By its number in the host.
    Processor(u32),
    Doorbell,
    SendQueue,
    Descriptor,
    Bus,
    Devices,
    Receive,
    Link(u32),
}

/// A stretch of time on a row.
#[derive(Clone, Debug)]
struct Slice {
    begin_ps: u64,
    end_ps: u64,
    name: &'static str,
    of: SliceOf,
    /// Whether the arrow of its message passes here.
    is_on_way: bool,
}

/// Whose a stretch of time is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum SliceOf {
    /// A message's, by its number.
    Message(u64),
    /// Another device's, which moves so many bytes.
    Device { bytes: u64 },
}

impl Slice {
    fn message(&self) -> Option<u64> {
        match self.of {
            SliceOf::Message(number) => Some(number),
            SliceOf::Device { .. } => None,
        }
    }
}

/// The file; it has the recorded messages and what they used, and nothing of others.
#[must_use]
pub fn timeline(config: &ClusterConfig, recording: &Recording) -> Vec<u8> {
    let messages: BTreeMap<u64, &RecordedMessage> = recording
        .messages
        .iter()
        .map(|message| (message.message.number, message))
        .collect();
    let mut rows: BTreeMap<(Node, Row), Vec<Slice>> = BTreeMap::new();
    let mut add = |node: Node, row: Row, slice: Slice| {
        rows.entry((node, row)).or_default().push(slice);
    };
    for used in &recording.uses {
        let (node, row) = match used.used {
            Used::Processor(host, number) => (Node::Host(host), Row::Processor(number)),
            Used::Adapter(host) => (Node::Host(host), Row::Descriptor),
            Used::Bus(host) => (Node::Host(host), Row::Bus),
            Used::Link(link) => (config.topology.link_ends(link).0, Row::Link(link.0)),
        };
        let slice = Slice {
            begin_ps: used.begin.picoseconds(),
            end_ps: used.end.picoseconds(),
            name: work_words(used.work),
            of: SliceOf::Message(used.message),
            is_on_way: !matches!(used.work, Work::Repost | Work::Acknowledge),
        };
        add(node, row, slice);
    }
    for transfer in &recording.device_transfers {
        let slice = Slice {
            begin_ps: transfer.begin.picoseconds(),
            end_ps: transfer.end.picoseconds(),
            name: "other device",
            of: SliceOf::Device {
                bytes: transfer.bytes,
            },
            is_on_way: false,
        };
        add(Node::Host(transfer.host), Row::Devices, slice);
    }
    for message in &recording.messages {
        for (host, row, slice) in adapter_slices(config, recording, message) {
            add(Node::Host(host), row, slice);
        }
    }
    Writer::new(config, recording, &messages, &rows).write(&messages)
}

fn work_words(work: Work) -> &'static str {
    match work {
        Work::Buffer => "buffer",
        Work::Post => "post",
        Work::Take => "take",
        Work::Repost => "post receive",
        Work::Descriptor => "read descriptor",
        Work::Move => "move data",
        Work::Acknowledge => "acknowledge",
    }
}

/// What a message's stages say of the adapters, where nobody else was told.
fn adapter_slices(
    config: &ClusterConfig,
    recording: &Recording,
    message: &RecordedMessage,
) -> Vec<(HostId, Row, Slice)> {
    let Some(stages) = &message.stages else {
        return Vec::new();
    };
    let time = |stage: Stage| stages[stage as usize];
    let number = message.message.number;
    let (source, target) = message.message.hosts(config.hosts.processes);
    let slice = |begin_ps, end_ps, name, is_on_way| Slice {
        begin_ps,
        end_ps,
        name,
        of: SliceOf::Message(number),
        is_on_way,
    };
    let posted = message.posted.picoseconds();
    let buffered = posted + time(Stage::Buffer);
    let rung = buffered + time(Stage::SenderProcessor) + time(Stage::Post);
    let known = rung + time(Stage::Doorbell);
    let told = message.ended.picoseconds()
        - time(Stage::Notice)
        - time(Stage::ReceiverProcessor)
        - time(Stage::Reap);
    let received = told - time(Stage::Completion);
    let met = received - time(Stage::Receive);
    let read = recording
        .uses
        .iter()
        .find(|used| used.message == number && used.work == Work::Descriptor);
    let read = read.map_or(known, |used| used.begin.picoseconds());
    let slices = [
        (
            source,
            Row::SendQueue,
            slice(posted, buffered, "wait for a buffer", false),
        ),
        (source, Row::Doorbell, slice(rung, known, "doorbell", true)),
        (
            source,
            Row::SendQueue,
            slice(known, read.max(known), "wait in the send queue", false),
        ),
        (
            target,
            Row::Receive,
            slice(met, received, "match a receive", true),
        ),
        (
            target,
            Row::Receive,
            slice(received, told, "completion", false),
        ),
    ];
    slices
        .into_iter()
        .filter(|(_, _, slice)| slice.end_ps > slice.begin_ps)
        .collect()
}

/// A track, and what begins and ends on it.
struct Lane<'a> {
    uuid: u64,
    slices: Vec<&'a Slice>,
}

struct Writer<'a> {
    packets: Vec<TracePacket>,
    lanes: Vec<Lane<'a>>,
    /// Counters, and their tracks.
    counters: Vec<(u64, Counter)>,
    config: &'a ClusterConfig,
    /// The track of each host, for what happens there at one moment.
    hosts: BTreeMap<u32, u64>,
}

impl<'a> Writer<'a> {
    fn new(
        config: &'a ClusterConfig,
        recording: &Recording,
        messages: &BTreeMap<u64, &RecordedMessage>,
        rows: &'a BTreeMap<(Node, Row), Vec<Slice>>,
    ) -> Self {
        let mut writer = Self {
            packets: Vec::new(),
            lanes: Vec::new(),
            counters: Vec::new(),
            config,
            hosts: BTreeMap::new(),
        };
        let mut uuid = 0;
        let mut next_uuid = || {
            uuid += 1;
            uuid
        };
        let mut last: Option<(Node, u64)> = None;
        let mut nodes = 0;
        for ((node, row), slices) in rows {
            let group = match last {
                Some((known, group)) if known == *node => group,
                _ => {
                    nodes += 1;
                    let group = next_uuid();
                    writer.describe_group(*node, group, nodes);
                    group
                }
            };
            last = Some((*node, group));
            for (number, slices) in lanes(slices).into_iter().enumerate() {
                let uuid = next_uuid();
                let mut name = row_words(config, row);
                if number > 0 {
                    name = format!("{name} ({})", number + 1);
                }
                let rank = writer.rank();
                writer.describe(TrackDescriptor {
                    uuid: Some(uuid),
                    name: Some(name),
                    parent_uuid: Some(group),
                    sibling_order_rank: Some(rank),
                    ..TrackDescriptor::default()
                });
                writer.lanes.push(Lane { uuid, slices });
            }
            let Row::Link(link) = row else {
                continue;
            };
            for counter in counters(config, recording, *link) {
                let uuid = next_uuid();
                let rank = writer.rank();
                writer.describe(TrackDescriptor {
                    uuid: Some(uuid),
                    name: Some(format!("{}, {}", row_words(config, row), counter.name)),
                    parent_uuid: Some(group),
                    counter: Some(CounterDescriptor {
                        unit: Some(counter.unit),
                    }),
                    sibling_order_rank: Some(rank),
                    ..TrackDescriptor::default()
                });
                writer.counters.push((uuid, counter));
            }
        }
        // A host that only lost what came has no track yet.
        for message in messages
            .values()
            .filter(|message| message.dropped.is_some())
        {
            let (_, target) = message.message.hosts(config.hosts.processes);
            if !writer.hosts.contains_key(&target.0) {
                nodes += 1;
                let group = next_uuid();
                writer.describe_group(Node::Host(target), group, nodes);
            }
        }
        writer
    }

    /// The place of the next track.
    fn rank(&self) -> i32 {
        (self.lanes.len() + self.counters.len()) as i32
    }

    fn describe_group(&mut self, node: Node, uuid: u64, pid: i32) {
        let kind = match node {
            Node::Host(host) => {
                self.hosts.insert(host.0, uuid);
                "host"
            }
            Node::Switch(_) => "switch",
        };
        let name = format!("{kind} {}", self.config.topology.node_name(node));
        self.describe(TrackDescriptor {
            uuid: Some(uuid),
            process: Some(ProcessDescriptor {
                pid: Some(pid),
                process_name: Some(name),
            }),
            child_ordering: Some(EXPLICIT_ORDER),
            ..TrackDescriptor::default()
        });
    }

    fn describe(&mut self, descriptor: TrackDescriptor) {
        let is_first = self.packets.is_empty();
        self.packets.push(TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: is_first.then_some(INCREMENTAL_STATE_CLEARED),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
    }

    fn write(mut self, messages: &BTreeMap<u64, &RecordedMessage>) -> Vec<u8> {
        let mut last_on_way: BTreeMap<u64, u64> = BTreeMap::new();
        for slice in self.lanes.iter().flat_map(|lane| &lane.slices) {
            if let Some(message) = slice.message().filter(|_| slice.is_on_way) {
                let begin = last_on_way.entry(message).or_default();
                *begin = slice.begin_ps.max(*begin);
            }
        }
        let mut events: Vec<(u64, TrackEvent)> = Vec::new();
        for Lane { uuid, slices } in &self.lanes {
            for slice in slices {
                let begin = match slice.of {
                    SliceOf::Message(number) => {
                        let Some(message) = messages.get(&number) else {
                            continue;
                        };
                        let ends = last_on_way.get(&number) == Some(&slice.begin_ps);
                        // A flow of number 0 is none.
                        let flow = slice.is_on_way.then_some(number + 1);
                        let (flow_ids, terminating_flow_ids) = match ends {
                            true => (Vec::new(), flow.into_iter().collect()),
                            false => (flow.into_iter().collect(), Vec::new()),
                        };
                        TrackEvent {
                            debug_annotations: self.annotations(message),
                            r#type: Some(SLICE_BEGIN),
                            track_uuid: Some(*uuid),
                            categories: vec!["message".to_owned()],
                            name: Some(format!("{} {number}", slice.name)),
                            flow_ids,
                            terminating_flow_ids,
                            ..TrackEvent::default()
                        }
                    }
                    SliceOf::Device { bytes } => TrackEvent {
                        debug_annotations: vec![number_annotation("size_bytes", bytes)],
                        r#type: Some(SLICE_BEGIN),
                        track_uuid: Some(*uuid),
                        categories: vec!["device".to_owned()],
                        name: Some(slice.name.to_owned()),
                        ..TrackEvent::default()
                    },
                };
                let end = TrackEvent {
                    r#type: Some(SLICE_END),
                    track_uuid: Some(*uuid),
                    ..TrackEvent::default()
                };
                events.push((nanoseconds(slice.begin_ps), begin));
                events.push((nanoseconds(slice.end_ps), end));
            }
        }
        for message in messages.values() {
            let (_, target) = message.message.hosts(self.config.hosts.processes);
            let track = self.hosts.get(&target.0).copied();
            if let Some(cause) = message.dropped {
                let lost = TrackEvent {
                    debug_annotations: self.annotations(message),
                    r#type: Some(INSTANT),
                    track_uuid: track,
                    name: Some(format!("lost {}: {cause}", message.message.number)),
                    ..TrackEvent::default()
                };
                events.push((nanoseconds(message.ended.picoseconds()), lost));
            }
        }
        for (uuid, counter) in &self.counters {
            for (time, value) in &counter.values {
                let event = TrackEvent {
                    r#type: Some(COUNTER),
                    track_uuid: Some(*uuid),
                    counter_value: Some(value.cast_signed()),
                    ..TrackEvent::default()
                };
                events.push((nanoseconds(*time), event));
            }
        }
        // Stable: on one track an end comes before the next begin.
        events.sort_by_key(|(time, _)| *time);
        let events = events.into_iter().map(|(time, event)| TracePacket {
            timestamp: Some(time),
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_event: Some(event),
            ..TracePacket::default()
        });
        self.packets.extend(events);
        let trace = Trace {
            packet: self.packets,
        };
        trace.encode_to_vec()
    }

    fn annotations(&self, message: &RecordedMessage) -> Vec<DebugAnnotation> {
        let name = message.message;
        let (source, target) = name.hosts(self.config.hosts.processes);
        let topology = &self.config.topology;
        let word = |key: &str, value: String| DebugAnnotation {
            string_value: Some(value),
            name: Some(key.to_owned()),
            ..DebugAnnotation::default()
        };
        let latency = message.ended.saturating_sub(message.posted);
        vec![
            number_annotation("message", name.number),
            number_annotation("size_bytes", name.bytes.into()),
            word("source", topology.node_name(Node::Host(source))),
            word("target", topology.node_name(Node::Host(target))),
            number_annotation("latency_ps", latency.picoseconds()),
        ]
    }
}

fn number_annotation(key: &str, value: u64) -> DebugAnnotation {
    DebugAnnotation {
        int_value: Some(value.cast_signed()),
        name: Some(key.to_owned()),
        ..DebugAnnotation::default()
    }
}

/// Perfetto counts nanoseconds; what is shorter begins and ends at one.
fn nanoseconds(picoseconds: u64) -> u64 {
    picoseconds / 1000
}

fn row_words(config: &ClusterConfig, row: &Row) -> String {
    match row {
        Row::Processor(number) => match config.hosts.processors {
            None | Some(1) => "processor".to_owned(),
            Some(_) => format!("processor {number}"),
        },
        Row::Doorbell => "NIC: doorbell".to_owned(),
        Row::SendQueue => "NIC: send queue".to_owned(),
        Row::Descriptor => "NIC: send descriptors".to_owned(),
        Row::Bus => "bus".to_owned(),
        Row::Devices => "bus: other devices".to_owned(),
        Row::Receive => "NIC: receive".to_owned(),
        Row::Link(link) => {
            let link = viaduct_topology::LinkId(*link);
            format!("link {}", config.topology.link_name(link))
        }
    }
}

/// Slices of one track may not overlap: each goes to the first lane that is free.
fn lanes(slices: &[Slice]) -> Vec<Vec<&Slice>> {
    let mut sorted: Vec<&Slice> = slices.iter().collect();
    sorted.sort_by_key(|slice| (slice.begin_ps, slice.of, slice.end_ps));
    let mut lanes: Vec<Vec<&Slice>> = Vec::new();
    for slice in sorted {
        let is_free =
            |lane: &&mut Vec<&Slice>| lane.last().is_none_or(|last| last.end_ps <= slice.begin_ps);
        match lanes.iter_mut().find(is_free) {
            Some(lane) => lane.push(slice),
            None => lanes.push(vec![slice]),
        }
    }
    lanes
}

#[cfg(test)]
mod tests;
