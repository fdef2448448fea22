//! Graphs of operations in studies.

use std::fs;
use std::ops::ControlFlow;

use viaduct_cluster::config::UNLIMITED;
use viaduct_engine::Time;
use viaduct_hardware::Rate;
use viaduct_operations::goal;
use viaduct_provider::via::ReliabilityLevel;
use viaduct_scenario::{Override, Study, UNTIL_ALL_HAVE_ENDED, parse_study, parse_study_with};

const STUDY: &str = "\
[network]
topology = \"switch\"
hosts = 4
[links]
rate = \"1 Gbit/s\"
[traffic]
arrivals = \"goal\"
file = \"x.goal\"
";

const GOAL: &str = "\
num_ranks 2
rank 0 {
l1: calc 1500
l2: send 80000b to 1 tag 7
l2 requires l1
}
rank 1 {
recv 80000b from -1 tag 7
}
";

fn with_goal(goal: &str) -> String {
    format!("{STUDY}[files]\n\"x.goal\" = '''\n{goal}'''\n")
}

fn digest(study: &Study) -> u64 {
    let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
    let result = result.unwrap();
    let application = result.application.as_ref().unwrap();
    assert_eq!(application.ended, application.operations);
    assert!(result.violations.is_empty(), "{:?}", result.violations);
    result.digest
}

fn set(values: &[&str]) -> Vec<Override> {
    values.iter().map(|text| Override::fixed(*text)).collect()
}

#[test]
fn a_study_carries_its_graph_and_says_what_it_leaves_out() {
    let study = parse_study(&with_goal(GOAL)).unwrap();
    let config = &study.config;
    assert_eq!(
        config.traffic.reliability,
        ReliabilityLevel::ReliableDelivery
    );
    assert_eq!(config.hosts.prepost, UNLIMITED);
    assert_eq!(config.run.until, UNTIL_ALL_HAVE_ENDED);
    let application = config.traffic.application().unwrap();
    // Two pieces, a request and its answer.
    assert_eq!(
        (application.graph().ranks(), application.messages()),
        (2, 4)
    );
    let again = parse_study(&study.resolved_toml()).unwrap();
    assert_eq!(digest(&study), digest(&again));
    let eager = set(&["traffic.eager=unlimited", "traffic.reliability=unreliable"]);
    let study = parse_study_with(&with_goal(GOAL), &eager).unwrap();
    assert_eq!(study.config.traffic.application().unwrap().messages(), 2);
    assert_eq!(
        study.config.traffic.reliability,
        ReliabilityLevel::Unreliable
    );
}

/// When the last operation of a study has ended.
fn makespan(study: &Study) -> Time {
    let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(())).unwrap();
    result.application.unwrap().makespan
}

#[test]
fn both_ends_of_a_long_message_register_it_at_the_cost_of_their_hosts() {
    // The receive is there before the request.
    let long = GOAL.replace("calc 1500", "calc 50000");
    // 16 us and 80,000 bytes at 16.6667 GB/s, as the preset says.
    let each = Time::from_microseconds(16)
        + Rate::from_bits_per_second(16.6667e9 * 8.0).time_for(80_000.0);
    let load = |text: &str, values: &[&str]| {
        // Receives that are posted again would have the processor first.
        let always = ["hosts.nic=rnic-gen4", "hosts.model.cpu.post=0 s"];
        parse_study_with(text, &set(&[&always[..], values].concat())).unwrap()
    };
    let text = with_goal(&long);
    let before = makespan(&load(&text, &[]));
    let registers = "traffic.registration=each";
    let took = |text: &str| {
        let study = load(text, &[registers]);
        let again = parse_study(&study.resolved_toml()).unwrap();
        assert_eq!(makespan(&again), makespan(&study));
        makespan(&study)
    };
    assert_eq!(took(&text), before + each + each);
    // A host that takes 4 us longer for it.
    let slow = "\n[[host_group]]\nhosts = \"1\"\nmodel.memory.register = \"20 us\"\n";
    let more = Time::from_microseconds(4);
    assert_eq!(took(&(text.clone() + slow)), before + each + each + more);
    // An eager message is not registered.
    let eager = "traffic.eager=unlimited";
    let [copied, registered] = [&[eager][..], &[eager, registers]].map(|set| load(&text, set));
    assert_eq!(makespan(&copied), makespan(&registered));
}

