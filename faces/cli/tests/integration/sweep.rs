//! `viaduct sweep` from outside: kills, threads, failures, job arrays; always the same table.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::{Folder, text};

/// A folder with the small study, and what sweeps leave there.
struct Sweeps(Folder);

impl Deref for Sweeps {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.0
    }
}

impl Sweeps {
    fn new() -> Self {
        Self(Folder::small())
    }

    fn table(&self, directory: &str) -> Vec<u8> {
        fs::read(self.join(directory).join("sweep.parquet")).unwrap()
    }

    /// The lines of all journals of a sweep, and the cells and seeds in them.
    fn journal(&self, directory: &str) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(self.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "jsonl")
            {
                let text = fs::read_to_string(path).unwrap();
                runs.extend(text.lines().map(|line| {
                    let record: serde_json::Value =
                        serde_json::from_str(line.split_once(' ').unwrap().1).unwrap();
                    (
                        record["cell"].as_u64().unwrap(),
                        record["seed"].as_u64().unwrap(),
                    )
                }));
            }
        }
        runs
    }
}

/// Forty runs.
const SWEEP: [&str; 7] = [
    "sweep",
    "small.toml",
    "--set",
    "traffic.rate=500..2000:500",
    "--set",
    "traffic.size=64 B,1 KiB",
    "--seeds=5",
];

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().chain(more).copied().collect()
}

#[test]
fn the_table_is_the_same_for_any_number_of_threads() {
    let folder = Sweeps::new();
    let output = folder.ended(0, &with(&SWEEP, &["--out=one", "--threads=1"]));
    folder.ended(0, &with(&SWEEP, &["--out=three", "--threads=3"]));
    assert_eq!(folder.table("one"), folder.table("three"));
    let runs = folder.journal("three");
    assert_eq!(runs.len(), 40);
    let seeds = |cell: u64| -> BTreeSet<u64> {
        let runs = runs.iter().filter(|run| run.0 == cell);
        runs.map(|run| run.1).collect()
    };
    assert!(
        (0..8).all(|cell| seeds(cell) == (1..=5).collect()),
        "{runs:?}"
    );
    let text = text(&output.stdout);
    assert!(
        text.contains("traffic.rate   traffic.size   seeds"),
        "{text}"
    );
    for name in [
        "latency-mean.svg",
        "latency-p99.svg",
        "carried.svg",
        "links.svg",
    ] {
        let picture = fs::read_to_string(folder.join("one").join(name)).unwrap();
        assert!(picture.contains("traffic.rate, 1/s"), "{picture}");
    }
}

#[test]
fn run_and_sweep_say_the_same_of_the_same_runs() {
    let folder = Sweeps::new();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = folder.ended(0, &with(arguments, &["--seeds=3", "--json", "--quiet"]));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let run = json(&["run", "small.toml", "--no-out"]);
    let sweep = json(&["sweep", "small.toml", "--out=one"]);
    assert_eq!(run["digest"], sweep["digest"]);
    let (across, cell) = (&run["across_seeds"], &sweep["cells"][0]);
    assert_eq!(across["latency_us"]["mean"], cell["latency_mean_us"]);
    assert_eq!(across["latency_us"]["p99"]["mean"], cell["latency_p99_us"]);
    let bus = &across["buses"]["utilisation_max"]["mean"];
    assert_eq!(*bus, cell["bus_utilisation_max_fraction"]);
    let runs = run["runs"].as_array().unwrap();
    let carried = runs
        .iter()
        .map(|run| run["carried_messages_per_s"].as_f64().unwrap());
    let mean = carried.sum::<f64>() / runs.len() as f64;
    let theirs = cell["carried_messages_per_s"].as_f64().unwrap();
    assert!((mean / theirs - 1.0).abs() < 1e-8, "{mean} {theirs}");
}

#[test]
fn killed_again_and_again_nothing_is_lost_and_nothing_is_run_twice() {
    let folder = Sweeps::new();
    folder.ended(0, &with(&SWEEP, &["--out=whole"]));
    let mut first = folder.command(&with(&SWEEP, &["--out=cut", "--threads=2"]));
    let mut kills = 0;
    for until in [1, 9, 17, 30] {
        let command = &mut first;
        let mut again = folder.command(&["sweep", "--resume=cut", "--threads=2"]);
        let command = if kills == 0 { command } else { &mut again };
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let journal = folder.join("cut/journal.jsonl");
        // The number of runs made is what is waited for, not a time.
        let has_ended = loop {
            let lines = fs::read(&journal).map_or(0, |bytes| bytes.split(|b| *b == b'\n').count());
            if lines > until {
                break false;
            }
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            thread::sleep(Duration::from_micros(200));
        };
        child.kill().unwrap();
        child.wait().unwrap();
        kills += u32::from(!has_ended);
        // What a kill within a write would leave.
        if !has_ended && until == 9 {
            let bytes = fs::read(&journal).unwrap();
            fs::write(&journal, &bytes[..bytes.len() - 40]).unwrap();
        }
    }
    assert!(kills >= 2, "the sweep was faster than its kills");
    folder.ended(0, &["sweep", "--resume=cut"]);
    assert_eq!(folder.table("cut"), folder.table("whole"));
    let runs = folder.journal("cut");
    let different: BTreeSet<_> = runs.iter().collect();
    assert_eq!((runs.len(), different.len()), (40, 40));
    // There is nothing left to do, and the same command says so too.
    folder.ended(0, &["sweep", "--resume=cut"]);
    folder.ended(0, &with(&SWEEP, &["--out=cut"]));
    assert_eq!(folder.journal("cut").len(), 40);
    assert_eq!(folder.table("cut"), folder.table("whole"));
}

