//! Connections between client and server: cases 13 to 22.

use std::sync::Arc;
use std::time::Duration;

use viaduct_provider::via::{Address, Discriminator, HostAddress, ViAttributes, ViState};
use viaduct_provider::{IncomingRequest, ReturnCode};

use crate::case::{Case, Level};
use crate::check::{Outcome, Stop, equal, holds, refused};
use crate::environment::{Environment, LIMIT};
use crate::pair::{End, Nic, Options, RD, UD, connect_locally, milliseconds, pair, request};

pub(super) const CASES: &[Case] = &[
    Case::pair(
        13,
        Level::EarlyAdopter,
        "server_and_client_see_each_other",
        &[meet_client, meet_server],
    ),
    Case::alone(
        14,
        Level::EarlyAdopter,
        "nobody_waits_is_told_at_once",
        &[nobody_waits],
    ),
    Case::pair(
        15,
        Level::EarlyAdopter,
        "discriminators_match_to_the_byte",
        &[near_names_client, near_names_server],
    ),
    Case::alone(
        16,
        Level::EarlyAdopter,
        "request_without_time_is_refused",
        &[no_time],
    ),
    Case::pair(
        17,
        Level::EarlyAdopter,
        "unanswered_request_times_out",
        &[unanswered_client, unanswered_server],
    ),
    Case::alone(
        18,
        Level::EarlyAdopter,
        "wait_without_request_times_out",
        &[wait_alone],
    ),
    Case::pair(
        19,
        Level::EarlyAdopter,
        "rejected_client_can_come_again",
        &[rejected_client, rejecting_server],
    ),
    Case::pair(
        20,
        Level::EarlyAdopter,
        "accept_with_other_level_can_be_repaired",
        &[level_client, level_server],
    ),
    Case::pair(
        21,
        Level::EarlyAdopter,
        "accept_with_other_transfer_limit_is_refused",
        &[limit_client, limit_server],
    ),
    Case::pair(
        22,
        Level::EarlyAdopter,
        "connected_vi_does_not_connect_again",
        &[connected_client, connected_server],
    ),
    Case::alone(
        82,
        Level::Decision,
        "long_discriminators_are_refused",
        &[long_discriminator],
    ),
    Case::pair(
        83,
        Level::Decision,
        "many_clients_of_one_wait_are_served_in_turn",
        &[many_clients, many_server],
    ),
    Case::pair(
        84,
        Level::Decision,
        "disconnect_while_pending_ends_the_request",
        &[leaving_client, left_server],
    ),
    Case::pair(
        150,
        Level::Decision,
        "closing_a_nic_rejects_its_open_requests",
        &[left_client, leaving_server],
    ),
    Case::alone(
        151,
        Level::Decision,
        "hosts_that_nobody_has_are_not_reachable",
        &[no_such_host],
    ),
    Case {
        kills: true,
        ..Case::pair(
            152,
            Level::Decision,
            "a_request_ends_whose_server_dies",
            &[bereft_client, dying_server],
        )
    },
];

/// Tells the other side this NIC's host, and gets its.
fn hosts(env: &Environment, nic: &Nic) -> Outcome<HostAddress> {
    let [host] = env.exchange_numbers([nic.host.get()])?;
    Ok(HostAddress::new(host))
}

/// The address on the other side with a name of this case.
fn theirs(env: &Environment, host: HostAddress, name: &str) -> Address {
    Address::new(host, &env.discriminator(name))
}

fn wait(env: &Environment, nic: &Nic, name: &str) -> Outcome<IncomingRequest> {
    let address = nic.address(env, name);
    Ok(env
        .provider()
        .connect_wait(nic.handle, &address, Some(LIMIT))?)
}

/// Asks with a time limit until somebody is waiting, and returns what came then.
fn answer(
    env: &Environment,
    end: &End,
    remote: &Address,
    limit: Option<Duration>,
) -> Outcome<viaduct_provider::Result<()>> {
    let local = end.nic.address(env, "client");
    env.until("somebody who waits for the request", || {
        let answer = env
            .provider()
            .connect_request(end.vi, &local, remote, limit);
        Ok(match answer {
            Err(error) if error.code() == ReturnCode::NoMatch => None,
            answer => Some(answer.map(drop)),
        })
    })
}

fn meet_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    for level in nic.levels() {
        let end = End::new(env, &nic, Options::level(level))?;
        let local = nic.address(env, "the client's own name");
        let remote = request(env, end.vi, &local, &theirs(env, host, "server"))?;
        equal(remote.reliability, level, "the server's level")?;
        equal(
            remote.max_transfer_bytes,
            end.attributes.max_transfer_bytes,
            "its limit",
        )?;
        equal(
            remote.rdma_write,
            true,
            "whether the server's VI may be written through",
        )?;
        end.is_in(ViState::Connected)?;
        end.close()?;
    }
    Ok(())
}

