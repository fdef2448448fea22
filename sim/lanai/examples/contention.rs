//! LogP parameters of both interfaces, and one server with more and more clients.

//!
//! `contention [MILLISECONDS]`: how much simulated time each row measures; 400 without it.

use viaduct_engine::Time;
use viaduct_lanai::{Config, Server, contention, measure};

#[expect(
    clippy::disallowed_methods,
    reason = "the length of a run is its caller's choice"
)]
fn window() -> Time {
    let argument = std::env::args().nth(1);
    let milliseconds = argument.map_or(Ok(400), |text| text.parse());
    Time::from_milliseconds(milliseconds.expect("a number of milliseconds"))
}

fn main() {
    for (name, config) in [
        ("gam-myrinet", Config::gam_myrinet(2)),
        ("am-myrinet", Config::am_myrinet(2, 8)),
    ] {
        println!("{name}: {:.2?}", measure(&config));
    }
    for (server, frames) in [
        (Server::One, 8),
        (Server::SingleThread, 8),
        (Server::SingleThread, 96),
        (Server::MultiThread, 8),
        (Server::MultiThread, 96),
    ] {
        println!("{server:?}, {frames} frames");
        for clients in [1, 2, 4, 8, 9, 12, 16, 24] {
            let config = Config::am_myrinet(25, frames);
            let (warm_up, window) = (Time::from_milliseconds(100), window());
            let result = contention(config, server, clients, 16, warm_up, window);
            let least = result.clients.iter().map(|client| client.messages_s);
            let seconds = window.seconds_f64();
            println!(
                "  {clients:2} clients: {:8.0} messages/s, least {:6.0}, {:5.0} remaps/s, {:7.0} refusals/s, {:6.0} again/s, {:6.0} stops/s, {} events",
                result.messages_s,
                least.fold(f64::INFINITY, f64::min),
                result.window.remaps as f64 / seconds,
                result.window.refusals as f64 / seconds,
                result.window.retransmissions as f64 / seconds,
                result.window.stops as f64 / seconds,
                result.window.events,
            );
        }
    }
}