#[test]
fn a_collective_is_between_all_processes_unless_it_is_said() {
    let base = STUDY.replace(
        "\"goal\"\nfile = \"x.goal\"",
        "\"collective\"\ncollective = \"barrier\"",
    );
    let ranks = |values: &[&str]| {
        let study = parse_study_with(&base, &set(values)).unwrap();
        digest(&study);
        let application = study.config.traffic.application().unwrap();
        (
            application.graph().ranks(),
            application.request().unwrap().algorithm.name(),
        )
    };
    assert_eq!(ranks(&[]), (4, "dissemination"));
    assert_eq!(ranks(&["traffic.ranks=3"]), (3, "dissemination"));
    let two = ["hosts.processes=2", "hosts.local_rate=8 Gbit/s"];
    assert_eq!(ranks(&two), (8, "dissemination"));
    let reduce = [
        "traffic.collective=all-reduce",
        "traffic.algorithm=double-tree",
    ];
    assert_eq!(ranks(&reduce), (4, "double-tree"));
}

#[test]
fn operations_that_wait_for_each_other_stop_the_run_and_are_named() {
    let goal = GOAL.replace("l2 requires l1", "l2 requires l1\nl1 requires l2");
    let study = parse_study(&with_goal(&goal)).unwrap();
    let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(())).unwrap();
    let said = result.violations.join("\n");
    let ring = "in a ring:\n    rank 0, line 3: calc 1500\n    rank 0, line 4: send 80000b to 1";
    assert!(said.contains(ring), "{said}");
    let chain = "receives that no message came for: 1\n    rank 1, line 9: recv 80000b from";
    assert!(said.contains(chain), "{said}");
}

#[test]
fn what_is_listed_below_an_error_has_lines_of_its_own() {
    let arrivals = "\"simgrid\"\nfile = \"x.txt\"\noperations_per_second = 1e9";
    let text = STUDY.replace("\"goal\"\nfile = \"x.goal\"", arrivals);
    let trace = "0 init\n1 init\n0 barrier\n";
    let text = format!("{text}[files]\n\"x.txt\" = '''\n{trace}'''\n");
    let error = parse_study(&text).expect_err("it is refused").to_string();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].ends_with("and another does more:"), "{error}");
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("= note: rank 0, line 3 `barrier`")),
        "{error}"
    );
}

#[test]
fn what_is_wrong_with_a_graph_is_said_with_its_place() {
    let error = |text: &str, values: &[&str]| {
        parse_study_with(text, &set(values))
            .expect_err("it is refused")
            .to_string()
    };
    let of_goal = |goal: &str| error(&with_goal(goal), &[]);
    let slip = of_goal(&GOAL.replace("send", "sned"));
    assert!(
        slip.contains("x.goal:4:1") && slip.contains("sned"),
        "{slip}"
    );
    let adapter = of_goal(&GOAL.replace("tag 7\nl2", "tag 7 nic 1\nl2"));
    assert!(adapter.contains("names adapter 1"), "{adapter}");
    let goal = with_goal(GOAL);
    let crowded = error(&goal, &["hosts.processes=2"]);
    assert!(crowded.contains("set hosts.local_rate"), "{crowded}");
    let five = GOAL.replace("num_ranks 2", "num_ranks 5");
    let many = of_goal(&format!(
        "{five}rank 2 {{\n}}\nrank 3 {{\n}}\nrank 4 {{\n}}\n"
    ));
    assert!(
        many.contains("5 ranks, and the cluster 4 processes"),
        "{many}"
    );
    let list = error(
        &goal,
        &[
            "traffic.arrivals=open",
            "traffic.rate=5/s",
            "traffic.pattern=uniform",
        ],
    );
    assert!(list.contains("missing key `until` in [run]"), "{list}");
}

