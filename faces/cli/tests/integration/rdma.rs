//! `viaduct rdma`: what it sets, whom it cannot help, and how it ends.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use viaduct_rdma::verbs::flags::access;
use viaduct_rdma::verbs::{
    Capabilities, Completion, CompletionStatus, QueuePairAttributes, QueuePairType,
    ScatterGatherElement, SendOpcode,
};
use viaduct_rdma::{CompletionQueueOptions, Counters, QueuePairOptions, SendRequest, devices};

use crate::support::{Folder, text};

#[allow(dead_code, reason = "shared with the conformance suite of queue pairs")]
#[path = "../../../../fabrics/rdma/tests/conformance/refusal.rs"]
mod refusal;

/// A folder of a test with libraries that hold nothing, and a session of its own.
fn folder() -> Folder {
    let folder = Folder::new();
    let libraries = folder.join("libraries");
    fs::create_dir(&libraries).unwrap();
    for name in [
        "libviaduct-rdma-paths.so",
        "libibverbs.so.1",
        "librdmacm.so.1",
    ] {
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut command = Command::new(compiler);
        command
            .args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(libraries.join(name));
        assert!(command.status().unwrap().success());
    }
    fs::create_dir(folder.join("session")).unwrap();
    folder
}

fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = folder.command(arguments);
    command
        .env("VIADUCT_RDMA_LIBRARIES", folder.join("libraries"))
        .env("XDG_RUNTIME_DIR", folder.join("session"));
    command
}

/// What it prints, how it ends, and what it says on stderr.
fn ended(folder: &Folder, arguments: &[&str]) -> (String, Option<i32>, String) {
    let output = command(folder, arguments).output().unwrap();
    (
        text(&output.stdout),
        output.status.code(),
        text(&output.stderr),
    )
}

#[test]
fn a_program_gets_what_was_chosen() {
    let folder = folder();
    let script = "echo $VIADUCT_RDMA_DEVICES $VIADUCT_RDMA_LINK $VIADUCT_RDMA_MTU \
                  $VIADUCT_RDMA_GIDS; echo $LD_PRELOAD; cat \
                  $VIADUCT_RDMA_SYS/sys/class/infiniband/viaduct1/ports/1/link_layer";
    let options = [
        "--devices",
        "2",
        "--link",
        "ib",
        "--mtu",
        "1024",
        "--gids",
        "10.0.0.1,10.0.0.2",
    ];
    let mut arguments = vec!["rdma"];
    arguments.extend(options);
    arguments.extend(["--", "sh", "-c", script]);
    let (printed, code, said) = ended(&folder, &arguments);
    let libraries = folder.join("libraries");
    let libraries = libraries.display();
    assert_eq!(
        printed,
        format!(
            "2 ib 1024 10.0.0.1,10.0.0.2\n{libraries}/libviaduct-rdma-paths.so:\
             {libraries}/libibverbs.so.1:{libraries}/librdmacm.so.1\nInfiniBand\n"
        )
    );
    assert_eq!((code, said.as_str()), (Some(0), ""));
}

#[test]
fn memory_is_shared_or_the_reason_told_why_not() {
    let folder = folder();
    let script = "echo \"<$VIADUCT_RDMA_SHARE_MEMORY>\"";
    let (printed, ..) = ended(&folder, &["rdma", "--", "sh", "-c", script]);
    assert_eq!(printed, "<>\n");
    let shared = ["rdma", "--share-memory", "--", "sh", "-c", script];
    let (printed, code, said) = ended(&folder, &shared);
    match viaduct_processes::held::check() {
        Ok(()) => assert_eq!((printed.as_str(), code), ("<1>\n", Some(0)), "{said}"),
        Err(error) => {
            assert_eq!(code, Some(1));
            assert!(said.contains(&format!("--share-memory: {error}")), "{said}");
        }
    }
    // What this thread is refused its children are refused, too.
    let refused = thread::spawn(move || {
        refusal::refuse(&[libc::SYS_userfaultfd]);
        ended(&folder, &shared)
    });
    let (printed, code, said) = refused.join().unwrap();
    assert_eq!((printed.as_str(), code), ("", Some(1)));
    let reason = "--share-memory: the system forbids userfaultfd";
    assert!(said.contains(reason), "{said}");
}

