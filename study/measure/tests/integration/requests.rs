//! The programs that make requests, between two stations of one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use viaduct_am::{Endpoint, Key};
use viaduct_measure::{
    Burst, Machine, MeasureError, Prober, RequestState, Requests, bulk, request_handlers,
    request_options,
};
use viaduct_threads::InProcess;
use viaduct_vi_carrier::{Identity, Station};

const KEY: Key = Key(7);

type End = Endpoint<Station<InProcess>, RequestState>;

fn endpoint(station: &Station<InProcess>) -> End {
    let handlers = request_handlers();
    Endpoint::new(
        station,
        &handlers,
        RequestState::default(),
        request_options(KEY),
    )
    .unwrap()
}

/// Ends a server when dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a program against a server that polls until it is over.
fn against_a_server<T>(program: impl FnOnce(End) -> T) -> T {
    let fabric = Arc::new(InProcess::new());
    let station = |number| {
        let identity = Identity::new(number);
        Station::start(Arc::clone(&fabric), "inproc0", identity, Default::default()).unwrap()
    };
    let (here, there) = (station(1), station(2));
    let mut server = endpoint(&there);
    let mut client = endpoint(&here);
    client.map(0, &server.name(), KEY).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                if server.poll() == 0 {
                    thread::yield_now();
                }
            }
        });
        // A program that panics ends the server too.
        let _end = Ending(&is_over);
        program(client)
    })
}

#[test]
fn every_request_of_a_burst_has_its_reply() {
    against_a_server(|client| {
        let machine = Machine::new(None);
        let mut prober = Prober::new(client, &machine, Some(3));
        for (requests, bytes, delay_ns, is_echoed) in [
            (1, 16, 0, false),
            (100, 16, 0, false),
            (40, 64, 2_000, false),
            (70, 8192, 0, false),
            (70, 128, 1_000, true),
        ] {
            let burst = Burst {
                requests,
                bytes,
                delay_ns,
                is_echoed,
            };
            let elapsed = prober.burst(burst).unwrap();
            assert!(
                elapsed.issued_ns < elapsed.finished_ns,
                "{burst:?}: {elapsed:?}"
            );
            assert_eq!(prober.replies(), u64::from(requests), "{burst:?}");
            assert_eq!(prober.repetitions(burst), 3);
        }
        let found = bulk(&mut prober, &[128, 2048], &mut |_| {}).unwrap();
        assert!(found.rows.iter().all(|row| row.mbyte_s > 0.0), "{found:?}");
    });
}

#[test]
fn a_request_that_comes_back_ends_the_measurement() {
    against_a_server(|mut client| {
        let name = client.name();
        client.map(0, &name, Key(8)).unwrap();
        let machine = Machine::new(None);
        let mut prober = Prober::new(client, &machine, None);
        let burst = Burst {
            requests: 2,
            bytes: 16,
            delay_ns: 0,
            is_echoed: false,
        };
        let error = prober.burst(burst).unwrap_err();
        assert!(matches!(error, MeasureError::Returned { .. }), "{error}");
        assert!(error.to_string().contains("wrong key"), "{error}");
    });
}

#[test]
fn who_wants_an_end_gets_it() {
    against_a_server(|client| {
        let machine = Machine::new(None);
        machine.stop("enough");
        let mut prober = Prober::new(client, &machine, None);
        let error = bulk(&mut prober, &[128], &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "enough");
    });
}