#[test]
fn a_binary_file_is_the_graph_of_its_text_and_is_carried_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let graph = goal::parse_text(GOAL).unwrap();
    let mut binary = Vec::new();
    goal::write_binary(&graph, &mut binary).unwrap();
    fs::write(place("x.goal"), GOAL).unwrap();
    fs::write(place("x.bin"), &binary).unwrap();
    fs::write(place("text.toml"), STUDY).unwrap();
    fs::write(place("binary.toml"), STUDY.replace("x.goal", "x.bin")).unwrap();
    let load = |name: &str| Study::load(place(name).to_str().unwrap(), &[]);
    let (of_text, of_binary) = (load("text.toml").unwrap(), load("binary.toml").unwrap());
    assert_eq!(digest(&of_text), digest(&of_binary));
    let again = parse_study(&of_binary.resolved_toml()).unwrap();
    assert_eq!(digest(&again), digest(&of_binary));

    fs::write(place("x.bin"), &binary[..binary.len() - 5]).unwrap();
    let cut = load("binary.toml").expect_err("it is refused").to_string();
    assert!(cut.contains("cannot read the GOAL file"), "{cut}");
    assert!(cut.contains("rank 1"), "{cut}");
}

#[test]
fn the_size_of_messages_is_said_otherwise_by_a_graph() {
    let error = |text: &str| parse_study(text).expect_err("it is refused").to_string();
    let sized = STUDY.replace("file = \"x.goal\"", "file = \"x.goal\"\nsize = \"1 KiB\"");
    let of_goal = error(&format!("{sized}[files]\n\"x.goal\" = '''\n{GOAL}'''\n"));
    assert!(
        of_goal.contains("the file says how long each message is"),
        "{of_goal}"
    );
    let collective = STUDY.replace(
        "\"goal\"\nfile = \"x.goal\"",
        "\"collective\"\ncollective = \"all-reduce\"\nsize = \"1 KiB\"",
    );
    let of_collective = error(&collective);
    assert!(
        of_collective.contains("leave it out: `bytes` is the length of the vector"),
        "{of_collective}"
    );
    let deviation = error(&collective.replace("size =", "size_sd ="));
    assert!(deviation.contains("size_sd"), "{deviation}");
}