#[test]
fn a_shell_that_evaluates_it_has_the_same() {
    let folder = folder();
    let (printed, ..) = ended(&folder, &["rdma", "env", "--devices", "3"]);
    for name in [
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NCCL_IBVERBS_LIB",
        "VIADUCT_RDMA_SYS",
        "VIADUCT_RDMA_STATS",
        "ASAN_OPTIONS",
    ] {
        assert!(
            printed.contains(&format!("export {name}='")),
            "{name}: {printed}"
        );
    }
    let script =
        format!("{printed}\necho $VIADUCT_RDMA_DEVICES; ls $VIADUCT_RDMA_SYS/dev/infiniband");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(
        text(&output.stdout),
        "3\nrdma_cm\nuverbs0\nuverbs1\nuverbs2\n"
    );
}

#[test]
fn faults_are_passed_on() {
    let folder = folder();
    let faults = ["--fault", "loss=0.001,seed=7", "--fault", "slow=50us"];
    let mut arguments = vec!["rdma"];
    arguments.extend(faults);
    arguments.extend(["--", "sh", "-c", "echo $VIADUCT_RDMA_FAULTS"]);
    let (printed, ..) = ended(&folder, &arguments);
    assert_eq!(printed, "loss=0.001,seed=7;slow=50us\n");
    let mut arguments = vec!["rdma", "env"];
    arguments.extend(faults);
    let (printed, ..) = ended(&folder, &arguments);
    let line = "export VIADUCT_RDMA_FAULTS='loss=0.001,seed=7;slow=50us'\n";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn a_fault_that_is_wrong_is_told_before_anything_runs() {
    let folder = folder();
    for (fault, expected) in [
        ("lose=1", "--fault lose=1: there is no fault `lose`"),
        ("loss=2", "--fault loss=2: `2` is no probability"),
    ] {
        for rest in [
            &["rdma", "env", "--fault", fault][..],
            &["rdma", "devices", "--fault", fault],
        ] {
            let (printed, code, said) = ended(&folder, rest);
            assert_eq!((printed.as_str(), code), ("", Some(1)), "{said}");
            assert!(said.contains(expected), "{said}");
        }
        let arguments = ["rdma", "--fault", fault, "--", "echo", "run"];
        let (printed, code, said) = ended(&folder, &arguments);
        assert_eq!((printed.as_str(), code), ("", Some(1)), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    let folder = folder();
    let script = "sleep 60 & trap 'kill $!; echo ended; exit 7' TERM; echo begun; wait";
    let mut launcher = command(&folder, &["rdma", "--stats", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(launcher.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    let number = launcher.id().to_string();
    let kill = ["-c", "kill -TERM $0", &number];
    assert!(Command::new("sh").args(kill).status().unwrap().success());
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "ended\n");
    let output = launcher.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    let said = text(&output.stderr);
    assert!(said.contains("no process opened a device"), "{said}");
}

#[test]
fn adapters_are_listed() {
    let folder = folder();
    let arguments = ["rdma", "devices", "--devices", "2", "--gids", "10.1.2.3"];
    let (printed, code, _) = ended(&folder, &arguments);
    assert_eq!(code, Some(0));
    assert!(printed.starts_with("viaduct0  uverbs0, GUID "), "{printed}");
    assert!(printed.contains("\nviaduct1  uverbs1, GUID "), "{printed}");
    let gid = "    GID 0  0000:0000:0000:0000:0000:ffff:0a01:0203  10.1.2.3\n";
    assert!(printed.contains(gid), "{printed}");
}

#[test]
fn the_exit_code_is_the_programs() {
    let folder = folder();
    let exit = |code: &str| ended(&folder, &["rdma", "--stats", "--", "sh", "-c", code]).1;
    assert_eq!(exit("exit 0"), Some(0));
    assert_eq!(exit("exit 42"), Some(42));
    assert_eq!(exit("kill -9 $$"), Some(137));
    let replaced = ended(&folder, &["rdma", "--", "sh", "-c", "exit 42"]).1;
    assert_eq!(replaced, Some(42));
}

#[test]
fn a_program_that_used_no_rdma_fails_where_rdma_is_required() {
    let folder = folder();
    let (_, code, said) = ended(&folder, &["rdma", "--require-rdma", "--", "true"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("nothing crossed an RDMA adapter"), "{said}");
    // A failure of its own is not hidden.
    let failed = ended(
        &folder,
        &["rdma", "--require-rdma", "--", "sh", "-c", "exit 5"],
    );
    assert_eq!(failed.1, Some(5));
}

#[test]
fn libraries_of_another_version_are_told_from_no_rdma() {
    let folder = folder();
    let script = "head -c 64 /dev/zero > \"$VIADUCT_RDMA_STATS/$$\"";
    let arguments = ["rdma", "--require-rdma", "--", "sh", "-c", script];
    let (_, code, said) = ended(&folder, &arguments);
    assert_eq!(code, Some(3));
    assert!(
        said.contains("the libraries for RDMA programs are of another version"),
        "{said}"
    );
    assert!(!said.contains("nothing crossed"), "{said}");
}

/// The words before a command that numbers its processes from one, as a container does.
const UNSHARE: [&str; 6] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--mount-proc",
];

fn has_process_namespaces() -> bool {
    let may = Command::new(UNSHARE[0])
        .args(&UNSHARE[1..])
        .arg("true")
        .output();
    let may = may.is_ok_and(|output| output.status.success());
    if !may {
        println!("no process namespaces for this user on this machine");
    }
    may
}

/// Containers that share a folder for files of sessions do not see each other's processes: a
/// launcher in one must not take those of another for processes that have ended.
#[test]
fn a_launcher_among_other_processes_leaves_what_it_cannot_see() {
    if !has_process_namespaces() {
        return;
    }
    let folder = folder();
    let script = format!(
        "counts=\"$VIADUCT_RDMA_STATS/$$\"; touch \"$counts\"; \
         {} '{}' rdma -- true && test -e \"$counts\"",
        UNSHARE.join(" "),
        env!("CARGO_BIN_EXE_viaduct")
    );
    let (_, code, said) = ended(&folder, &["rdma", "--stats", "--", "sh", "-c", &script]);
    assert_eq!(code, Some(0), "{said}");
}

/// And those that begin at the same time have the same numbers.
#[test]
fn launchers_of_the_same_number_do_not_meet() {
    if !has_process_namespaces() {
        return;
    }
    let folder = folder();
    let (wanted, ..) = ended(&folder, &["rdma", "devices"]);
    let begun: Vec<_> = (0..8)
        .map(|_| {
            let own = command(&folder, &[]);
            let mut command = Command::new(UNSHARE[0]);
            command
                .args(&UNSHARE[1..])
                .arg(own.get_program())
                .args(["rdma", "devices"])
                .envs(
                    own.get_envs()
                        .filter_map(|(name, value)| Some((name, value?))),
                )
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for launcher in begun {
        let output = launcher.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), wanted, "{}", text(&output.stderr));
    }
}

#[test]
fn whom_it_cannot_help_is_told_why() {
    let folder = folder();
    let (_, code, said) = ended(&folder, &["rdma", "--", "no-such-program"]);
    assert_eq!(code, Some(1));
    assert_eq!(said, "error: there is no program `no-such-program`\n");
    // A program for another machine: the head of one is enough.
    let mut foreign = vec![0; 64];
    foreign[..6].copy_from_slice(b"\x7fELF\x02\x01");
    foreign[18] = 183;
    fs::write(folder.join("foreign"), foreign).unwrap();
    let (_, code, said) = ended(&folder, &["rdma", "--", "./foreign"]);
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("error: cannot help ./foreign: it is for another machine"),
        "{said}"
    );
}

#[test]
fn libraries_that_are_not_there_are_missed_by_name() {
    let folder = folder();
    let mut command = command(&folder, &["rdma", "--", "true"]);
    let output = command
        .env("VIADUCT_RDMA_LIBRARIES", folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("no libibverbs.so.1 in"), "{said}");
}

#[test]
fn what_has_no_meaning_on_simulated_hosts_is_refused() {
    let folder = folder();
    for (arguments, said) in [
        (
            &["--on", "sim:am-myrinet", "--", "true"][..],
            "interfaces with endpoints have no VIs",
        ),
        (
            &["--on", "shm", "--", "true"],
            "programs cannot run on `shm`",
        ),
        (
            &["--on", "sim:rnic-gen5", "--mtu", "1024", "--", "true"],
            "`--mtu` means nothing with `--on`",
        ),
        (
            &["--on", "sim:rnic-gen5", "--share-memory", "--", "true"],
            "`--share-memory` means nothing with `--on`",
        ),
        (
            &["--on", "sim:rnic-gen5", "--", "true", ":"],
            "an empty command beside a `:`",
        ),
        (
            &[
                "--on",
                "sim:rnic-gen5",
                "--hosts",
                "4",
                "--",
                "true",
                ":",
                "true",
            ],
            "`--hosts` is for one command",
        ),
        // The libraries of this test have none for the time.
        (&["--on", "sim:rnic-gen5", "--", "true"], "there is no "),
        (&["--hosts", "2", "--", "true"], "--on"),
        (&["--links", "--", "true"], "--on"),
        (
            &["--why", "slowest", "--", "true"],
            "`--why` means nothing without `--on`",
        ),
        (
            &["--on", "sim:rnic-gen5", "--expect", "12", "--", "true"],
            "16 hexadecimal digits",
        ),
        (
            &[
                "--on",
                "sim:rnic-gen5",
                "--compute",
                "instructions",
                "--",
                "true",
            ],
            "`free`, `measured` or `measured:SCALE` is wanted",
        ),
        (
            &[
                "--on",
                "sim:rnic-gen5",
                "--compute",
                "measured:0",
                "--",
                "true",
            ],
            "the scale is a number from 0.001 to 1000000",
        ),
        (&["--compute", "measured", "--", "true"], "--on"),
        (
            &["--on", "sim:rnic-gen5", "--no-traffic", "--", "true"],
            "`--no-traffic` means nothing for `sim:rnic-gen5`",
        ),
    ] {
        let arguments: Vec<&str> = [&["rdma"], arguments].concat();
        let (_, code, found) = ended(&folder, &arguments);
        assert!(found.contains(said), "{arguments:?}: {found}");
        assert!(matches!(code, Some(1 | 2)), "{arguments:?}: {code:?}");
    }
}

/// A process that writes into its own memory by a queue pair, as a peer would: nothing tells it
/// that it was written to.
#[test]
fn what_peers_did_is_shown_while_a_program_runs() {
    let folder = folder();
    let (printed, ..) = ended(&folder, &["rdma", "env"]);
    let counts = printed.lines().find_map(|line| {
        let rest = line.strip_prefix("export VIADUCT_RDMA_STATS='")?;
        rest.strip_suffix('\'')
    });
    let counts = Path::new(counts.unwrap()).join(std::process::id().to_string());
    Counters::publish(&counts).unwrap();
    let memory = [0_u64; 2];
    let (start, bytes) = (memory.as_ptr().addr() as u64, 16);
    let context = devices()[0].open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let rights = access::LOCAL_WRITE | access::REMOTE_WRITE;
    // SAFETY: the memory lives until the device is closed.
    let region = unsafe { domain.register_memory(start, bytes, start, rights) }.unwrap();
    let options = CompletionQueueOptions {
        entries: 4,
        ..CompletionQueueOptions::default()
    };
    let queue = context.create_completion_queue(&options).unwrap();
    let [writes, offers] = [(); 2].map(|()| {
        let options = QueuePairOptions {
            kind: QueuePairType::Rc,
            capabilities: Capabilities {
                max_send_requests: 1,
                max_receive_requests: 1,
                max_send_elements: 1,
                max_receive_elements: 1,
                max_inline_bytes: 0,
            },
            send_queue: queue,
            receive_queue: queue,
            shared_receive_queue: None,
            is_every_send_signaled: true,
            cookie: 0,
        };
        domain.create_queue_pair(&options).unwrap()
    });
    for (pair, peer) in [(writes, offers), (offers, writes)] {
        let attributes = QueuePairAttributes {
            access_flags: access::REMOTE_WRITE,
            ..QueuePairAttributes::connection(peer.number())
        };
        pair.raise(&attributes).unwrap();
    }
    let element = ScatterGatherElement {
        address: start,
        length: 8,
        local_key: region.memory_key(),
    };
    for count in 1..3 {
        let request = SendRequest::new(1, SendOpcode::RdmaWrite)
            .with_elements(std::slice::from_ref(&element))
            .with_remote(start + 8, region.memory_key());
        // SAFETY: nothing is inline.
        unsafe { writes.post_send(&request) }.unwrap();
        let mut done = [Completion::default()];
        while queue.poll(&mut done).unwrap() == 0 {}
        assert_eq!(done[0].status, CompletionStatus::Success);
        assert_eq!(Counters::read(&counts).unwrap().peer_writes, count - 1);
        let (shown, ..) = ended(&folder, &["rdma", "stats", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let process = &shown["processes"][0];
        assert_eq!(process["process"], std::process::id());
        assert_eq!(
            (&process["peer_writes"], &process["peer_write_bytes"]),
            (&count.into(), &(8 * count).into())
        );
    }
    context.close().unwrap();
}

/// A folder of a test with a library for the time, too, which holds nothing.
fn simulated_folder() -> Folder {
    let folder = folder();
    let libraries = folder.join("libraries");
    fs::copy(
        libraries.join("librdmacm.so.1"),
        libraries.join("libviaduct-time.so"),
    )
    .unwrap();
    folder
}

const RUN: [&str; 8] = [
    "rdma",
    "--on",
    "sim:rnic-gen5",
    "--out",
    "left",
    "--",
    "echo",
    "first",
];

#[test]
fn a_run_on_simulated_hosts_leaves_a_directory_that_runs_again() {
    let folder = simulated_folder();
    let run = [&RUN[..], &[":", "echo", "it's"]].concat();
    let (printed, code, said) = ended(&folder, &run);
    assert_eq!(code, Some(0), "{said}");
    for line in [
        "host0: first\n",
        "host1: it's\n",
        "  next     viaduct rerun left\n",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
    let digest = said.trim_end().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(digest.len(), 16, "{said}");
    let page = fs::read_to_string(folder.join("left/report.html")).unwrap();
    assert!(page.contains("echo on sim:rnic-gen5"), "{page}");
    assert!(page.contains("viaduct rerun left"), "{page}");

    let (printed, code, said) = ended(&folder, &["rerun", "left"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(printed.contains("host1: it's\n"), "{printed}");
    let same = format!("\n  rerun    the same digest, {digest}\n");
    assert!(printed.ends_with(&same), "{printed}");
    for arguments in [
        &["report", "left", "-o", "page.html"][..],
        &["plot", "left", "--what", "links", "-o", "links.svg"],
    ] {
        let (_, code, said) = ended(&folder, arguments);
        assert_eq!(code, Some(0), "{said}");
    }
    // Other commands do not take its place, and no `--json` speaks beside theirs.
    let (_, code, said) = ended(&folder, &RUN);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("with other settings"), "{said}");
    let (_, code, said) = ended(&folder, &["rerun", "left", "--json"]);
    assert_eq!(code, Some(1), "{said}");

    // A directory whose run had another digest.
    let summary = folder.join("left/summary.json");
    let other = fs::read_to_string(&summary)
        .unwrap()
        .replace(&digest, "0123456789abcdef");
    fs::write(&summary, other).unwrap();
    let (_, code, said) = ended(&folder, &["rerun", "left"]);
    assert_eq!(code, Some(2), "{said}");
    let differs = format!("error: digest {digest}, and 0123456789abcdef in the directory\n");
    assert!(said.contains(&differs), "{said}");
}

#[test]
fn a_run_whose_programs_fail_leaves_its_directory_too() {
    let folder = simulated_folder();
    let on = ["rdma", "--on", "sim:rnic-gen5"];
    let script = "echo one; echo two >&2; exit 3";
    let words = [
        "--out", "left", "--", "echo", "well", ":", "sh", "-c", script,
    ];
    let (printed, code, said) = ended(&folder, &[&on[..], &words].concat());
    let how = "host1 ended with exit status: 3";
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(&format!("warning: {how}\n")), "{said}");
    assert!(printed.contains("  data     left/\n"), "{printed}");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let mut lines: Vec<String> = read("left/output.txt").lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "host0: well");
    lines.sort();
    assert_eq!(lines[1..], ["host1: one", "host1: two"]);
    for name in ["left/report.html", "left/summary.json"] {
        assert!(read(name).contains(how), "{name}");
    }
    // It is run again, and ends as it did.
    let (printed, code, said) = ended(&folder, &["rerun", "left"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        printed.contains("  rerun    the same digest, "),
        "{printed}"
    );

    // One in which nothing could go on.
    let words = ["--hosts", "2", "--out", "broken", "--", "echo", "alone"];
    let (_, code, said) = ended(&folder, &[&on[..], &words].concat());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("  data     broken/\n"), "{said}");
    let how = "0 of 2 programs take part";
    assert!(
        read("broken/report.html").contains(how) && said.contains(how),
        "{said}"
    );
    assert_eq!(read("broken/output.txt"), "alone\n");
    assert_eq!(ended(&folder, &["rerun", "broken"]).1, Some(2));
}

#[test]
fn a_command_that_starts_too_few_programs_fails() {
    let folder = simulated_folder();
    let start = |program: &str| {
        let on = ["rdma", "--on", "sim:rnic-gen5", "--hosts", "2", "--"];
        ended(&folder, &[&on[..], &[program]].concat())
    };
    let (_, code, said) = start("true");
    assert_eq!(code, Some(2), "{said}");
    let wanted = "error: sim:rnic-gen5: 0 of 2 programs take part in the simulation\n";
    assert!(said.starts_with(wanted), "{said}");
    // Its own failure comes first.
    assert_eq!(start("false").1, Some(1));
}

/// What a rank of the test below does, which is this program again.
#[test]
fn a_rank_prints_a_line_and_what_has_no_end() {
    let Some(rank) = std::env::var_os("PMI_RANK") else {
        return;
    };
    let rank: u8 = rank.to_str().unwrap().parse().unwrap();
    viaduct_turns::start().unwrap().unwrap();
    let mut printed = io::stdout();
    writeln!(printed, "I am {rank}").unwrap();
    eprintln!("wrong {rank}");
    // Longer than what is copied at once, and no text.
    printed.write_all(&[rank, 0, 255].repeat(50_000)).unwrap();
    printed.flush().unwrap();
    std::process::exit(0);
}

#[test]
fn lines_of_ranks_bear_their_hosts() {
    let folder = simulated_folder();
    // A launcher of three ranks, which itself has no host.
    let rank = "--exact rdma::a_rank_prints_a_line_and_what_has_no_end --nocapture";
    let script = format!(
        "PMI_RANK=0 $0 {rank} & PMI_RANK=1 $0 {rank} & PMI_RANK=2 $0 {rank} >file; \
         wait; echo launched"
    );
    let this = std::env::current_exe().unwrap();
    let on = ["rdma", "--on", "sim:rnic-gen5", "--hosts", "3"];
    let rest = ["--out", "left", "--", "sh", "-c", &script];
    let mut run = command(&folder, &[&on[..], &rest].concat());
    let output = run.arg(this).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let lines_of = |rank: u8| -> Vec<u8> {
        let long = [rank, 0, 255].repeat(50_000);
        let label = format!("host{rank}: I am {rank}\nhost{rank}: ");
        [label.as_bytes(), &long, b"\n"].concat()
    };
    // Before it took part it wrote what all such programs do.
    let file = fs::read(folder.join("file")).unwrap();
    assert!(file.ends_with(&lines_of(2)), "{}", file.len());
    // Parts of long lines of several ranks may mix.
    let printed = &output.stdout;
    for rank in 0..2 {
        let label = format!("host{rank}: I am {rank}\n");
        let of_label = printed.windows(label.len());
        assert_eq!(of_label.filter(|it| *it == label.as_bytes()).count(), 1);
        let long = printed.iter().filter(|byte| **byte == rank).count();
        // Each third byte of rank 0 is a zero of its own, and of rank 1.
        assert_eq!(long, [150_000, 50_000][usize::from(rank)]);
        assert!(
            said.contains(&format!("host{rank}: wrong {rank}\n")),
            "{said}"
        );
    }
    assert!(said.contains("host2: wrong 2\n"), "{said}");
    let is_there = |wanted: &[u8]| printed.windows(wanted.len()).any(|it| it == wanted);
    assert!(is_there(b"launched\n") && !is_there(b"host2: "));
    // What was printed and said is kept once.
    let kept = fs::read(folder.join("left/output.txt")).unwrap();
    assert_eq!(kept.iter().filter(|byte| **byte == 1).count(), 50_000);
}

#[test]
fn a_strict_run_fails_where_another_warns() {
    let folder = simulated_folder();
    // A process that wants to take part and says nonsense.
    let script = "import os, socket\n\
                  peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  peer.connect(os.environ['VIADUCT_SIMULATION'])\n\
                  peer.send(b'x')";
    let run = |options: &[&str], words: &[&str]| {
        let on = ["rdma", "--on", "sim:rnic-gen5"];
        ended(&folder, &[&on[..], options, &["--"], words].concat())
    };
    let warned = "warning: a process that wanted to be a client was not taken\n";
    let (_, code, said) = run(&[], &["python3", "-c", script]);
    assert!(code == Some(0) && said.contains(warned), "{code:?}: {said}");
    let (_, code, said) = run(&["--strict"], &["python3", "-c", script]);
    assert!(code == Some(2) && said.contains(warned), "{code:?}: {said}");
    assert!(
        said.contains("error: `--strict`: times may differ"),
        "{said}"
    );
    assert_eq!(run(&["--strict"], &["true"]).1, Some(0));
}

#[test]
fn a_run_whose_computing_is_measured_says_that_none_is_the_same() {
    let folder = simulated_folder();
    let on = ["rdma", "--on", "sim:rnic-gen5", "--compute", "measured:2"];
    let run = |rest: &[&str]| ended(&folder, &[&on[..], rest].concat());
    for [option, value] in [
        ["--strict", ""],
        ["--expect", "0123456789abcdef"],
        ["--why", "slowest"],
    ] {
        let rest = [option, value, "--", "true"].into_iter();
        let rest: Vec<&str> = rest.filter(|word| !word.is_empty()).collect();
        let (_, code, said) = run(&rest);
        assert_eq!(code, Some(1), "{said}");
        let wanted = format!("error: `{option}` is for runs that are the same each time\n");
        assert!(said.contains(&wanted), "{said}");
    }
    let (_, code, said) = run(&["--out", "left", "--", "true"]);
    assert_eq!(code, Some(0), "{said}");
    let end = ", computing measured: another in each run\n";
    assert!(said.ends_with(end), "{said}");
    // It is run again in the same way, and says why the digest may be another.
    let summary = folder.join("left/summary.json");
    let text = fs::read_to_string(&summary).unwrap();
    let digest = said.trim_end_matches(end).rsplit(' ').next().unwrap();
    fs::write(&summary, text.replace(digest, "0123456789abcdef")).unwrap();
    let (_, code, said) = ended(&folder, &["rerun", "left"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(end), "{said}");
    let why = "in the directory: computing was measured, which is another in each run\n";
    assert!(said.contains(why), "{said}");
}

#[test]
fn runs_at_the_same_time_have_other_addresses() {
    let folder = simulated_folder();
    fs::create_dir(folder.join("met")).unwrap();
    // A process that takes part, and leaves when another run has one, too: what it is told of its
    // addresses is behind the number of its host.
    let script = "import os, socket, struct, time\n\
                  peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                  peer.connect(os.environ['VIADUCT_SIMULATION'])\n\
                  peer.send(b'vturns07' + struct.pack('<II', 0, 0))\n\
                  network = peer.recv(64)[12]\n\
                  open(f'met/{network}', 'x')\n\
                  end = time.monotonic() + 60\n\
                  while len(os.listdir('met')) < 2 and time.monotonic() < end:\n    \
                      time.sleep(0.01)\n";
    let run = || {
        let on = [
            "rdma",
            "--on",
            "sim:rnic-gen5",
            "--",
            "python3",
            "-c",
            script,
        ];
        ended(&folder, &on)
    };
    thread::scope(|scope| {
        let other = scope.spawn(run);
        for (_, code, said) in [run(), other.join().unwrap()] {
            assert_eq!(code, Some(0), "{said}");
        }
    });
    let met = fs::read_dir(folder.join("met")).unwrap().count();
    assert_eq!(met, 2);
}

#[test]
fn programs_and_what_they_start_lie_at_the_same_addresses() {
    let folder = simulated_folder();
    // Where the heap begins, which the system chooses at random otherwise.
    let heap = "sh -c 'grep heap /proc/self/maps | cut -d- -f1'";
    let run = || {
        let on = ["rdma", "--on", "sim:rnic-gen5", "--", "sh", "-c", heap];
        let (printed, code, said) = ended(&folder, &on);
        assert_eq!(code, Some(0), "{said}");
        printed
    };
    let first = run();
    assert!(first.starts_with("host0: 55555"), "{first}");
    for _ in 0..3 {
        assert_eq!(run(), first);
    }
}

#[test]
fn programs_have_no_huge_pages() {
    let folder = simulated_folder();
    let asked = "grep THP_enabled /proc/self/status";
    let on = ["rdma", "--on", "sim:rnic-gen5", "--", "sh", "-c", asked];
    let (printed, code, said) = ended(&folder, &on);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(printed, "host0: THP_enabled:\t0\n");
}

#[test]
fn a_digest_that_was_expected_decides_how_a_run_ends() {
    let folder = simulated_folder();
    let expecting = |digest: &str, program: &str| {
        let on = ["rdma", "--on", "sim:rnic-gen5"];
        let rest = ["--expect", digest, "--", program];
        ended(&folder, &[&on[..], &rest[..]].concat())
    };
    let (_, code, said) = expecting("0123456789abcdef", "true");
    assert_eq!(code, Some(2), "{said}");
    let start = "digest ";
    let place = said.find(start).unwrap() + start.len();
    let digest = said[place..place + 16].to_owned();
    let expected = format!("error: digest {digest}, and 0123456789abcdef was expected\n");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(expecting(&digest, "true").1, Some(0));
    // What a program says of itself comes first.
    assert_eq!(expecting(&digest, "false").1, Some(1));
    assert_eq!(expecting("0123456789abcdef", "false").1, Some(1));
}
