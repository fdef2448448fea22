//! `viaduct trace` and `viaduct show` from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pictures-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn run(&self, code: i32, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_viaduct"));
        command
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null());
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        output
    }

    fn error(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.run(1, arguments).stderr).unwrap()
    }
}

#[test]
fn a_trace_has_the_messages_asked_for_and_is_the_same_again() {
    let folder = Folder::new("trace");
    let trace = |name: &str, more: &[&str]| {
        let arguments = [
            "trace",
            "bus-contention",
            "--set=hosts.bus_load.interval=30 us",
            "-o",
            name,
        ];
        let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
        let output = folder.run(0, &arguments);
        let file = fs::read(folder.0.join(name)).unwrap();
        (String::from_utf8(output.stdout).unwrap(), file)
    };
    let (said, file) = trace("a", &["--messages=50"]);
    assert!(said.contains("50 messages"), "{said}");
    assert_eq!(trace("b", &["--messages=50"]).1, file);
    let (said, thinned) = trace("c", &["--messages=50", "--every=3"]);
    assert!(said.contains("50 messages") && thinned != file, "{said}");
    // The first field of the first packet: a length and a message of number 1.
    assert_eq!(file[0], 0x0a);

    let error = folder.error(&["trace", "four-hop", "-o", "d"]);
    assert!(
        error.contains("viaduct trace four-hop --set traffic.size="),
        "{error}"
    );
    let error = folder.error(&["trace", "two-hosts", "-o", "no/d"]);
    assert!(error.contains("cannot write `no/d`"), "{error}");
    let late = folder.error(&["trace", "two-hosts", "--from=1 s", "-o", "d"]);
    assert!(late.contains("--from TIME"), "{late}");
}

#[test]
fn a_network_is_shown_from_a_study_and_from_a_file() {
    let folder = Folder::new("show");
    folder.run(0, &["show", "torus-1024", "-o", "torus.svg"]);
    let svg = fs::read_to_string(folder.0.join("torus.svg")).unwrap();
    assert_eq!(svg.matches("<circle ").count(), 1024);
    folder.run(0, &["show", "torus-1024", "-o", "torus.html"]);
    let page = fs::read_to_string(folder.0.join("torus.html")).unwrap();
    assert!(
        page.contains("1,024 hosts, 256 switches"),
        "{}",
        &page[..400]
    );

    let edges = "hosts n*\nn0 s0\ns0 s1\nn1 s1\n";
    fs::write(folder.0.join("small.txt"), edges).unwrap();
    folder.run(0, &["show", "small.txt", "-o", "small.svg"]);
    let svg = fs::read_to_string(folder.0.join("small.svg")).unwrap();
    assert_eq!(svg.matches("<rect ").count(), 2);

    let error = folder.error(&["show", "torus-million", "-o", "million.svg"]);
    assert!(error.contains("-o x.html"), "{error}");
    let error = folder.error(&["show", "torus-1024", "-o", "torus.gif"]);
    assert!(error.contains(".svg or .html"), "{error}");
    let error = folder.error(&["show", "none.graphml", "-o", "none.svg"]);
    assert!(error.contains("none.graphml"), "{error}");
}