#[test]
fn a_failed_cell_is_a_row_with_its_reason_and_the_sweep_goes_on() {
    let folder = Sweeps::new();
    let output = folder.ended(
        1,
        &[
            "sweep",
            "small.toml",
            "--set",
            "hosts.nic=ideal,giganet-clam,giganet-clan",
            "--out=s",
        ],
    );
    let text = text(&output.stdout);
    let row = text
        .lines()
        .find(|line| line.contains("giganet-clam"))
        .unwrap();
    assert!(
        row.contains("failed: ") && row.contains("giganet-clan"),
        "{row}"
    );
    assert!(text.contains("1 failed, 0 unstable"), "{text}");
    assert_eq!(folder.journal("s").len(), 3);
    let table = folder.table("s");
    let reason = b"giganet-clam";
    assert!(table.windows(reason.len()).any(|window| window == reason));
}

#[test]
fn an_unstable_cell_is_named_with_what_it_was_offered_and_carried() {
    let folder = Sweeps::new();
    let rates = "traffic.rate=2000,200000";
    let output = folder.ended(
        0,
        &[
            "sweep",
            "small.toml",
            "--set",
            rates,
            "--out=s",
            "--set",
            "run.drain=false",
        ],
    );
    let text = text(&output.stdout);
    let row = |head: &str| {
        let mut lines = text.lines();
        lines
            .find(|line| line.trim_start().starts_with(head))
            .unwrap()
            .to_owned()
    };
    assert!(!row("2000/s").contains("unstable"), "{text}");
    let unstable = row("200000/s");
    assert!(
        unstable.contains("unstable") && unstable.contains("offered 6.4 M"),
        "{text}"
    );
    assert!(text.contains("0 failed, 1 unstable"), "{text}");
}

#[test]
fn a_cell_has_enough_seeds_when_its_interval_is_narrow() {
    let folder = Sweeps::new();
    let arguments = [
        "sweep",
        "small.toml",
        "--set=traffic.rate=500,2000",
        "--seeds=200",
        "--until-width=1%",
        "--json",
    ];
    let output = folder.ended(0, &with(&arguments, &["--out=one", "--threads=1"]));
    folder.ended(0, &with(&arguments, &["--out=three", "--threads=3"]));
    assert_eq!(folder.table("one"), folder.table("three"));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for cell in value["cells"].as_array().unwrap() {
        let mean = &cell["latency_mean_us"];
        let width = mean["ci95"].as_f64().unwrap() / mean["mean"].as_f64().unwrap();
        let seeds = cell["seeds"].as_array().unwrap().len();
        assert!(
            width <= 0.01 && (3..200).contains(&seeds),
            "{width} with {seeds} seeds"
        );
    }
}

/// Runs every element of a job array on this machine, as `sbatch` would on nodes.
const FAKE_SBATCH: &str = r#"#!/bin/sh
script=$1
range=$(sed -n 's/^#SBATCH --array=0-//p' "$script")
# Elements end in any order; the last begins first here, and two run at a time.
task=$range
while [ "$task" -ge 0 ]; do
    SLURM_ARRAY_TASK_ID=$task SLURM_CPUS_PER_TASK=2 sh "$script" || exit 1 &
    first=$!
    task=$((task - 1))
    if [ "$task" -ge 0 ]; then
        SLURM_ARRAY_TASK_ID=$task sh "$script" || exit 1
        task=$((task - 1))
    fi
    wait "$first" || exit 1
done
echo "Submitted batch job 1"
"#;

