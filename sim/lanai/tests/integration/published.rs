//! What is given of the published system comes out, and so do the shapes of its experiments.

use viaduct_engine::Time;
use viaduct_frames::residency::{Policy, Stall};
use viaduct_lanai::{Config, Contention, Server, contention, exchange, measure};

fn assert_near(ours: f64, given: f64) {
    let error = (ours - given).abs() / given;
    assert!(error < 0.05, "{ours} where {given} is given");
}

fn contend(config: Config, server: Server, clients: u16) -> Contention {
    let (warm_up, window) = (Time::from_milliseconds(50), Time::from_milliseconds(250));
    contention(config, server, clients, 16, warm_up, window)
}

fn am(frames: u16) -> Config {
    Config::am_myrinet(25, frames)
}

#[test]
fn the_first_generation_has_its_given_figures() {
    let measured = measure(&Config::gam_myrinet(2));
    assert_near(measured.o_send_us + measured.o_recv_us, 5.8);
    assert_near(measured.gap_us, 5.8);
    assert_near(measured.bulk_mbyte_s, 38.0);
}

#[test]
fn error_checking_costs_what_is_given_in_latency_and_in_gap() {
    let with = Config::am_myrinet(2, 8);
    let mut without = with.clone();
    without.firmware.steps.check_out = 0;
    without.firmware.steps.check_in = 0;
    let (with, without) = (measure(&with), measure(&without));
    assert_near(with.latency_us - without.latency_us, 1.1);
    assert_near(with.gap_us - without.gap_us, 1.1);
}

#[test]
fn remapping_begins_at_the_ninth_client_and_leaves_a_large_part_of_the_peak() {
    for server in [Server::SingleThread, Server::MultiThread] {
        let peak = contend(am(8), server, 8);
        assert_eq!(peak.window.remaps, 0);
        for clients in [9, 12, 24] {
            let result = contend(am(8), server, clients);
            // The kernel's thread looks 25 times, and finds those that are in no frame.
            let least = 20 * (u64::from(clients) - 8).min(8);
            assert!(result.window.remaps >= least, "{result:?}");
            assert!(result.messages_s > 0.75 * peak.messages_s, "{result:?}");
        }
        assert_eq!(contend(am(96), server, 24).window.remaps, 0);
    }
}

#[test]
fn one_shared_endpoint_drops_once_credits_exceed_its_queue() {
    let [one, two, four] = [1, 2, 4].map(|clients| contend(am(8), Server::One, clients));
    assert_eq!((one.window.refusals, two.window.refusals), (0, 0));
    assert!((one.messages_s / two.messages_s - 1.0).abs() < 0.02);
    assert!(four.window.refusals > 0);
    assert!(four.messages_s < 0.9 * two.messages_s, "{four:?}");
}

/// Eight channels from each client: two have 16 messages under way, from five on more than the
/// queue of 32 takes while the bus is behind.
#[test]
fn bulk_bursts_of_many_clients_meet_the_limit_of_the_queue() {
    let run = |clients| {
        let (warm_up, window) = (Time::from_milliseconds(50), Time::from_milliseconds(250));
        contention(am(8), Server::One, clients, 8192, warm_up, window)
    };
    assert_eq!(run(2).window.refusals, 0);
    for clients in [8, 24] {
        let result = run(clients);
        assert!(result.window.refusals > 500, "{result:?}");
        assert!(result.window.retransmissions > 500, "{result:?}");
        // The bus goes on.
        assert!(result.mbyte_s > 40.0, "{result:?}");
    }
    // What was refused is sent again, and is taken once.
    let result = exchange(am(8), Server::One, 24, 8192, 100);
    assert_eq!(result.replies, [100; 24]);
    assert_eq!((result.pending, result.totals.returned), (0, 0));
    assert!(result.totals.refusals > 500, "{result:?}");
}

#[test]
fn polling_frames_costs_what_uncached_reads_take() {
    // One client that has one request outstanding, so that both sides wait for messages.
    let round_trip_us = |poll_ns: u64| {
        let mut config = am(96);
        config.host.poll_frame = Time::from_nanoseconds(poll_ns);
        config.queue_entries = 1;
        let (warm_up, window) = (Time::from_milliseconds(50), Time::from_milliseconds(250));
        let result = contention(config, Server::SingleThread, 1, 16, warm_up, window);
        result.clients[0].round_trip_us
    };
    let (cached, uncached) = (round_trip_us(0), round_trip_us(800));
    // Half a look at either end.
    assert_near(uncached - cached, 0.8);
}

#[test]
fn the_protocol_that_blocks_threads_collapses() {
    let mut config = am(8);
    let goes_on = contend(config.clone(), Server::SingleThread, 12);
    config.stall = Stall::Thread;
    let blocks = contend(config, Server::SingleThread, 12);
    let ratio = blocks.messages_s / goes_on.messages_s;
    assert!(ratio < 0.5, "{ratio}");
}

#[test]
fn no_client_is_below_half_the_mean() {
    for server in [Server::One, Server::SingleThread, Server::MultiThread] {
        let (warm_up, window) = (Time::from_milliseconds(100), Time::from_milliseconds(2_000));
        let result = contention(am(8), server, 24, 16, warm_up, window);
        let mean = result.messages_s / 24.0;
        for client in &result.clients {
            assert!(
                client.messages_s > mean / 2.0,
                "{server:?}: {client:?} of {mean}"
            );
        }
    }
}

#[test]
fn equal_configurations_run_equally() {
    let run = |seed| {
        let mut config = am(4);
        config.seed = seed;
        contend(config, Server::SingleThread, 9)
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn frames_beyond_the_endpoints_change_nothing() {
    for (server, clients) in [
        (Server::One, 3),
        (Server::SingleThread, 5),
        (Server::MultiThread, 8),
    ] {
        let frames = if server == Server::One { 1 } else { clients };
        assert_eq!(
            contend(am(frames), server, clients),
            contend(am(96), server, clients),
            "{server:?}"
        );
    }
}

#[test]
fn every_request_has_one_reply_under_loss_and_remapping_storms() {
    // Goal: all parts together, with fewer frames than anybody would have and a bad network.
    let mut losses = 0;
    let mut remaps = 0;
    for seed in 0..24 {
        for (server, bytes) in [
            (Server::One, 16),
            (Server::SingleThread, 16),
            (Server::MultiThread, 8192),
        ] {
            let mut config = Config::am_myrinet(8, 1 + (seed % 3) as u16);
            config.seed = seed;
            config.policy =
                [Policy::Random, Policy::LeastRecentlyUsed, Policy::Clock][seed as usize % 3];
            config.stall = [Stall::Nobody, Stall::Thread][seed as usize % 2];
            config.network.lost_per_million = 10_000;
            config.network.receive_buffers = 4;
            let result = exchange(config, server, 7, bytes, 100);
            assert_eq!(
                result.replies, [100; 7],
                "seed {seed}, {server:?}, {bytes} bytes"
            );
            assert_eq!(
                (result.pending, result.totals.returned),
                (0, 0),
                "seed {seed}"
            );
            losses += result.totals.lost;
            remaps += result.totals.remaps;
        }
    }
    assert!(
        losses > 1000 && remaps > 1000,
        "{losses} lost, {remaps} remaps"
    );
}