fn meet_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    for level in nic.levels() {
        let end = End::new(env, &nic, Options::level(level).rdma_write())?;
        let incoming = wait(env, &nic, "server")?;
        equal(
            &incoming.remote,
            &theirs(env, host, "the client's own name"),
            "the client",
        )?;
        equal(incoming.attributes.reliability, level, "the client's level")?;
        equal(
            incoming.attributes.rdma_write,
            false,
            "whether the client may be written",
        )?;
        equal(
            incoming.attributes.max_transfer_bytes,
            end.attributes.max_transfer_bytes,
            "the client's limit",
        )?;
        env.provider().connect_accept(incoming.connection, end.vi)?;
        end.is_in(ViState::Connected)?;
        let again = env.provider().connect_reject(incoming.connection);
        refused(
            again,
            ReturnCode::InvalidParameter,
            "rejecting what was accepted",
        )?;
        end.close()?;
    }
    Ok(())
}

fn nobody_waits(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let (local, remote) = (nic.address(env, "client"), nic.address(env, "nobody"));
    let start = env.now();
    let asked = env
        .provider()
        .connect_request(end.vi, &local, &remote, milliseconds(10_000));
    refused(
        asked,
        ReturnCode::NoMatch,
        "a request that nobody waits for",
    )?;
    holds(
        env.now() - start < Duration::from_secs(5),
        "an answer well before ten seconds",
    )?;
    end.is_in(ViState::Idle)
}

const NAME: &str = "a name";

fn near_names_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("waiting soon")?;
    // Only a wait that has begun can take a request that is not for it.
    env.sleep(50);
    let local = nic.address(env, "client");
    for name in ["a nam", "", "a name\0", "a names", "A name", "another name"] {
        let remote = theirs(env, host, name);
        let asked = env
            .provider()
            .connect_request(end.vi, &local, &remote, Some(LIMIT));
        refused(
            asked,
            ReturnCode::NoMatch,
            format_args!("a request to {name:?}"),
        )?;
        end.is_in(ViState::Idle)?;
    }
    request(env, end.vi, &local, &theirs(env, host, NAME))?;
    end.close()
}

fn near_names_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    env.meet("waiting soon")?;
    let incoming = wait(env, &nic, NAME)?;
    env.provider().connect_accept(incoming.connection, end.vi)?;
    end.close()
}

fn no_time(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let address = nic.address(env, "nobody");
    let asked = env
        .provider()
        .connect_request(end.vi, &address, &address, Some(Duration::ZERO));
    refused(
        asked,
        ReturnCode::InvalidParameter,
        "a request with no time",
    )?;
    end.is_in(ViState::Idle)
}

fn unanswered_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let receive = end.post_receive(0, 64)?;
    let server = theirs(env, host, "server");
    let start = env.now();
    let answer = answer(env, &end, &server, milliseconds(200))?;
    let took = env.now() - start;
    refused(answer, ReturnCode::Timeout, "a request that nobody answers")?;
    holds(
        took >= Duration::from_millis(190),
        format_args!("200 ms of waiting, was {took:?}"),
    )?;
    end.is_in(ViState::Idle)?;
    env.meet("timed out")?;
    // The same VI connects, and the receive posted before is still there.
    end.connect()?;
    let taken = end.received(receive)?;
    equal(
        taken.control.length,
        5,
        "bytes for the receive posted before the first request",
    )?;
    end.close()
}

fn unanswered_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let incoming = wait(env, &nic, "server")?;
    env.meet("timed out")?;
    // The news travels on the fabric's own way.
    env.sleep(20);
    let late = env.provider().connect_accept(incoming.connection, end.vi);
    refused(late, ReturnCode::Timeout, "accepting a client that gave up")?;
    end.is_in(ViState::Idle)?;
    end.connect()?;
    let send = end.post_send(0, 5)?;
    end.sent_well(send)?;
    end.close()
}

fn wait_alone(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let start = env.now();
    let address = nic.address(env, "server");
    let waited = env
        .provider()
        .connect_wait(nic.handle, &address, milliseconds(200));
    let took = env.now() - start;
    refused(waited, ReturnCode::Timeout, "a wait for nobody")?;
    holds(
        took >= Duration::from_millis(190),
        format_args!("200 ms of waiting, was {took:?}"),
    )?;
    // The wait has ended: a request finds nobody.
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let local = nic.address(env, "client");
    let asked = env
        .provider()
        .connect_request(end.vi, &local, &address, Some(LIMIT));
    refused(asked, ReturnCode::NoMatch, "a request after the wait")
}