#[test]
fn a_job_array_gives_the_same_answer_to_the_bit() {
    let folder = Sweeps::new();
    folder.ended(0, &with(&SWEEP, &["--out=whole"]));
    let options = "--slurm=--partition=short --time=01:00:00";
    let slurm = with(
        &SWEEP,
        &["--out=it's an array", options, "--slurm-elements=3"],
    );
    folder.ended(0, &slurm);
    let array = folder.join("it's an array");
    let script = fs::read_to_string(array.join("array.sh")).unwrap();
    assert!(
        script.contains("\n#SBATCH --partition=short --time=01:00:00\n"),
        "{script}"
    );
    let list = fs::read_to_string(array.join("array.txt")).unwrap();
    assert_eq!(list, "0..2\n2..5\n5..8\n");

    let sbatch = folder.join("sbatch");
    fs::write(&sbatch, FAKE_SBATCH).unwrap();
    fs::set_permissions(&sbatch, fs::Permissions::from_mode(0o755)).unwrap();
    // Twice: an element that is run again has nothing left to do.
    for _ in 0..2 {
        let output = Command::new(&sbatch)
            .arg(array.join("array.sh"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let runs = folder.journal("it's an array");
    assert_eq!(runs.len(), 40);
    assert!(
        !array.join("sweep.parquet").exists(),
        "elements make no table"
    );
    folder.ended(0, &["sweep", "--resume=it's an array"]);
    assert_eq!(
        folder.journal("it's an array").len(),
        40,
        "all had been run"
    );
    assert_eq!(folder.table("it's an array"), folder.table("whole"));
}

#[test]
fn a_directory_belongs_to_one_sweep_and_one_process() {
    let folder = Sweeps::new();
    let sweep = [
        "sweep",
        "small.toml",
        "--set=traffic.rate=500,2000",
        "--out=s",
    ];
    folder.ended(0, &sweep);
    let other = ["sweep", "small.toml", "--seeds=2", "--out=s"];
    let error = text(&folder.ended(1, &other).stderr);
    assert!(error.contains("another sweep is in `s`"), "{error}");
    let journal = fs::File::open(folder.join("s/journal.jsonl")).unwrap();
    journal.lock().unwrap();
    for arguments in [
        &["sweep", "--resume=s"][..],
        &["sweep", "--resume=s", "--cells=0..1"],
    ] {
        let error = text(&folder.ended(1, arguments).stderr);
        assert!(error.contains("another process runs the sweep"), "{error}");
    }
    fs::create_dir(folder.join("mine")).unwrap();
    fs::write(folder.join("mine/notes.txt"), "mine").unwrap();
    let occupied = ["sweep", "small.toml", "--seeds=2", "--out=mine"];
    let error = text(&folder.ended(1, &occupied).stderr);
    assert!(error.contains("`mine` holds `notes.txt`"), "{error}");
    for wrong in [
        "--until-width=0",
        "--set=run.seed=1,2",
        "--set=traffic.rate=1..0",
    ] {
        folder.ended(1, &["sweep", "small.toml", wrong, "--out=w"]);
    }
}

#[test]
fn the_directory_alone_is_enough() {
    let folder = Sweeps::new();
    let preset = "name = \"mine\"\ninherits = \"giganet-clan\"\n[nic]\ndoorbell = { value = \
                  \"2 us\", source = \"this test\", confidence = \"assumed\" }\n";
    fs::write(folder.join("mine.toml"), preset).unwrap();
    let nics = "--set=hosts.nic=giganet-clan,mine.toml";
    // A study that ships takes the preset as well, and its directory has it.
    let sizes = "--set=traffic.size=64 B..192 B:64 B";
    folder.ended(0, &["sweep", "two-hosts", sizes, nics, "--out=ships"]);
    let plan = fs::read_to_string(folder.join("ships/sweep.json")).unwrap();
    assert!(plan.contains("doorbell = { value"), "{plan}");
    folder.ended(
        0,
        &["sweep", "small.toml", nics, "--seeds=2", "--out=whole"],
    );
    let slurm = [
        "sweep",
        "small.toml",
        nics,
        "--seeds=2",
        "--out=moved",
        "--slurm=",
    ];
    folder.ended(0, &slurm);
    fs::remove_file(folder.join("mine.toml")).unwrap();
    fs::remove_file(folder.join("small.toml")).unwrap();
    folder.ended(0, &["sweep", "--resume=moved"]);
    assert_eq!(folder.table("moved"), folder.table("whole"));
}

#[test]
fn a_sweep_where_a_run_is_asked_for_is_told_from_a_run() {
    let folder = Sweeps::new();
    folder.succeed(&["sweep", "small.toml", "--seeds", "2", "--out", "swept"]);
    for command in [&["report", "swept"][..], &["rerun", "swept"]] {
        let said = folder.failure(1, command);
        assert_eq!(
            said,
            "error: `swept` is a sweep, not a run\nhelp: its page is swept/report.html, its runs \
             are the rows of swept/sweep.parquet; both are made anew by: viaduct sweep --resume \
             swept\n"
        );
    }
}

#[test]
fn a_key_without_set_is_told_how_to_be_set() {
    let folder = Sweeps::new();
    let said = folder.failure(1, &["sweep", "small.toml", "traffic.rate=100/s,200/s"]);
    assert!(
        said.contains("tip: a key of the study is set by `--set traffic.rate=100/s,200/s`"),
        "{said}"
    );
    // Another stray word is no key.
    let said = folder.failure(1, &["sweep", "small.toml", "other.toml"]);
    assert!(!said.contains("--set"), "{said}");
}
