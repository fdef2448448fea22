//! From what was kept of one message's life to what it waited for.

use std::collections::BTreeSet;

use viaduct_engine::Time;
use viaduct_topology::LinkId;

use super::choose::Record;
use super::sharing::{SharedServer, covered, lost};
use super::{
    Account, Beside, MessageName, NAMED_MAX, Overlap, Place, PlaceUse, StageTime, Wait, WayUse,
    Work,
};
use crate::config::ClusterConfig;
use crate::path::leg_of;
use crate::trace::{Follower, Move, Server, Span, Use};
use viaduct_hardware::mechanism::Plan;
use viaduct_hardware::{STAGES, Stage};
use viaduct_network::Sharing;
use viaduct_network::fluid::FlowDemand;

/// What a delivered message's time went to.
pub(super) fn account(config: &ClusterConfig, record: &Record, follower: &Follower) -> Account {
    let there = config.pair(follower.hosts());
    let mut alone = [Time::ZERO; STAGES];
    for way in 0..follower.ways.len() {
        let plan = plan_of(config, record, follower, way);
        let pair = match way {
            0 => there,
            _ => there.back(),
        };
        let over = config.alone(pair, &follower.links(way), &plan);
        let notice = pair.receiver.notice().alone();
        let leg = leg_of(record.message.operation, way > 0, notice);
        let of_way = pair.stages_alone(&plan, over, leg);
        for (sum, time) in alone.iter_mut().zip(of_way) {
            *sum += time;
        }
    }
    // How it hears of a message a program chooses itself, and nobody disturbs. A process of drawn
    // traffic may have found it.
    let usual = &mut alone[Stage::Notice as usize];
    let notice = time_in(record, Stage::Notice);
    let mut floor = record.floor;
    if follower.is_of_program {
        floor += notice;
        *usual = notice;
    } else {
        *usual = notice.min(*usual);
    }
    let stages = Stage::ALL
        .into_iter()
        .map(|stage| StageTime {
            stage,
            time: time_in(record, stage),
            alone: alone[stage as usize],
        })
        .collect();
    Account {
        latency: record.latency,
        floor,
        stages,
        waits: waits(record, follower),
        way: way(config, record, follower),
    }
}

/// How the message was carried on one of its ways.
fn plan_of(config: &ClusterConfig, record: &Record, follower: &Follower, way: usize) -> Plan {
    let alone = || config.plan_alone(record.message.bytes, follower.hosts());
    follower.ways[way].plan.unwrap_or_else(alone)
}

fn time_in(record: &Record, stage: Stage) -> Time {
    Time::from_picoseconds(record.stages[stage as usize])
}

/// The waits in lines that took time, with those ahead.
fn waits(record: &Record, follower: &Follower) -> Vec<Wait> {
    let within = |begin: Time, length: Time| Span {
        begin,
        end: begin + length,
    };
    let after = |begin: Time, stage| within(begin, time_in(record, stage));
    let buffer = after(record.posted, Stage::Buffer);
    let sender = after(buffer.end, Stage::SenderProcessor);
    let worked = after(after(sender.end, Stage::Post).end, Stage::Software).end;
    let doorbell = after(worked, Stage::Doorbell).end;
    // First for the descriptor's turn, which a VI has only while none of its messages waits to
    // move; then for the VI's message before it.
    let mut send_queue = Vec::new();
    if let Some(fetch) = follower.fetch {
        let turn = Span {
            begin: doorbell,
            end: fetch.begin,
        };
        send_queue.extend([(turn, Server::DescriptorStage), (turn, Server::Vi)]);
        // What is fetched of the data first belongs to the descriptor's stage as well.
        let fetched = fetch.begin + time_in(record, Stage::Descriptor);
        let order = follower.moves.first().map(|first| Span {
            begin: fetched,
            end: first.span.begin,
        });
        send_queue.extend(order.map(|order| (order, Server::Vi)));
    } else if let Some(first) = follower.moves.first() {
        // The processor starts it itself: it waits for the VI's message before it alone.
        let order = Span {
            begin: worked,
            end: first.span.begin,
        };
        send_queue.push((order, Server::Vi));
    }
    let delivered = record.posted + record.latency;
    let taken = delivered - time_in(record, Stage::Reap) - time_in(record, Stage::Notice);
    let receiver = time_in(record, Stage::ReceiverProcessor);
    let receiver = within(taken - receiver, receiver);
    [
        (Stage::Buffer, vec![(buffer, Server::Buffers)]),
        (
            Stage::SenderProcessor,
            vec![(sender, Server::SenderProcessor)],
        ),
        (Stage::SendQueue, send_queue),
        (
            Stage::ReceiverProcessor,
            vec![(receiver, Server::ReceiverProcessor)],
        ),
    ]
    .into_iter()
    .filter(|(stage, ..)| time_in(record, *stage) > Time::ZERO)
    .map(|(stage, spans)| wait(record, follower, stage, &spans))
    .collect()
}