fn rejected_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let answer = answer(env, &end, &theirs(env, host, "server"), Some(LIMIT))?;
    refused(answer, ReturnCode::Reject, "a request that is rejected")?;
    end.is_in(ViState::Idle)?;
    end.connect()?;
    end.close()
}

fn rejecting_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let incoming = wait(env, &nic, "server")?;
    env.provider().connect_reject(incoming.connection)?;
    let accepted = env.provider().connect_accept(incoming.connection, end.vi);
    refused(
        accepted,
        ReturnCode::InvalidParameter,
        "accepting what was rejected",
    )?;
    end.connect()?;
    end.close()
}

fn level_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    nic.need(RD)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(RD))?;
    let local = nic.address(env, "client");
    let remote = request(env, end.vi, &local, &theirs(env, host, "server"))?;
    equal(remote.reliability, RD, "the server's level in the end")?;
    end.close()
}

fn level_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    nic.need(UD)?;
    nic.need(RD)?;
    hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(UD))?;
    let incoming = wait(env, &nic, "server")?;
    for _ in 0..2 {
        let accepted = env.provider().connect_accept(incoming.connection, end.vi);
        refused(
            accepted,
            ReturnCode::InvalidReliabilityLevel,
            "accepting with another level",
        )?;
        end.is_in(ViState::Idle)?;
    }
    let fits = ViAttributes {
        reliability: RD,
        ..end.attributes
    };
    env.provider().set_vi_attributes(end.vi, &fits)?;
    env.provider().connect_accept(incoming.connection, end.vi)?;
    end.is_in(ViState::Connected)?;
    end.close()
}

fn limit_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let options = Options {
        transfer_max: 8192,
        ..Options::level(nic.any_level()?)
    };
    let end = End::new(env, &nic, options)?;
    let answer = answer(env, &end, &theirs(env, host, "server"), Some(LIMIT))?;
    refused(
        answer,
        ReturnCode::Reject,
        "the request that the server then rejects",
    )?;
    env.meet("rejected")
}

fn limit_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    let options = Options {
        transfer_max: 4096,
        ..Options::level(nic.any_level()?)
    };
    let end = End::new(env, &nic, options)?;
    let incoming = wait(env, &nic, "server")?;
    equal(
        incoming.attributes.max_transfer_bytes,
        8192,
        "the client's limit",
    )?;
    let accepted = env.provider().connect_accept(incoming.connection, end.vi);
    refused(
        accepted,
        ReturnCode::InvalidMtu,
        "accepting with another limit",
    )?;
    env.provider().connect_reject(incoming.connection)?;
    env.meet("rejected")
}

fn connected_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    let address = nic.address(env, "nobody");
    let asked = env
        .provider()
        .connect_request(end.vi, &address, &address, Some(LIMIT));
    refused(
        asked,
        ReturnCode::InvalidState,
        "a request of a connected VI",
    )?;
    let host = hosts(env, &nic)?;
    // Another VI asks, and is rejected after the server has tried its connected one.
    let other = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let answer = answer(env, &other, &theirs(env, host, "second"), Some(LIMIT))?;
    refused(answer, ReturnCode::Reject, "the second request")?;
    let set = env.provider().set_vi_attributes(end.vi, &end.attributes);
    refused(set, ReturnCode::InvalidState, "setting a connected VI")?;
    end.is_in(ViState::Connected)?;
    end.close()
}

fn connected_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = pair(env, &nic, Options::level(nic.any_level()?))?;
    hosts(env, &nic)?;
    let incoming = wait(env, &nic, "second")?;
    let accepted = env.provider().connect_accept(incoming.connection, end.vi);
    refused(
        accepted,
        ReturnCode::InvalidState,
        "accepting with a connected VI",
    )?;
    end.is_in(ViState::Connected)?;
    env.provider().connect_reject(incoming.connection)?;
    end.close()
}

fn long_discriminator(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let level = nic.any_level()?;
    let limit = usize::from(nic.attributes.max_discriminator_bytes);
    let mut bytes = env.discriminator("long");
    bytes.resize(limit, b'x');
    let mut longest = nic.address(env, "client");
    longest.discriminator = Discriminator::new(&bytes);
    bytes.push(b'x');
    let too_long = Address::new(nic.host, &bytes);

    let end = End::new(env, &nic, Options::level(level))?;
    let code = ReturnCode::InvalidParameter;
    let waited = env
        .provider()
        .connect_wait(nic.handle, &too_long, milliseconds(100));
    refused(waited, code, "a wait on a discriminator too long")?;
    let asked = env
        .provider()
        .connect_request(end.vi, &longest, &too_long, Some(LIMIT));
    refused(asked, code, "a request to a discriminator too long")?;
    let asked = env
        .provider()
        .connect_request(end.vi, &longest, &longest, Some(LIMIT));
    refused(
        asked,
        ReturnCode::NoMatch,
        "a request to the longest discriminator",
    )?;
    // Two VIs of one NIC connect by the shortest: no bytes at all beside the case's own.
    let other = End::new(env, &nic, Options::level(level))?;
    connect_locally(&end, &other, "")
}

