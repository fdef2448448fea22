//! Connections between equals: cases 69 to 71.

use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::ReturnCode;
use viaduct_provider::via::{Address, HostAddress, RemoteViAttributes, ViState};

use crate::case::{Case, Level};
use crate::check::{Outcome, equal, holds, refused, skip};
use crate::environment::{Environment, LIMIT};
use crate::memory::pattern;
use crate::pair::{End, Nic, Options, milliseconds};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        69,
        Level::Functional,
        "crossed_requests_meet",
        &[crossed, crossed],
    ),
    Case::alone(
        70,
        Level::Functional,
        "peer_that_never_comes_times_out",
        &[nobody],
    ),
    Case::pair(
        71,
        Level::Functional,
        "many_peer_requests_meet_in_any_order",
        &[many, many],
    ),
    Case::alone(
        107,
        Level::Functional,
        "peer_calls_without_a_request_are_refused",
        &[no_request],
    ),
    Case::pair(
        108,
        Level::Functional,
        "peers_that_differ_are_told",
        &[differ, differ],
    ),
    Case::pair(
        109,
        Level::Decision,
        "peer_request_meets_no_server",
        &[peer_beside_server, server_beside_peer],
    ),
];

struct Names {
    local: Address,
    remote: Address,
}

/// Both addresses of a connection, as this side sees them.
fn names(env: &Environment, nic: &Nic, name: &str) -> Outcome<Names> {
    let [host] = env.exchange_numbers([nic.host.get()])?;
    let (own, other) = (env.side(), 1 - env.side());
    Ok(Names {
        local: nic.address(env, &format!("{name} {own}")),
        remote: Address::new(
            HostAddress::new(host),
            &env.discriminator(&format!("{name} {other}")),
        ),
    })
}

fn start(end: &End, names: &Names, limit: Option<Duration>) -> Outcome {
    let Names { local, remote } = names;
    Ok(end
        .env
        .provider()
        .connect_peer_request(end.vi, local, remote, limit)?)
}

/// A message each way.
fn talk(end: &End) -> Outcome {
    let (own, other) = (end.env.side() as u64, 1 - end.env.side() as u64);
    let receive = end.post_receive(0, 64)?;
    end.env.meet("posted")?;
    end.fill(1024, 33, own);
    end.sent_well(end.post_send(1024, 33)?)?;
    end.received_bytes(receive, 0, &pattern(other, 33))
        .map(drop)
}

/// Each side comes first once, and finds out by looking once and by waiting once.
fn crossed(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    for (round, level) in nic.levels().into_iter().flat_map(|l| [(0, l), (1, l)]) {
        let end = End::new(env, &nic, Options::level(level))?;
        let names = names(env, &nic, "crossed")?;
        if env.side() == round {
            start(&end, &names, Some(LIMIT))?;
            end.is_in(ViState::ConnectPending)?;
            equal(
                env.provider().connect_peer_done(end.vi)?,
                None,
                "a look before the peer came",
            )?;
            env.meet("first has asked")?;
        } else {
            env.meet("first has asked")?;
            start(&end, &names, Some(LIMIT))?;
        }
        let remote: RemoteViAttributes = if env.side() == 0 {
            env.until("the peer", || {
                Ok(env.provider().connect_peer_done(end.vi)?)
            })?
        } else {
            env.provider().connect_peer_wait(end.vi)?
        };
        equal(remote.reliability, level, "the peer's level")?;
        end.is_in(ViState::Connected)?;
        env.meet("connected")?;
        talk(&end)?;
        end.close()?;
    }
    Ok(())
}