/// A step that every rank makes, in the JSON form.
const STEP: &str = "\
{\"workload_graph\": [
{\"Id\": 1, \"Name\": \"gemm\", \"NodeType\": 4, \"runtime\": 20, \"data_deps\": []},
{\"Id\": 2, \"Name\": \"kernel\", \"NodeType\": 7, \"comm_type\": 0, \"comm_size\": 80000, \"data_deps\": [1]},
{\"Id\": 3, \"Name\": \"gemm\", \"NodeType\": 4, \"runtime\": 30, \"data_deps\": [2]}
]}
";

/// Rank r of four, in a group of two: the even or the odd ones.
fn step_in_groups() -> String {
    STEP.replace("\"comm_size\"", "\"pg_name\": \"pair\", \"comm_size\"")
}

fn of_trace(file: &str) -> String {
    let goal = "arrivals = \"goal\"\nfile = \"x.goal\"";
    STUDY.replace(goal, &format!("arrivals = \"chakra\"\nfile = \"{file}\""))
}

#[test]
fn a_trace_is_one_file_for_all_or_one_of_each_rank_and_is_carried() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let load = |file: &str, values: &[&str]| {
        write("study.toml", &of_trace(file));
        let path = folder.path().join("study.toml");
        Study::load(path.to_str().unwrap(), &set(values)).map_err(|error| error.to_string())
    };
    fs::create_dir(folder.path().join("ranks")).unwrap();
    write("step.json", STEP);
    for rank in 0..4 {
        write(&format!("ranks/s.{rank}.json"), STEP);
    }
    let one = load("step.json", &[]).unwrap();
    let all = digest(&one);
    for file in ["ranks", "ranks/", "ranks/s"] {
        let study = load(file, &[]).unwrap();
        assert_eq!(digest(&study), all, "{file}");
        let again = Study::from_resolved(&study.resolved_toml()).unwrap();
        assert_eq!(digest(&again), all, "{file}");
    }
    assert_eq!(
        digest(&Study::from_resolved(&one.resolved_toml()).unwrap()),
        all
    );
    let ranks = |study: &Study| study.config.traffic.application().unwrap().graph().ranks();
    assert_eq!(ranks(&one), 4);
    assert_eq!(ranks(&load("step.json", &["traffic.ranks=3"]).unwrap()), 3);
    // What a study says of it counts.
    let span = |values: &[&str]| {
        let study = load("step.json", values).unwrap();
        let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
        result.unwrap().application.unwrap().makespan.picoseconds()
    };
    let usual = span(&[]);
    assert_eq!(span(&["traffic.compute_scale=2"]), usual + 50_000_000);
    assert_ne!(span(&["traffic.all_reduce=recursive-doubling"]), usual);
    // A sweep over algorithms reads it once and has each.
    let path = folder.path().join("study.toml");
    write("study.toml", &of_trace("ranks"));
    let swept = [Override::swept("traffic.all_reduce=ring,double-tree")];
    let study = Study::load(path.to_str().unwrap(), &swept).unwrap();
    let cells: Vec<u64> = study.cells().iter().map(digest).collect();
    assert_eq!((cells.len(), cells[0]), (2, all));
    assert_ne!(cells[1], all);
    fs::remove_file(folder.path().join("ranks/s.2.json")).unwrap();
    let missing = load("ranks", &[]).unwrap_err();
    assert!(
        missing.contains("the file of rank 2 is missing: there are 3 of ranks 0 to 3"),
        "{missing}"
    );
    let none = load("other", &[]).unwrap_err();
    assert!(none.contains("no file such as other.0.et"), "{none}");
    write("ranks/s.2.json", "");
    let empty = load("ranks", &[]).unwrap_err();
    assert!(
        empty.contains("ranks/s.2.json: the file is empty"),
        "{empty}"
    );
}

#[test]
fn process_groups_of_a_trace_come_from_a_file_beside_it() {
    let carried = |groups: &str| {
        let study = of_trace("step.json")
            .replace("\"step.json\"", "\"step.json\"\ngroups = \"groups.json\"");
        format!(
            "{study}[files]\n\"step.json\" = '''\n{}'''\n\"groups.json\" = '{groups}'\n",
            step_in_groups()
        )
    };
    let all = parse_study(&carried("{\"pair\": [0, 1, 2, 3]}")).unwrap();
    let again = parse_study(&all.resolved_toml()).unwrap();
    assert_eq!(digest(&all), digest(&again));
    let error = |text: &str, values: &[&str]| {
        parse_study_with(text, &set(values))
            .expect_err("it is refused")
            .to_string()
    };
    let some = error(&carried("{\"pair\": [0, 2]}"), &[]);
    assert!(some.contains("`pair` has 2 of 4 ranks"), "{some}");
    let unknown = error(&carried("{\"other\": [0, 2]}"), &[]);
    assert!(
        unknown.contains("process group `pair` is not known: other are")
            && unknown.contains("traffic.groups"),
        "{unknown}"
    );
    let no_json = error(&carried("[0"), &[]);
    assert!(
        no_json.contains("cannot read the process groups"),
        "{no_json}"
    );
    let step = carried("{\"pair\": []}");
    let algorithm = error(&step, &["traffic.all_gather=rabenseifner"]);
    assert!(
        algorithm.contains("there is no all-gather by rabenseifner: it is ring, bruck"),
        "{algorithm}"
    );
    let scale = error(&step, &["traffic.compute_scale=-1"]);
    assert!(
        scale.contains("a number of at least 0 is expected"),
        "{scale}"
    );
    let many = error(&step, &["traffic.ranks=5"]);
    assert!(
        many.contains("5 ranks, and the cluster 4 processes"),
        "{many}"
    );
    let size = error(&step, &["traffic.size=1 KiB"]);
    assert!(size.contains("the trace says how long"), "{size}");
}