const CLIENTS: usize = 6;

fn many_clients(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let mut ends = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..CLIENTS {
        let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
        let (vi, local) = (end.vi, nic.address(env, &format!("client {number}")));
        let remote = theirs(env, host, "server");
        tasks.push(env.spawn("client", move |env| request(env, vi, &local, &remote))?);
        ends.push(end);
    }
    for task in tasks {
        task.join()?;
    }
    for end in &ends {
        end.is_in(ViState::Connected)?;
    }
    env.meet("all connected")
}

fn many_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let mut seen = Vec::new();
    for _ in 0..CLIENTS {
        let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
        let incoming = wait(env, &nic, "server")?;
        env.provider().connect_accept(incoming.connection, end.vi)?;
        seen.push(incoming.remote);
    }
    seen.sort();
    let expected: Vec<Address> = (0..CLIENTS)
        .map(|number| theirs(env, host, &format!("client {number}")))
        .collect();
    equal(seen, expected, "the clients that were served")?;
    env.meet("all connected")
}

fn leaving_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let (vi, local, remote) = (
        end.vi,
        nic.address(env, "client"),
        theirs(env, host, "server"),
    );
    let task = env.spawn("client", move |env| {
        env.until("somebody who waits for the request", || {
            match env.provider().connect_request(vi, &local, &remote, None) {
                Err(error) if error.code() == ReturnCode::NoMatch => Ok(None),
                answer => Ok(Some(answer.map(drop))),
            }
        })
    })?;
    env.meet("asked")?;
    end.is_in(ViState::ConnectPending)?;
    let destroyed = env.provider().destroy_vi(end.vi);
    refused(
        destroyed,
        ReturnCode::InvalidState,
        "destroying a VI that asks",
    )?;
    env.provider().disconnect(end.vi)?;
    end.is_in(ViState::Idle)?;
    refused(
        task.join()?,
        ReturnCode::InvalidState,
        "a request whose VI was disconnected",
    )?;
    env.meet("left")?;
    end.connect()?;
    end.close()
}

fn left_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let incoming = wait(env, &nic, "server")?;
    env.meet("asked")?;
    env.meet("left")?;
    // The news travels on the fabric's own way.
    env.sleep(20);
    let late = env.provider().connect_accept(incoming.connection, end.vi);
    refused(late, ReturnCode::Timeout, "accepting a client that left")?;
    end.connect()?;
    end.close()
}

fn left_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let server = theirs(env, host, "server");
    let answer = answer(env, &end, &server, Some(LIMIT))?;
    refused(
        answer,
        ReturnCode::Reject,
        "a request whose server has closed its NIC",
    )?;
    end.is_in(ViState::Idle)?;
    env.meet("left")?;
    end.connect()?;
    end.close()
}

fn leaving_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    wait(env, &nic, "server")?;
    env.close_nic(nic.handle)?;
    env.meet("left")?;
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    end.connect()?;
    end.close()
}

fn no_such_host(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let nowhere = Address::new(
        HostAddress::new(nic.host.get() ^ 0x00FF_0000_0000),
        &env.discriminator("server"),
    );
    let local = nic.address(env, "client");
    let asked = env
        .provider()
        .connect_request(end.vi, &local, &nowhere, Some(LIMIT));
    refused(
        asked,
        ReturnCode::NotReachable,
        "a request to a host that nobody has",
    )?;
    end.is_in(ViState::Idle)
}

/// A host that is gone counts as one that gives no answer, or as one that is not there.
fn bereft_client(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    let host = hosts(env, &nic)?;
    let end = End::new(env, &nic, Options::level(nic.any_level()?))?;
    let server = theirs(env, host, "server");
    let Err(error) = answer(env, &end, &server, Some(LIMIT))? else {
        return Err(Stop::failed("a dead server has accepted"));
    };
    let code = error.code();
    holds(
        matches!(code, ReturnCode::Timeout | ReturnCode::NotReachable),
        format_args!("a request whose server has died: {code:?}"),
    )?;
    end.is_in(ViState::Idle)
}

fn dying_server(env: &Arc<Environment>) -> Outcome {
    let nic = Nic::open(env)?;
    hosts(env, &nic)?;
    wait(env, &nic, "server")?;
    env.die()
}
