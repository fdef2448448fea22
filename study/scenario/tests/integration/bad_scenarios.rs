//! Bad scenarios, and the exact message that each gets.
//!
//! Each is a good study with one part exchanged, so that a message can only come from that part.

use viaduct_scenario::{Override, Study, parse_study};

/// A small study that is right.
const GOOD: &str = r#"
[run]
until = "10 ms"
warmup = "1 ms"

[network]
topology = "torus"
dimensions = [4, 4]
hosts_per_switch = 2

[links]
rate = "856 Mbit/s"

[hosts]
nic = "giganet-clan"

[traffic]
pattern = "straight-line"
hops = 1
rate = "100/s"
size = "4 KiB"
"#;

#[test]
fn the_good_study_is_good() {
    let study = parse_study(GOOD).expect("it is right");
    assert!(study.warnings.is_empty(), "{}", study.warnings);
}

/// The messages of the good study with `from` exchanged for `to`, warnings included.
fn exchanged(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "`{from}` stands in the good study");
    messages(&GOOD.replacen(from, to, 1))
}

fn messages(text: &str) -> String {
    match parse_study(text) {
        Ok(study) => format!("accepted\n{}", study.warnings),
        Err(diagnostics) => diagnostics.to_string(),
    }
}

/// Each case once, in one snapshot: what was written, then what was said.
fn table(cases: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (from, to) in cases {
        let (shown_from, shown_to) = (from.trim(), to.trim());
        text.push_str(&format!(
            "---- {shown_from}  =>  {shown_to}\n{}\n",
            exchanged(from, to)
        ));
    }
    text
}

