//! Graphs of operations carried out by programs over endpoints, between threads of one process.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use viaduct_measure::{Application, ApplicationRow, Host, Messaging};
use viaduct_operations::{ANY, Builder, Graph, Operation};
use viaduct_threads::InProcess;
use viaduct_vi_carrier::{Identity, Station};

const MESSAGING: Messaging = Messaging {
    eager_bytes: 30_000,
    copy_bytes_s: f64::INFINITY,
};

/// A thread, which lets others run while it waits.
struct Thread(Instant);

impl Host for Thread {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn relax(&self) {
        thread::yield_now();
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time);
    }
}

fn graph(ranks: &[&[Operation]]) -> Graph {
    let mut builder = Builder::new(ranks.len() as u32);
    for operations in ranks {
        for operation in *operations {
            builder.add(*operation).unwrap();
        }
        builder.next_rank();
    }
    builder.finish()
}

/// Has each rank be a thread with a station of its own.
fn carry_out(graph: Graph) -> ApplicationRow {
    let ranks = graph.ranks();
    let application = Application::new(Arc::new(graph), MESSAGING).unwrap();
    let fabric = Arc::new(InProcess::new());
    let began = Instant::now();
    thread::scope(|scope| {
        for rank in 0..ranks {
            let (fabric, application) = (Arc::clone(&fabric), &application);
            scope.spawn(move || {
                let identity = Identity::new(u128::from(rank) + 1);
                let station =
                    Station::start(fabric, "inproc0", identity, Default::default()).unwrap();
                application
                    .carry_out(rank, &station, &Thread(began))
                    .unwrap();
            });
        }
    });
    assert!(application.is_over());
    application.row()
}

#[test]
fn messages_of_all_lengths_are_taken_in_order() {
    const SIZES: [u64; 7] = [0, 10, 20_000, 30, 100_000, 30_000, 30_001];
    let sends = |peer| SIZES.map(|bytes| Operation::send(bytes, peer));
    let receives = |peer| SIZES.map(|bytes| Operation::receive(bytes, peer));
    let [first, second] = [1, 0].map(|peer| [sends(peer), receives(peer)].concat());
    let row = carry_out(graph(&[&first, &second]));
    assert_eq!((row.operations, row.ended), (28, 28));
    assert!(row.misfits.is_empty(), "{}", row.misfits);
    assert_eq!(row.stalled, None);
    let bytes: u64 = SIZES.iter().sum();
    assert_eq!((row.messages, row.bytes), (14, 2 * bytes));
}

#[test]
fn receives_of_any_rank_and_tag_take_what_comes() {
    let any = Operation::receive(40_000, ANY).tagged(ANY);
    let sends = [
        Operation::send(40_000, 0).tagged(3),
        Operation::send(40_000, 0).tagged(4),
    ];
    let row = carry_out(graph(&[&[any; 4], &sends, &sends]));
    assert_eq!((row.operations, row.ended), (8, 8));
    assert_eq!(row.stalled, None);
}

#[test]
fn ranks_that_wait_for_nobody_end_and_are_named() {
    let waits = Operation::receive(8, 0);
    let row = carry_out(graph(&[&[Operation::send(50_000, 1)], &[waits.tagged(1)]]));
    assert_eq!(row.ended, 0);
    let said = row.stalled.unwrap().to_string();
    assert!(
        said.contains("receives that no message came for: 1"),
        "{said}"
    );
    assert!(said.contains("messages that no receive took: 1"), "{said}");
    // An eager message that nobody takes stops no rank.
    let row = carry_out(graph(&[&[Operation::send(8, 1)], &[]]));
    assert_eq!(row.ended, 1);
    let said = row.stalled.unwrap().to_string();
    assert!(said.contains("not all messages were taken"), "{said}");
}

#[test]
fn what_programs_over_endpoints_cannot_do_is_refused() {
    let refused = |operation: Operation| {
        let graph = Arc::new(graph(&[&[operation], &[]]));
        let error = Application::new(graph, MESSAGING).unwrap_err();
        error.to_string()
    };
    let said = refused(Operation::send(8, 0));
    assert!(
        said.contains("rank 0, operation 0: send 8b to 0: "),
        "{said}"
    );
    let other = |amount| Operation {
        processor: 1,
        ..Operation::compute(amount)
    };
    let said = refused(other(5));
    assert!(
        said.contains("programs over endpoints have one processor"),
        "{said}"
    );
    // What takes no time needs none.
    assert_eq!(carry_out(graph(&[&[other(0)]])).ended, 1);
}
