//! Keys of what befalls programs on simulated hosts.

use super::{MEAN_INTERVALS, interval_keys, size_keys};
use crate::keys::Key;
use crate::value::Kind;

const HOST: Kind = Kind::Count(0, u32::MAX as u64);
const LINKS: &[&str] = &["link-down", "loss", "corruption"];

pub(super) fn detection_keys() -> Vec<Key> {
    vec![
        Key::new(
            "transport_timeout",
            Kind::Time,
            "until a reliable connection gives a lost message up, and breaks",
        )
        .or("1 ms"),
        Key::new(
            "host_timeout",
            Kind::Time,
            "until hosts that do not hear each other give their connections up",
        )
        .or("10 ms"),
    ]
}

pub(super) fn fault_keys() -> Vec<Key> {
    const KINDS: &[&str] = &[
        "link-down",
        "loss",
        "corruption",
        "nic-dies",
        "host-dies",
        "slow-host",
    ];
    vec![
        Key::new("kind", Kind::Choice(KINDS), "what goes wrong"),
        Key::new(
            "links",
            Kind::Text,
            "all; host 1: its cable; s0 -> s1, or s0 <-> s1 for both directions",
        )
        .or("all")
        .with("kind", LINKS),
        Key::new(
            "rate",
            Kind::Ratio,
            "share of the frames that each such link loses or corrupts",
        )
        .with("kind", &["loss", "corruption"]),
        Key::new("host", HOST, "which host, or whose NIC")
            .with("kind", &["nic-dies", "host-dies", "slow-host"]),
        Key::new("at", Kind::Time, "when it dies").with("kind", &["nic-dies", "host-dies"]),
        Key::new("from", Kind::Time, "when it begins")
            .or("0 s")
            .with("kind", &["link-down", "slow-host"]),
        Key::new("until", Kind::Time, "when the links are up again")
            .otherwise("never")
            .with("kind", &["link-down"]),
        Key::new(
            "factor",
            Kind::Real,
            "how many times as long all work of its processor takes",
        )
        .otherwise("per_message is given")
        .not_beside(&["per_message"])
        .with("kind", &["slow-host"]),
        Key::new(
            "per_message",
            Kind::Time,
            "work of its processor for each message that arrives, beside the usual",
        )
        .otherwise("factor is given")
        .not_beside(&["factor"])
        .with("kind", &["slow-host"]),
    ]
}

pub(super) fn background_keys() -> Vec<Key> {
    let mut keys = vec![
        Key::new("source", HOST, "the host that it comes from"),
        Key::new("target", HOST, "the host that it goes to")
            .otherwise("any other, drawn each time"),
        Key::new("from", Kind::Time, "no transfer starts before").or("0 s"),
        Key::new("until", Kind::Time, "none starts at or after").otherwise("the programs' end"),
    ];
    keys.extend(interval_keys(|key| key));
    let mean = Key::new(
        "interval",
        Kind::Time,
        "mean time between the starts of two transfers",
    );
    keys.insert(5, mean.with("interval_distribution", MEAN_INTERVALS));
    keys.extend(size_keys());
    keys
}
