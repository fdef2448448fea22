//! `viaduct trace` and `viaduct show` from outside.

use std::fs;

use crate::support::Folder;

#[test]
fn a_trace_has_the_messages_asked_for_and_is_the_same_again() {
    let folder = Folder::new();
    let trace = |name: &str, more: &[&str]| {
        let arguments = [
            "trace",
            "bus-contention",
            "--set=hosts.bus_load.interval=30 us",
            "-o",
            name,
        ];
        let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
        let said = folder.succeed(&arguments);
        (said, fs::read(folder.join(name)).unwrap())
    };
    let (said, file) = trace("a", &["--messages=50"]);
    assert!(said.contains("50 messages"), "{said}");
    assert!(said.contains(" transfers of other devices, "), "{said}");
    assert_eq!(trace("b", &["--messages=50"]).1, file);
    let (said, thinned) = trace("c", &["--messages=50", "--every=3"]);
    assert!(said.contains("50 messages") && thinned != file, "{said}");
    // The first field of the first packet: a length and a message of number 1.
    assert_eq!(file[0], 0x0a);

    let error = folder.failure(1, &["trace", "four-hop", "-o", "d"]);
    assert!(
        error.contains("viaduct trace four-hop --set traffic.size="),
        "{error}"
    );
    let error = folder.failure(1, &["trace", "two-hosts", "-o", "no/d"]);
    assert!(error.contains("cannot write `no/d`"), "{error}");
    let late = folder.failure(1, &["trace", "two-hosts", "--from=1 s", "-o", "d"]);
    assert!(late.contains("--from TIME"), "{late}");
}

#[test]
fn a_network_is_shown_from_a_study_and_from_a_file() {
    let folder = Folder::new();
    folder.succeed(&["show", "torus-1024", "-o", "torus.svg"]);
    let svg = folder.read("torus.svg");
    // One for each host, and one in the legend.
    assert_eq!(svg.matches("<circle ").count(), 1024 + 1);
    folder.succeed(&["show", "torus-1024", "-o", "torus.html"]);
    let page = folder.read("torus.html");
    assert!(
        page.contains("1,024 hosts, 256 switches"),
        "{}",
        &page[..400]
    );

    let edges = "hosts n*\nn0 s0\ns0 s1\nn1 s1\n";
    fs::write(folder.join("small.txt"), edges).unwrap();
    folder.succeed(&["show", "small.txt", "-o", "small.svg"]);
    let svg = folder.read("small.svg");
    // One of them is in the legend.
    assert_eq!(svg.matches("<rect ").count(), 3);

    let error = folder.failure(1, &["show", "torus-million", "-o", "million.svg"]);
    assert!(error.contains("-o x.html"), "{error}");
    let error = folder.failure(1, &["show", "torus-1024", "-o", "torus.gif"]);
    assert!(error.contains(".svg or .html"), "{error}");
    let error = folder.failure(1, &["show", "none.graphml", "-o", "none.svg"]);
    assert!(error.contains("none.graphml"), "{error}");
}