/// What each of four ranks does.
fn simgrid_lines(rank: u32) -> String {
    format!("{rank} init\n{rank} compute 5e4\n{rank} allreduce 4000 1000\n{rank} finalize\n")
}

#[test]
fn a_simgrid_trace_is_one_file_a_list_or_a_folder_and_is_carried() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let load = |file: &str, values: &[&str]| {
        write(
            "study.toml",
            &of_trace(file).replace("\"chakra\"", "\"simgrid\""),
        );
        let path = folder.path().join("study.toml");
        Study::load(path.to_str().unwrap(), &set(values)).map_err(|error| error.to_string())
    };
    let rate = "traffic.operations_per_second=1e9";
    fs::create_dir(folder.path().join("ti")).unwrap();
    write("all.txt", &(0..4).map(simgrid_lines).collect::<String>());
    for rank in 0..4 {
        write(&format!("ti/1.5_rank-{rank}.txt"), &simgrid_lines(rank));
    }
    let names = (0..4).map(|rank| format!("1.5_rank-{rank}.txt\n"));
    write("ti/list", &names.collect::<String>());
    let absolute = folder.path().join("ti/1.5_rank-0.txt");
    let mut list = format!("{}\n", absolute.display());
    list += &(1..4)
        .map(|rank| format!("ti/1.5_rank-{rank}.txt\n"))
        .collect::<String>();
    write("list", &list);
    let all = digest(&load("all.txt", &[rate]).unwrap());
    for file in ["all.txt", "ti", "ti/", "ti/list", "list"] {
        let study = load(file, &[rate]).unwrap();
        assert_eq!(digest(&study), all, "{file}");
        let again = Study::from_resolved(&study.resolved_toml()).unwrap();
        assert_eq!(digest(&again), all, "{file}");
    }
    let span = |values: &[&str]| {
        let study = load("ti", values).unwrap();
        let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
        result.unwrap().application.unwrap().makespan.picoseconds()
    };
    let usual = span(&[rate]);
    // 51 us of operations take as long again, or half as long.
    assert_eq!(span(&[rate, "traffic.compute_scale=2"]), usual + 51_000_000);
    assert_eq!(
        span(&["traffic.operations_per_second=5e8"]),
        usual + 51_000_000
    );
    assert_ne!(
        span(&[rate, "traffic.all_reduce=recursive-doubling"]),
        usual
    );
    for (file, values, expected) in [
        ("ti", &[][..], "set traffic.operations_per_second"),
        (
            "ti",
            &["traffic.operations_per_second=0"],
            "a number above 0 is expected",
        ),
        ("none", &[rate], "there is no such file"),
        (
            "study.toml",
            &[rate],
            "[network], which study.toml lists: there is no such file",
        ),
    ] {
        let error = load(file, values).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    write("ti/1.5_rank-2.txt", "2 init\n2 send 9 0 8\n");
    let error = load("ti", &[rate]).unwrap_err();
    assert!(
        error.contains("ti/1.5_rank-2.txt, line 2, rank 2: `send`: there is no rank 9"),
        "{error}"
    );
    fs::remove_file(folder.path().join("ti/1.5_rank-2.txt")).unwrap();
    let error = load("ti", &[rate]).unwrap_err();
    assert!(error.contains("the file of rank 2 is missing"), "{error}");
    let error = load("ti/list", &[rate]).unwrap_err();
    assert!(
        error.contains("ti/1.5_rank-2.txt, which ti/list lists: there is no such file"),
        "{error}"
    );
}

#[test]
fn computations_that_count_operations_are_warned_of_until_a_rate_is_said() {
    let step = "{\"workload_graph\": [{\"Id\": 1, \"NodeType\": 4, \"num_ops\": 70}]}";
    let study = format!("{}[files]\n\"s.json\" = '{step}'\n", of_trace("s.json"));
    let warned = |values: &[&str]| {
        let study = parse_study_with(&study, &set(values)).unwrap();
        study
            .warnings
            .to_string()
            .contains("some computations take no time")
    };
    assert!(warned(&[]));
    assert!(!warned(&["traffic.operations_per_second=1e9"]));
}

