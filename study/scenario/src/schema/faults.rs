//! Keys of what befalls programs on simulated hosts.

use viaduct_engine::Time;

use super::{IntervalKind, Intervals, Sizes};
use crate::section::kinds::{choice, host, number, share, text, time};
use crate::section::{Setting, group, section, words};

section! {
    Detection Optional "detection": "how long simulated hosts take to notice a fault" {
        transport_timeout: Setting<Time> =
            time("until a reliable connection gives a lost message up, and breaks").or("1 ms");
        host_timeout: Setting<Time> =
            time("until hosts that do not hear each other give their connections up").or("10 ms");
    }
}

words! {
    pub(crate) enum FaultKind {
        LinkDown = "link-down",
        Loss = "loss",
        Corruption = "corruption",
        NicDies = "nic-dies",
        HostDies = "host-dies",
        SlowHost = "slow-host",
        SlowLink = "slow-link",
    }
}

section! {
    FaultRow Rows "fault": "[[fault]]: something that goes wrong, one per row" {
        kind: Setting<FaultKind> = choice("what goes wrong");
        links: Setting<String> =
            text("all; host 1: its cable; s0 -> s1, or s0 <-> s1 for both directions").or("all"),
            when kind = FaultKind::LinkDown | FaultKind::Loss | FaultKind::Corruption
                | FaultKind::SlowLink;
        rate: Setting<f64> = share("share of the frames that each such link loses or corrupts"),
            when kind = FaultKind::Loss | FaultKind::Corruption;
        host: Setting<u32> = host("which host, or whose NIC"),
            when kind = FaultKind::NicDies | FaultKind::HostDies | FaultKind::SlowHost;
        at: Setting<Time> = time("when it dies"),
            when kind = FaultKind::NicDies | FaultKind::HostDies;
        from: Setting<Time> = time("when it begins").or("0 s"),
            when kind = FaultKind::LinkDown | FaultKind::SlowHost;
        until: Setting<Time> = time("when the links are up again").otherwise("never"),
            when kind = FaultKind::LinkDown;
        factor: Setting<f64> = number(
            "how many times as long all work of its processor takes, or bytes on such a link, from \
            the start to the end of the run",
        )
            .otherwise("per_message is given; needed for links")
            .not_beside(&[FaultRow::per_message]),
            when kind = FaultKind::SlowHost | FaultKind::SlowLink;
        per_message: Setting<Time> =
            time("work of its processor for each message that arrives, beside the usual")
                .otherwise("factor is given")
                .not_beside(&[FaultRow::factor]),
            when kind = FaultKind::SlowHost;
    }
}

section! {
    Background Rows "background":
        "[[background]]: traffic of others on the same links, one per row" {
        source: Setting<u32> = host("the host that it comes from");
        target: Setting<u32> = host("the host that it goes to")
            .otherwise("any other, drawn each time");
        from: Setting<Time> = time("no transfer starts before").or("0 s");
        until: Setting<Time> = time("none starts at or after").otherwise("the end");
        intervals: Intervals = group();
        interval: Setting<Time> = time("mean time between the starts of two transfers"),
            when intervals.interval_distribution = IntervalKind::Exponential
                | IntervalKind::Constant | IntervalKind::Pareto | IntervalKind::LogNormal;
        sizes: Sizes = group();
    }
}