#[test]
fn quantities() {
    let said = table(&[
        ("\"10 ms\"", "10"),
        ("\"10 ms\"", "\"10\""),
        ("\"10 ms\"", "\"10 sec\""),
        ("\"10 ms\"", "\"10 lightyears\""),
        ("\"10 ms\"", "\"-10 ms\""),
        ("\"10 ms\"", "\"nan s\""),
        ("\"10 ms\"", "\"0.1 ps\""),
        ("\"10 ms\"", "\"1000000 h\""),
        ("\"10 ms\"", "\"1,000 ms\""),
        ("\"10 ms\"", "10 ms"),
        ("\"10 ms\"", "true"),
        ("\"10 ms\"", "1979-05-27"),
        ("\"10 ms\"", "\"\""),
        ("\"10 ms\"", "\"ten ms\""),
        ("\"4 KiB\"", "4096"),
        ("\"4 KiB\"", "\"4 KBit\""),
        ("\"4 KiB\"", "\"4 kb\""),
        ("\"4 KiB\"", "\"4 Kib\""),
        ("\"4 KiB\"", "\"4 K\""),
        ("\"4 KiB\"", "\"1.5 B\""),
        ("\"4 KiB\"", "\"2000 TiB\""),
        ("\"4 KiB\"", "\"8 GiB\""),
        ("\"4 KiB\"", "\"1e400 B\""),
        ("\"856 Mbit/s\"", "856"),
        ("\"856 Mbit/s\"", "\"856 Mb/s\""),
        ("\"856 Mbit/s\"", "\"856 Mbps\""),
        ("\"856 Mbit/s\"", "\"856 MBit/s\""),
        ("\"856 Mbit/s\"", "\"856 Mbit\""),
        ("\"856 Mbit/s\"", "\"856 parsecs\""),
        ("\"856 Mbit/s\"", "\"0 Mbit/s\""),
        ("\"856 Mbit/s\"", "\"infinite\""),
        ("\"856 Mbit/s\"", "\"inf Mbit/s\""),
        ("\"856 Mbit/s\"", "\"9999999 Tbit/s\""),
        ("\"100/s\"", "100"),
        ("\"100/s\"", "\"100\""),
        ("\"100/s\"", "\"100 ms\""),
        ("\"100/s\"", "\"0/s\""),
        ("hops = 1", "hops = \"1\""),
        ("hops = 1", "hops = 1.5"),
        ("hops = 1", "hops = -1"),
        ("hops = 1", "hops = 0"),
        ("hops = 1", "hops = 99999999999999999999999"),
        ("[4, 4]", "16"),
        ("[4, 4]", "[4, 0]"),
        ("[4, 4]", "[]"),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn symbols_of_papers_lead_to_keys() {
    let dragonfly = exchanged(
        "\"torus\"\ndimensions = [4, 4]",
        "\"dragonfly\"\na = 4\nh = 2",
    );
    for (symbol, key) in [("a", "switches_per_group"), ("h", "global_links")] {
        let said = format!("unknown key `{symbol}` in [network]");
        let (_, said) = dragonfly.split_once(&said).expect(&dragonfly);
        let (_, help) = said.split_once("help: ").expect(said);
        assert!(
            help.starts_with(&format!("did you mean `{key}`?")),
            "{help}"
        );
    }
}

#[test]
fn keys_and_words() {
    let said = table(&[
        ("rate = \"100/s\"", "interrarval = \"10 ms\""),
        ("until", "untill"),
        ("until = \"10 ms\"", ""),
        ("[run]\nuntil = \"10 ms\"\nwarmup = \"1 ms\"", ""),
        ("warmup", "bandwidth"),
        ("warmup = \"1 ms\"", "propagation = \"1 ms\""),
        ("[traffic]", "[trafic]"),
        ("[run]", "seed = 1\n[run]"),
        ("[run]", "colour = 1\n[run]"),
        ("[run]\n", "run = 3\n[ran]\n"),
        ("\"torus\"", "\"tours\""),
        ("\"torus\"", "\"hypercube\""),
        ("\"torus\"", "torus"),
        ("\"torus\"", "\"switch\""),
        ("\"straight-line\"", "\"uniform\""),
        ("[links]\n", "[links]\nmodel = \"store-and-forward\"\n"),
        ("[links]\n", "[links]\nswitching = \"fluid\"\n"),
        ("[links]\n", "[links]\nsignal_rate = \"1 Gbit/s\"\n"),
        ("[links]\n", "[links]\ncoding = \"8b/10b\"\n"),
        ("rate = \"856 Mbit/s\"", "coding = \"8b/10b\""),
        ("rate = \"100/s\"", "rate = \"100/s\"\ninterval = \"10 ms\""),
        ("rate = \"100/s\"", ""),
        ("rate = \"100/s\"", "interval_distribution = \"uniform\""),
        (
            "rate = \"100/s\"",
            "arrivals = \"ping-pong\"\nrate = \"100/s\"",
        ),
        ("\"giganet-clan\"", "\"gigganet\""),
        ("nic = \"giganet-clan\"", "model = \"giganet-clan\""),
        ("[traffic]", "[nic]\npreset = \"ideal\"\n[traffic]"),
        ("\"giganet-clan\"", "\"mine.toml\""),
        ("\"giganet-clan\"", "3"),
        ("\"giganet-clan\"", "\"inline\""),
        (
            "[traffic]",
            "[hosts.model.nic]\ndoorbel = \"1 us\"\n[traffic]",
        ),
        ("[traffic]", "[hosts.bus_load]\nsize = \"4 KiB\"\n[traffic]"),
        ("[run]", "[run]\nuntil = \"1 s\""),
        ("[run]", "[run"),
        ("[run]", "[[run]]"),
        ("[run]\n", "[run]\ndrain = \"true\"\n"),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn values_that_do_not_go_together() {
    let said = table(&[
        ("\"1 ms\"", "\"10 ms\""),
        ("\"10 ms\"", "\"0 s\""),
        ("hops = 1", "hops = 1\nstart = \"10 ms\""),
        ("hops = 1", "hops = 1\nstart = \"2 ms\"\nstop = \"1 ms\""),
        ("hops = 1", "hops = 1\nstop = \"1 ms\""),
        ("hops = 1", "hops = 1\nstop = \"1 s\""),
        ("hops = 1", "hops = 4"),
        ("\"4 KiB\"", "\"64 KiB\""),
        ("\"856 Mbit/s\"", "\"856 MByte/s\""),
        ("\"856 Mbit/s\"", "\"107 MB/s\""),
        ("\"856 Mbit/s\"", "\"100 Gbit/s\""),
        ("rate = \"100/s\"", "rate = \"30 k/s\""),
        ("rate = \"100/s\"", "arrivals = \"window\"\nwindow = 100"),
        (
            "hosts_per_switch = 2",
            "hosts_per_switch = 2\nswitch_ports = 5",
        ),
        ("hosts_per_switch = 2", "hosts_per_switch = 4000000000"),
        (
            "hosts_per_switch = 2",
            "hosts_per_switch = 2\nrouting = \"table\"\nroutes = \"a\"",
        ),
        (
            "pattern = \"straight-line\"\nhops = 1",
            "pattern = \"transpose\"",
        ),
        (
            "pattern = \"straight-line\"\nhops = 1",
            "pattern = \"incast\"\ntarget = 32",
        ),
        (
            "pattern = \"straight-line\"\nhops = 1",
            "pattern = \"pairs\"\npairs = [[0, 0]]",
        ),
        (
            "pattern = \"straight-line\"\nhops = 1",
            "pattern = \"pairs\"\npairs = [[0, 1], [0]]",
        ),
        (
            "pattern = \"straight-line\"\nhops = 1",
            "pattern = \"hot-spot\"\nfraction = 12.5",
        ),
        (
            "rate = \"100/s\"",
            "rate = \"100/s\"\ninterval_distribution = \"pareto\"\ninterval_shape = 1",
        ),
        (
            "rate = \"100/s\"",
            "rate = \"100/s\"\ninterval_distribution = \"log-normal\"\ninterval_variation = -1",
        ),
        (
            "rate = \"100/s\"",
            "interval_distribution = \"uniform\"\ninterval_min = \"2 ms\"\ninterval_max = \"1 ms\"",
        ),
        (
            "rate = \"100/s\"",
            "interval_distribution = \"empirical\"\ninterval_table = [[\"1 ms\", \"50 %\"], [\"2 ms\", \"90 %\"]]",
        ),
        (
            "size = \"4 KiB\"",
            "size_distribution = \"uniform\"\nsize_min = \"2 KiB\"\nsize_max = \"1 KiB\"",
        ),
        (
            "size = \"4 KiB\"",
            "size_distribution = \"empirical\"\nsize_file = \"none.txt\"",
        ),
        (
            "size = \"4 KiB\"",
            "size_distribution = \"empirical\"\nsize_file = \"sizes\"\n[files]\nsizes = \"0 0\\n100 50\\n90 100\\n\"",
        ),
        (
            "[traffic]",
            "[hosts.bus_load]\ninterval = \"1 us\"\nsize = \"4 KiB\"\n[traffic]",
        ),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn lists_beside_the_settings() {
    let said = table(&[
        (
            "[run]",
            "[sweep]\n\"traffic.size\" = [\"1 B\", \"2 bit\", \"1 MiB\"]\n[run]",
        ),
        ("[run]", "[sweep]\n\"traffic.sise\" = [\"1 B\"]\n[run]"),
        ("[run]", "[sweep]\nseed = [1]\n[run]"),
        ("[run]", "[sweep]\n\"run.seed\" = 1\n[run]"),
        ("[run]", "[sweep]\n\"run.seed\" = []\n[run]"),
        ("[run]", "[[published]]\nquantity = \"events\"\n[run]"),
        (
            "[run]",
            "[[published]]\nquantity = \"events\"\nvalue = \"12 us\"\n[run]",
        ),
        (
            "[run]",
            "[[published]]\nquantity = \"events\"\nvalue = 1\nat = { \"traffic.size\" = 1 }\n[run]",
        ),
        ("[run]", "[published]\nquantity = \"events\"\n[run]"),
        ("[run]", "[files]\na = 1\n[run]"),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn graphs() {
    let graph = |file: &str, format: &str, content: &str| {
        let network = "topology = \"torus\"\ndimensions = [4, 4]\nhosts_per_switch = 2";
        let wanted = format!("topology = \"graph\"\nfile = \"{file}\"\n{format}");
        let text = GOOD.replacen(network, &wanted, 1).replacen(
            "\"straight-line\"\nhops = 1",
            "\"uniform\"",
            1,
        );
        let carried = format!("{text}\n[files]\n\"{file}\" = '''\n{content}'''\n");
        format!("---- {file} {format}\n{content}\n{}\n", messages(&carried))
    };
    let json = r#"{"nodes": [{"id": "a", "kind": "host"}], "edges": [{"source": "a"}]}"#;
    let parts = [
        graph("net", "", ""),
        graph("net.txt", "", "a b c d e f\n"),
        graph("net.json", "", json),
        graph("net.txt", "format = \"graphml\"", "<graph>"),
        graph(
            "net.txt",
            "routing = \"rule\"",
            "hosts a b\na x\nb y\nx y\ny z\n",
        ),
    ];
    let said = parts.concat();
    insta::assert_snapshot!(said);
}

#[test]
fn options() {
    let with = |set: &[Override]| match Study::load("two-hosts", set) {
        Ok(_) => "accepted".to_owned(),
        Err(diagnostics) => diagnostics.to_string(),
    };
    let cases = [
        "rate=1",
        "interrarval=10 ms",
        "traffic.sise=10 B",
        "size",
        "=3",
        "",
        "traffic.size=",
        "traffic.size=64",
        "traffic.size=\"64 b\"",
        "seed=-1",
        "nic=idael",
        "network.hosts=[1, 2]",
        "links.rate=856 MByte/s",
        "traffic.pattern=uniform\ntraffic.hops=3",
    ];
    let mut text = String::new();
    for case in cases {
        text.push_str(&format!(
            "---- --set {case:?}\n{}\n",
            with(&[Override::fixed(case)])
        ));
    }
    let swept = Override::swept("run.seed=1,two,3");
    text.push_str(&format!("---- swept seeds\n{}\n", with(&[swept])));
    let large: Vec<String> = (0..200).map(|seed| seed.to_string()).collect();
    let product = [
        Override::swept(format!("run.seed={}", large.join(","))),
        Override::swept(format!("traffic.size={} B", large.join(" B,"))),
    ];
    text.push_str("---- 200 x 200 points\n");
    text.push_str(with(&product).lines().next().unwrap_or(""));
    insta::assert_snapshot!(text);
}

#[test]
fn all_errors_of_a_file_are_said_at_once_in_its_order() {
    let text = GOOD
        .replacen("\"10 ms\"", "10", 1)
        .replacen("rate = \"856 Mbit/s\"", "rat = 1", 1)
        .replacen("\"4 KiB\"", "\"4 KB/s\"", 1);
    insta::assert_snapshot!(messages(&text));
}

#[test]
fn a_study_that_does_not_exist() {
    let error = Study::load("torus-1023", &[]).expect_err("there is none");
    insta::assert_snapshot!(error.to_string());
}

/// Messages of the good study with a preset of its own, and what it inherits, carried along.
fn with_presets(presets: &[(&str, &str)]) -> String {
    let own = GOOD.replace("giganet-clan", presets[0].0);
    let carried: String = presets
        .iter()
        .map(|(path, text)| format!("\"{path}\" = \"\"\"\n{}\"\"\"\n", text.replace('"', "\\\"")))
        .collect();
    messages(&format!("{own}\n[files]\n{carried}"))
}

#[test]
fn presets_that_inherit() {
    let inherits = |parent: &str| format!("name = \"mine\"\ninherits = {parent}\n");
    let number = "{ value = \"1 us\", source = \"a guess\", confidence = \"assumed\" }";
    let chain: Vec<(String, String)> = (0..10)
        .map(|at| {
            (
                format!("{at}.toml"),
                inherits(&format!("\"{}.toml\"", at + 1)),
            )
        })
        .collect();
    let chain: Vec<(&str, &str)> = chain.iter().map(|(p, t)| (&p[..], &t[..])).collect();
    let from_clan = inherits("\"giganet-clan\"");
    let cases: [(&str, &[(&str, &str)]); 14] = [
        (
            "no such name",
            &[("mine.toml", &inherits("\"gigganet-clan\""))],
        ),
        (
            "no such file",
            &[("a/mine.toml", &inherits("\"base.toml\""))],
        ),
        ("itself", &[("mine.toml", &inherits("\"mine.toml\""))]),
        (
            "a circle of two",
            &[
                ("a.toml", &inherits("\"b.toml\"")),
                ("b.toml", &inherits("\"a.toml\"")),
            ],
        ),
        (
            "a circle of three",
            &[
                ("a.toml", &inherits("\"b.toml\"")),
                ("b.toml", &inherits("\"c.toml\"")),
                ("c.toml", &inherits("\"a.toml\"")),
            ],
        ),
        ("too many", &chain),
        ("no text", &[("mine.toml", &inherits("[\"giganet-clan\"]"))]),
        ("nothing", &[("mine.toml", &inherits("\"\""))]),
        (
            "not at the top",
            &[(
                "mine.toml",
                &format!("{from_clan}[nic]\ninherits = \"ideal\"\n"),
            )],
        ),
        (
            "a value alone",
            &[("mine.toml", &format!("{from_clan}[cpu]\npost = \"1 us\"\n"))],
        ),
        (
            "no table",
            &[("mine.toml", &format!("{from_clan}cpu = \"ideal\"\n"))],
        ),
        ("no name", &[("mine.toml", "inherits = \"giganet-clan\"\n")]),
        (
            "a mistake of the parent",
            &[
                ("mine.toml", &inherits("\"base.toml\"")),
                (
                    "base.toml",
                    &format!("{from_clan}[bus]\nspeed = {number}\nburst = {number}\n"),
                ),
            ],
        ),
        (
            "numbers that nobody gives",
            &[
                (
                    "mine.toml",
                    &format!("{}[cpu]\npost = {number}\n", inherits("\"base.toml\"")),
                ),
                (
                    "base.toml",
                    &format!(
                        "name = \"base\"\n[cpu]\nreap = {number}\n\
                     polling_delay = {number}\ninterrupt = {number}\n"
                    ),
                ),
            ],
        ),
    ];
    let mut said = String::new();
    for (what, presets) in cases {
        said.push_str(&format!("---- {what}\n{}\n", with_presets(presets)));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn a_file_of_another_kind_is_told_as_one_error() {
    let links: String = (0..200).map(|n| format!("n{n} s{}\n", n % 4)).collect();
    let prose = "Words of a person, and no study.\n".repeat(200);
    let mut said = String::new();
    for text in [
        format!("hosts n*\n{links}"),
        "# a study\nrun:\n  until: 10 ms\nnetwork:\n  topology: torus\n".to_owned(),
        "<?xml version=\"1.0\"?>\n<graphml>\n</graphml>\n".to_owned(),
        "{\"nodes\": [{\"id\": 0}],\n \"links\": []}\n".to_owned(),
        "{\"run\": {\"until\": \"10 ms\"}}\n".to_owned(),
        "time_us,source,target,bytes\n0,0,1,64\n".to_owned(),
        prose,
    ] {
        said.push_str(&format!("{}\n", messages(&text)));
    }
    insta::assert_snapshot!(said);
}

#[test]
fn limits_of_queues_are_for_frames_that_fit_into_them() {
    let rate = "rate = \"856 Mbit/s\"";
    let with = |more: &str| {
        let more = more.replace(", ", "\n");
        exchanged(rate, &format!("{rate}\nframe_payload = \"1500 B\"\n{more}"))
    };
    let mut said: Vec<String> = [
        "model = \"queues\", buffer = \"64 KiB\", ecn_low = \"8 KiB\"",
        "model = \"packets\", buffer = \"1 KiB\"",
        "model = \"packets\", buffer = 65536",
        "model = \"packets\", buffer = \"unlimited\", ecn_high = \"8 KiB\"",
        "model = \"packets\", congestion_control = \"dcqcn\"",
        "model = \"packets\", congestion_control = \"nscc\"",
        "model = \"queues\", queueing = \"fair\"",
        "model = \"queues\", full = \"trim\"",
        "model = \"packets\", full = \"trim\"",
        "model = \"packets\", full = \"pause\"",
        "model = \"packets\", full = \"pause\", buffer = \"2 KiB\"",
        "model = \"packets\", full = \"pause\", buffer = \"64 KiB\", pause_headroom = \"1 KiB\"",
        "model = \"packets\", buffer = \"64 KiB\", pause_headroom = \"1 KiB\"",
        "model = \"packets\", ecn_low = \"16 KiB\", ecn_high = \"8 KiB\"",
        "model = \"packets\", buffer = \"8 KiB\", ecn_low = \"8 KiB\", ecn_probability = \"10 %\"",
        "model = \"packets\", buffer = \"64 KiB\", ecn_low = \"8 KiB\", ecn_high = \"32 KiB\"",
        "model = \"packets\", alpha = 2.0",
        "model = \"packets\", shared_buffer = \"64 KiB\", alpha = 0.0",
        "model = \"packets\", shared_buffer = \"2 KiB\", alpha = 0.5",
        "model = \"packets\", shared_buffer = \"8 KiB\", full = \"pause\"",
        "model = \"packets\", shared_buffer = \"1 MiB\", full = \"pause\"",
        "model = \"packets\", ecn_low = \"8 KiB\"",
        "model = \"packets\", ecn_low = \"8 KiB\", congestion_control = \"none\"",
        "model = \"packets\", shared_buffer = \"64 KiB\", full = \"trim\"",
    ]
    .map(|more| format!("---- {more}\n{}\n", with(more)))
    .into();
    let unframed = format!("{rate}\nmodel = \"packets\"\nqueueing = \"fair\"");
    let untrimmed = format!("{rate}\nmodel = \"packets\"\nfull = \"trim\"\nbuffer = \"64 KiB\"");
    let control = "ecn_low = \"8 KiB\"\ncongestion_control = \"nscc\"";
    let uncounted = format!("{rate}\nmodel = \"packets\"\n{control}");
    said.push(format!(
        "---- the same, and no frame_payload\n{}\n{}\n{}\n",
        exchanged(rate, &unframed),
        exchanged(rate, &untrimmed),
        exchanged(rate, &uncounted)
    ));
    insta::assert_snapshot!(said.concat());
}

#[test]
fn a_file_that_is_no_text_is_told_apart_from_a_study_that_does_not_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases: [(&str, &[u8], &str); 3] = [
        (
            "latin.toml",
            b"[run]\nuntil = \"10 ms\" # caf\xE9\n",
            "byte 0xE9 in line 2",
        ),
        ("utf-16.toml", b"\xFF\xFE[\0r\0", "it is UTF-16"),
        ("binary.toml", b"\x7FELF\0\xFF", "it is not a text"),
    ];
    for (name, bytes, wanted) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let error = Study::load(&path.display().to_string(), &[]).expect_err("no text");
        let told = error.to_string();
        assert!(told.contains("cannot read the study"), "{told}");
        assert!(told.contains(wanted), "{told}");
        assert!(!told.contains("built in are"), "{told}");
    }
    // A directory that a run left says how it is run again.
    std::fs::write(folder.path().join("summary.json"), "{}").expect("written");
    let error = Study::load(&folder.path().display().to_string(), &[]).expect_err("a directory");
    assert!(error.to_string().contains("viaduct rerun"), "{error}");
}