#[test]
fn a_program_has_its_class_its_ranks_and_a_rate_of_operations() {
    let text = STUDY.replace(
        "\"goal\"\nfile = \"x.goal\"",
        "\"program\"\nprogram = \"nas-cg\"\nclass = \"S\"",
    );
    let load =
        |values: &[&str]| parse_study_with(&text, &set(values)).map_err(|error| error.to_string());
    let rate = "traffic.operations_per_second=1e8";
    let messages = |values: &[&str]| {
        let study = load(values).unwrap();
        let application = study.config.traffic.application().unwrap();
        (application.graph().ranks(), application.messages())
    };
    // All 15 iterations of 26 products and 53 sums, each along a row of two; two ranks are on the
    // diagonal.
    let iteration = 4 * (26 + 53) + 2 * 26;
    assert_eq!(messages(&[rate]), (4, 15 * iteration));
    assert_eq!(
        messages(&[rate, "traffic.iterations=2"]),
        (4, 2 * iteration)
    );
    assert_eq!(messages(&[rate, "traffic.ranks=1"]), (1, 0));
    // Sums over all go by recursive doubling, two steps of four ranks, if nothing else is said.
    let sums = |all_reduce: &[&'static str]| {
        let program = [rate, "traffic.program=nas-ep"];
        messages(&[&program[..], all_reduce].concat()).1
    };
    assert_eq!(sums(&[]), 3 * 4 * 2);
    assert_eq!(sums(&["traffic.all_reduce=ring"]), 3 * 4 * 6);
    let study = load(&[rate, "traffic.iterations=1"]).unwrap();
    let again = parse_study(&study.resolved_toml()).unwrap();
    assert_eq!(digest(&study), digest(&again));
    let error = |values: &[&str]| load(values).expect_err("it is refused");
    for (values, told) in [
        (&[][..], "set traffic.operations_per_second"),
        (
            &[rate, "traffic.ranks=3"],
            "nas-cg of class S has no 3 ranks: it has powers of two, as 2 and 4",
        ),
        (
            &[rate, "network.hosts=6"],
            "nas-cg of class S has no 6 ranks: it has powers of two, as 4 and 8",
        ),
        (
            &[rate, "traffic.iterations=16"],
            "nas-cg of class S has 1 to 15 iterations, not 16",
        ),
        (&[rate, "traffic.program=nas-xy"], "nas-ep"),
    ] {
        let error = error(values);
        assert!(error.contains(told), "{values:?}: {error}");
    }
}

#[test]
fn copies_of_a_program_share_processes_and_disturb_each_other() {
    let text = |traffic: &str| {
        format!(
            "[network]\ntopology = \"switch\"\nhosts = 4\n[links]\nrate = \"1 Gbit/s\"\n\
             [hosts]\nnic = \"giganet-clan\"\n{traffic}\narrivals = \"program\"\n\
             program = \"nas-is\"\nclass = \"S\"\niterations = 1\noperations_per_second = 2e6\n"
        )
    };
    let makespan = |traffic: &str| {
        let study = parse_study(&text(traffic)).unwrap();
        let application = study.config.traffic.application().unwrap();
        let ranks = application.graph().ranks();
        let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
        let result = result.unwrap().application.unwrap();
        assert_eq!(result.ended, result.operations);
        (ranks, result.makespan)
    };
    let (ranks, alone) = makespan("[traffic]");
    assert_eq!(ranks, 4);
    // Two on the same hosts: the adapters carry twice as much.
    let (ranks, together) = makespan("processes = 2\n[traffic]\ncopies = 2");
    assert_eq!(ranks, 8);
    assert!(together > alone, "{together:?} {alone:?}");
    // Two on hosts of their own.
    let (ranks, apart) = makespan("[traffic]\ncopies = 2");
    assert_eq!(ranks, 4);
    let (_, half) = makespan("[traffic]\nranks = 2");
    assert_eq!(apart, half);
    let too_many = parse_study(&text("[traffic]\ncopies = 3\nranks = 2"));
    let error = too_many.expect_err("six ranks on four hosts").to_string();
    assert!(error.contains("cannot carry the graph out"), "{error}");
}

