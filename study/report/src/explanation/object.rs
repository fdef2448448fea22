//! The one JSON object of `viaduct why --json`.

use serde::Serialize;
use viaduct_cluster::config::ClusterConfig;
use viaduct_cluster::why::{Account, Choice, Fate, MessageName, Overlap, Place};
use viaduct_network::{PlaceWait, Sharing};

use super::{Explained, host_name};

#[derive(Serialize)]
struct Document<'a> {
    study: &'a str,
    seed: u64,
    version: &'a str,
    digest: String,
    chosen: Chosen,
    messages_posted: u64,
    messages_measured: u64,
    message: Message,
    posted_ps: u64,
    is_measured: bool,
    outcome: &'static str,
    /// Why it was dropped.
    cause: Option<&'static str>,
    /// When it was delivered or dropped, or the run ended.
    ended_ps: u64,
    /// Of a delivered message.
    #[serde(flatten)]
    account: Option<AccountObject>,
    violations: &'a [String],
}

#[derive(Serialize)]
struct Chosen {
    by: &'static str,
    quantile_fraction: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Message {
    message: u64,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    is_around: bool,
    source_host: u32,
    source_process: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_adapter: Option<u32>,
    source: String,
    target_host: u32,
    target_process: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_adapter: Option<u32>,
    target: String,
    size_bytes: u32,
    operation: &'static str,
}

#[derive(Serialize)]
struct AccountObject {
    latency_ps: u64,
    floor_ps: u64,
    excess_ps: i64,
    stages: Vec<StageObject>,
    waits: Vec<WaitObject>,
    way: WayObject,
}

#[derive(Serialize)]
struct StageObject {
    stage: &'static str,
    time_ps: u64,
    alone_ps: u64,
}

#[derive(Serialize)]
struct WaitObject {
    stage: &'static str,
    time_ps: u64,
    messages: u64,
    longest: Vec<OverlapObject>,
}

#[derive(Serialize)]
struct WayObject {
    moving_ps: u64,
    queued_ps: u64,
    places: Vec<PlaceObject>,
    beside: Option<BesideObject>,
    rest_ps: Option<i64>,
}

/// What held the message up beside the places.
#[derive(Serialize)]
struct BesideObject {
    elsewhere_ps: u64,
    held_back_ps: u64,
    sent_again_ps: u64,
    in_order_ps: u64,
}

/// A link as the pieces of the message met it.
#[derive(Serialize)]
#[serde(untagged)]
enum QueueObject {
    Frames {
        paused_ps: u64,
        frames: u32,
        frames_marked: u32,
        frames_trimmed: u32,
    },
    Credits {
        without_credits_ps: u64,
    },
}

impl QueueObject {
    fn of(queue: &PlaceWait, sharing: Sharing) -> Self {
        let paused_ps = queue.paused.picoseconds();
        match sharing {
            Sharing::Credits => Self::Credits {
                without_credits_ps: paused_ps,
            },
            _ => Self::Frames {
                paused_ps,
                frames: queue.frames,
                frames_marked: queue.marked,
                frames_trimmed: queue.trimmed,
            },
        }
    }
}

#[derive(Serialize)]
struct PlaceObject {
    place: String,
    kind: &'static str,
    /// Number of the link in the topology, or of the host.
    number: u32,
    messages: u64,
    device_transfers: u64,
    shared_ps: u64,
    lost_ps: Option<u64>,
    queue: Option<QueueObject>,
    longest: Vec<OverlapObject>,
}

#[derive(Serialize)]
struct OverlapObject {
    /// Null for other devices on a bus, taken together.
    message: Option<Message>,
    work: &'static str,
    time_ps: u64,
}

/// One JSON object of an explanation, as text that ends with a line feed.
///
/// # Panics
///
/// Never: the types hold nothing that JSON cannot say.
#[must_use]
pub fn explanation_document(explained: &Explained<'_>) -> String {
    let explanation = explained.explanation;
    let (outcome, cause, ended, account) = match &explanation.fate {
        Fate::Delivered(account) => {
            let ended = explanation.posted + account.latency;
            let account = explained.account_object(account);
            ("delivered", None, ended, Some(account))
        }
        Fate::Dropped { cause, at } => ("dropped", Some(*cause), *at, None),
        Fate::UnderWay { until, .. } => ("under_way", None, *until, None),
    };
    let (by, quantile_fraction) = match explained.choice {
        Choice::Message(_) => ("message", None),
        Choice::Slowest => ("slowest", None),
        Choice::Quantile(quantile) => ("quantile", Some(quantile)),
    };
    let document = Document {
        study: explained.study,
        seed: explained.config.run.seed,
        version: explained.version,
        digest: format!("{:016x}", explanation.digest),
        chosen: Chosen {
            by,
            quantile_fraction,
        },
        messages_posted: explanation.messages_posted,
        messages_measured: explanation.messages_measured,
        message: message_object(explained.config, explanation.message),
        posted_ps: explanation.posted.picoseconds(),
        is_measured: explanation.is_measured,
        outcome,
        cause,
        ended_ps: ended.picoseconds(),
        account,
        violations: &explanation.violations,
    };
    serde_json::to_string_pretty(&document).expect("plain numbers and strings") + "\n"
}

impl Explained<'_> {
    fn account_object(&self, account: &Account) -> AccountObject {
        let (latency, floor) = (account.latency.picoseconds(), account.floor.picoseconds());
        let stages = account.stages.iter().map(|stage| StageObject {
            stage: stage.stage.name(),
            time_ps: stage.time.picoseconds(),
            alone_ps: stage.alone.picoseconds(),
        });
        let waits = account.waits.iter().map(|wait| WaitObject {
            stage: wait.stage.name(),
            time_ps: wait.time.picoseconds(),
            messages: wait.messages,
            longest: self.overlap_objects(&wait.longest),
        });
        let way = &account.way;
        let places = way.places.iter().map(|place| {
            let (kind, number) = match place.place {
                Place::Link(link) => ("link", link.0),
                Place::Bus(host) => ("bus", host.0),
            };
            PlaceObject {
                place: self.place_name(place.place),
                kind,
                number,
                messages: place.messages,
                device_transfers: place.device_transfers,
                shared_ps: place.shared.picoseconds(),
                lost_ps: place.lost.map(|lost| lost.picoseconds()),
                queue: (place.queue.as_ref())
                    .map(|queue| QueueObject::of(queue, self.config.links.sharing)),
                longest: self.overlap_objects(&place.longest),
            }
        });
        AccountObject {
            latency_ps: latency,
            floor_ps: floor,
            excess_ps: latency as i64 - floor as i64,
            stages: stages.collect(),
            waits: waits.collect(),
            way: WayObject {
                moving_ps: way.moving.picoseconds(),
                queued_ps: way.queued.picoseconds(),
                places: places.collect(),
                beside: way.beside.map(|beside| BesideObject {
                    elsewhere_ps: beside.elsewhere.picoseconds(),
                    held_back_ps: beside.held_back.picoseconds(),
                    sent_again_ps: beside.sent_again.picoseconds(),
                    in_order_ps: beside.in_order.picoseconds(),
                }),
                rest_ps: way.rest_picoseconds,
            },
        }
    }

    fn overlap_objects(&self, overlaps: &[Overlap]) -> Vec<OverlapObject> {
        let object = |overlap: &Overlap| OverlapObject {
            message: overlap
                .message
                .map(|message| message_object(self.config, message)),
            work: overlap.work.name(),
            time_ps: overlap.time.picoseconds(),
        };
        overlaps.iter().map(object).collect()
    }
}

pub(super) fn message_object(config: &ClusterConfig, message: MessageName) -> Message {
    let processes = config.hosts.processes;
    let (source, target) = message.hosts(processes);
    let [(source_host, source_adapter), (target_host, target_adapter)] =
        [source, target].map(|place| config.adapter_at(place.0));
    let has_several = config.hosts.adapters.count > 1;
    Message {
        message: message.number,
        is_around: message.is_around,
        source_host,
        source_process: message.source % processes,
        source_adapter: has_several.then_some(source_adapter),
        source: host_name(config, source),
        target_host,
        target_process: message.target % processes,
        target_adapter: has_several.then_some(target_adapter),
        target: host_name(config, target),
        size_bytes: message.bytes,
        operation: message.operation.name(),
    }
}