/// A wait for servers, each for a span.
fn wait(record: &Record, follower: &Follower, stage: Stage, spans: &[(Span, Server)]) -> Wait {
    let mut overlaps: Vec<(Span, Overlap)> = Vec::new();
    for &(span, server) in spans {
        for used in uses_of(follower, server) {
            let common = span.overlap(used.span);
            let overlap = Overlap {
                message: used.message,
                work: used.work,
                time: common.length(),
            };
            if common.length() > Time::ZERO {
                overlaps.push((common, overlap));
            }
        }
    }
    let whole = Span {
        begin: record.posted,
        end: record.posted + record.latency,
    };
    let explained = covered(whole, overlaps.iter().map(|(span, _)| *span));
    // A message that was met twice, before a descriptor was read and after, is one.
    let mut joined: Vec<Overlap> = Vec::new();
    for (_, overlap) in overlaps {
        let is_same =
            |other: &&mut Overlap| other.message == overlap.message && other.work == overlap.work;
        match joined.iter_mut().find(is_same) {
            Some(other) => other.time += overlap.time,
            None => joined.push(overlap),
        }
    }
    let (messages, longest) = longest(joined);
    Wait {
        stage,
        time: time_in(record, stage),
        explained,
        messages,
        longest,
    }
}

/// The links and buses that the bytes crossed; where frames take ways of their own, those that all
/// of them crossed.
fn way(config: &ClusterConfig, record: &Record, follower: &Follower) -> WayUse {
    let first_bus = config.topology.link_count();
    let spreads = config.topology.spreads_frames();
    let links_of_hosts = 0..2 * config.topology.host_count();
    let is_in_pieces = config.links.sharing.goes_in_pieces();
    let mut places = Vec::new();
    let mut beside: Option<Beside> = None;
    for hop in &follower.moves {
        let mut of_hop = hop.waits.clone();
        if let Some(waits) = &of_hop {
            let sum = beside.get_or_insert_default();
            sum.held_back += waits.held_back;
            sum.sent_again += waits.sent_again;
            sum.in_order += waits.in_order;
        }
        let of_way = |way: &usize| follower.places_of_way(*way).contains(&hop.places.start);
        let way = (0..follower.ways.len()).find(of_way).unwrap_or_default();
        let demand = plan_of(config, record, follower, way).demand(0);
        let costs = hop_losses(config, follower, (way, hop), &demand);
        for (place, lost) in hop.places.clone().zip(costs) {
            let resource = follower.path[place];
            if spreads && resource.0 < first_bus && !links_of_hosts.contains(&resource.0) {
                continue;
            }
            let name = match resource.0.checked_sub(first_bus) {
                Some(host) => Place::Bus(viaduct_topology::HostId(host)),
                None => Place::Link(LinkId(resource.0)),
            };
            let queue = of_hop
                .as_mut()
                .map(|waits| waits.places.remove(&resource).unwrap_or_default());
            let lost = match config.links.sharing {
                Sharing::Fluid => Some(Time::from_picoseconds((lost + 0.5) as u64)),
                _ => queue.map(|queue| queue.waited),
            };
            places.push(PlaceUse {
                queue: queue.filter(|_| is_in_pieces),
                ..place_use(follower, place, name, hop.span, lost)
            });
        }
        if let (Some(waits), Some(sum)) = (of_hop, &mut beside) {
            let elsewhere = waits.places.values().map(|queue| queue.waited);
            sum.elsewhere = elsewhere.fold(sum.elsewhere, |sum, time| sum + time);
        }
    }
    let queued = time_in(record, Stage::Queued);
    let charged: Option<u64> = places
        .iter()
        .map(|place| place.lost.map(Time::picoseconds))
        .sum();
    let beside_places = beside.map_or(Time::ZERO, |it| {
        it.elsewhere + it.held_back + it.sent_again + it.in_order
    });
    let charged = charged.map(|charged| charged + beside_places.picoseconds());
    let moving = follower.moves.iter().map(|hop| hop.span.length());
    WayUse {
        moving: moving.fold(Time::ZERO, |sum, time| sum + time),
        queued,
        places,
        beside,
        rest_picoseconds: charged.map(|charged| queued.picoseconds() as i64 - charged as i64),
    }
}