#[test]
fn copies_on_one_processor_take_turns_and_one_computes_while_the_other_waits() {
    let run = |program: &str, rate: &str, copies: u32| {
        let text = format!(
            "[network]\ntopology = \"switch\"\nhosts = 4\n[links]\nrate = \"1 Gbit/s\"\n\
             [hosts]\nnic = \"giganet-clan\"\nprocesses = {copies}\nprocessors = 1\n\
             [traffic]\ncopies = {copies}\narrivals = \"program\"\nprogram = \"{program}\"\n\
             class = \"S\"\niterations = 1\noperations_per_second = {rate}\n"
        );
        let study = parse_study(&text).unwrap();
        let result = viaduct_cluster::run(&study.config, &mut |_| ControlFlow::Continue(()));
        let result = result.unwrap().application.unwrap();
        let computing = result.ranks[0].computing.picoseconds() as f64;
        (result.makespan.picoseconds() as f64, computing)
    };
    // A program that computes takes as long as both together, and what its messages take.
    let (alone, computing) = run("nas-ep", "30e6", 1);
    let (together, each) = run("nas-ep", "30e6", 2);
    assert_eq!(computing, each);
    assert!(together >= 2.0 * computing);
    assert!(together <= 2.0 * computing + 2.0 * (alone - computing));
    // Of one that waits for messages most of the time, much of the waiting is filled by the other.
    let (alone, computing) = run("nas-cg", "1e9", 1);
    let (together, _) = run("nas-cg", "1e9", 2);
    assert!(2.0 * computing < alone, "{computing} of {alone}");
    assert!(
        together > alone && together < 1.6 * alone,
        "{together} {alone}"
    );
}

#[test]
fn linpack_and_a_sort_have_sizes_of_their_own() {
    let text = |program: &str| {
        format!(
            "[network]\ntopology = \"switch\"\nhosts = 4\n[links]\nrate = \"1 Gbit/s\"\n\
             [hosts]\nnic = \"giganet-clan\"\n[traffic]\narrivals = \"program\"\n\
             operations_per_second = 30e6\n{program}"
        )
    };
    let messages = |program: &str| {
        let study = parse_study(&text(program)).unwrap();
        let again = parse_study(&study.resolved_toml()).unwrap();
        assert_eq!(digest(&study), digest(&again));
        study.config.traffic.application().unwrap().messages()
    };
    // Two rows of two ranks, three panels: 20 pivots, each an exchange of the two that have the
    // panel; panels to the other column; rows where something is right of the panel, of the last
    // one the right side.
    let three_panels = "program = \"linpack\"\norder = 20\nblock = 8\n";
    assert_eq!(messages(three_panels), 2 * 20 + 3 * 2 + (4 + 2 + 2));
    let first = format!("{three_panels}iterations = 1\n");
    assert_eq!(messages(&first), 2 * 8 + 2 + 4);
    // Eight passes of four bits: 16 counts and totals over three steps, and six keys of eight away.
    let sort = "program = \"radix-sort\"\nkeys = 32\ndigit_bits = 4\n";
    assert_eq!(messages(sort), 8 * (2 * 16 * 3 + 4 * 6));
    let refused = |program: &str| {
        let problems = parse_study(&text(program)).expect_err("it is refused");
        problems.to_string()
    };
    let error = refused("program = \"linpack\"\nclass = \"A\"\n");
    assert!(error.contains("class"), "{error}");
    let error = refused("program = \"radix-sort\"\ndigit_bits = 17\n");
    assert!(error.contains("must be at most 16"), "{error}");
}