fn nobody(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let (local, remote) = (nic.address(env, "here"), nic.address(env, "nobody"));
    let begin = env.now();
    env.provider()
        .connect_peer_request(end.vi, &local, &remote, milliseconds(200))?;
    let waited = env.provider().connect_peer_wait(end.vi);
    let took = env.now() - begin;
    refused(
        waited,
        ReturnCode::Timeout,
        "a wait for a peer that never comes",
    )?;
    holds(
        took >= Duration::from_millis(190),
        format_args!("200 ms of waiting, was {took:?}"),
    )?;
    end.is_in(ViState::Idle)?;
    // The time runs from the request, not from the wait.
    env.provider()
        .connect_peer_request(end.vi, &local, &remote, milliseconds(100))?;
    env.sleep(200);
    let begin = env.now();
    refused(
        env.provider().connect_peer_wait(end.vi),
        ReturnCode::Timeout,
        "a wait that is late",
    )?;
    holds(
        env.now() - begin < Duration::from_secs(5),
        "a late wait that returns at once",
    )?;
    end.is_in(ViState::Idle)?;
    let other = End::new(env, &nic, Options::level(nic.any_level()?))?;
    crate::pair::connect_locally(&end, &other, "after it")
}

const MANY: usize = 16;

fn many(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let mut ends = Vec::new();
    for number in 0..MANY {
        let end = End::new(env, &nic, Options::level(level).bytes(4096))?;
        let names = names(env, &nic, &format!("peer {number}"))?;
        start(&end, &names, Some(LIMIT))?;
        ends.push(end);
    }
    // Each side waits in an order of its own.
    for step in 0..MANY {
        let which = if env.side() == 0 {
            step * 5 % MANY
        } else {
            MANY - 1 - step
        };
        env.provider().connect_peer_wait(ends[which].vi)?;
    }
    env.meet("all connected")?;
    for end in &ends {
        end.is_in(ViState::Connected)?;
        talk(end)?;
    }
    ends.into_iter().try_for_each(End::close)
}

fn no_request(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let code = ReturnCode::InvalidState;
    refused(
        env.provider().connect_peer_done(end.vi),
        code,
        "a look without a request",
    )?;
    refused(
        env.provider().connect_peer_wait(end.vi),
        code,
        "a wait without a request",
    )?;
    let address = nic.address(env, "nobody");
    let zero = Some(Duration::ZERO);
    let asked = env
        .provider()
        .connect_peer_request(end.vi, &address, &address, zero);
    refused(
        asked,
        ReturnCode::InvalidParameter,
        "a peer request with no time",
    )?;
    let other = nic.address(env, "here");
    env.provider()
        .connect_peer_request(end.vi, &other, &address, Some(LIMIT))?;
    let again = env
        .provider()
        .connect_peer_request(end.vi, &other, &address, Some(LIMIT));
    refused(again, code, "a second request of one VI")?;
    env.provider().disconnect(end.vi)?;
    end.is_in(ViState::Idle)
}

fn differ(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let levels = nic.levels();
    let [first, second, ..] = levels[..] else {
        return skip("the NIC has one level only");
    };
    let level = [first, second][env.side()];
    let end = End::new(env, &nic, Options::level(level))?;
    let names = names(env, &nic, "differ")?;
    start(&end, &names, Some(LIMIT))?;
    let waited = env.provider().connect_peer_wait(end.vi);
    refused(
        waited,
        ReturnCode::InvalidReliabilityLevel,
        "a peer of another level",
    )?;
    end.is_in(ViState::Idle)?;
    env.meet("told")
}

/// A server waits where the peer request is directed; they do not meet.
fn peer_beside_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let names = names(env, &nic, "peer")?;
    env.meet("server waits soon")?;
    env.sleep(50);
    start(&end, &names, milliseconds(150))?;
    let waited = env.provider().connect_peer_wait(end.vi);
    refused(waited, ReturnCode::Timeout, "a peer request to a server")?;
    env.meet("over")
}

fn server_beside_peer(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let names = names(env, &nic, "peer")?;
    env.meet("server waits soon")?;
    let waited = env
        .provider()
        .connect_wait(nic.handle, &names.local, milliseconds(400));
    refused(
        waited,
        ReturnCode::Timeout,
        "a server's wait beside a peer request",
    )?;
    env.meet("over")
}