/// What sharing cost at each place of a hop, picoseconds.
fn hop_losses(
    config: &ClusterConfig,
    follower: &Follower,
    (way, hop): (usize, &Move),
    demand: &FlowDemand,
) -> Vec<f64> {
    let first_bus = config.topology.link_count();
    let bus_rate = |bus: u32| config.host.of(bus).bus.dma_rate().bytes_per_picosecond();
    let servers: Vec<SharedServer> = hop
        .places
        .clone()
        .map(|place| {
            let resource = follower.path[place].0;
            let rate = if resource >= first_bus {
                bus_rate(resource - first_bus) * demand.scale
            } else {
                config.link_rate(LinkId(resource)).bytes_per_picosecond()
            };
            let others = uses_of(follower, Server::Place(place)).map(|used| used.span);
            SharedServer {
                rate,
                others: others.collect(),
            }
        })
        .collect();
    // The adapters' own rate counts where a hop touches one.
    let whole = follower.places_of_way(way);
    let first_link = whole.start + usize::from(follower.is_bus(whole.start));
    let has_last_bus = follower.is_bus(whole.end.saturating_sub(1));
    let last_link = whole.end.saturating_sub(1 + usize::from(has_last_bus));
    let touches_nic = hop.places.start <= first_link || hop.places.end > last_link;
    let rate_max = match demand.rate_max {
        rate if touches_nic && !rate.is_nan() => rate,
        _ => f64::INFINITY,
    };
    lost(hop.span, rate_max, &servers)
}

fn place_use(
    follower: &Follower,
    place: usize,
    name: Place,
    own: Span,
    lost: Option<Time>,
) -> PlaceUse {
    let uses: Vec<&Use> = uses_of(follower, Server::Place(place))
        .filter(|used| used.span.overlap(own).length() > Time::ZERO)
        .collect();
    let (devices, messages): (Vec<&Use>, Vec<&Use>) =
        uses.iter().partition(|used| used.message.is_none());
    let mut overlaps: Vec<Overlap> = messages
        .iter()
        .map(|used| Overlap {
            message: used.message,
            work: used.work,
            time: used.span.overlap(own).length(),
        })
        .collect();
    if !devices.is_empty() {
        overlaps.push(Overlap {
            message: None,
            work: Work::Move,
            time: covered(own, devices.iter().map(|used| used.span)),
        });
    }
    let (messages, longest) = longest(overlaps);
    PlaceUse {
        place: name,
        messages,
        device_transfers: devices.len() as u64,
        shared: covered(own, uses.iter().map(|used| used.span)),
        lost,
        queue: None,
        longest,
    }
}

fn uses_of(follower: &Follower, server: Server) -> impl Iterator<Item = &Use> {
    let uses = follower.uses.iter();
    uses.filter(move |used| used.server == server)
}

/// How many messages there are, and the longest overlaps.
fn longest(mut overlaps: Vec<Overlap>) -> (u64, Vec<Overlap>) {
    let messages: BTreeSet<MessageName> = overlaps
        .iter()
        .filter_map(|overlap| overlap.message)
        .collect();
    overlaps.sort_by_key(|overlap| {
        let number = overlap.message.map(|message| message.number);
        (core::cmp::Reverse(overlap.time), number, overlap.work)
    });
    overlaps.truncate(NAMED_MAX);
    (messages.len() as u64, overlaps)
}
