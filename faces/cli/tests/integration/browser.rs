//! The pages that the command writes, opened in a browser: wide and narrow, light and dark, nothing
//! on the console, no request, nothing wider than the screen, no words cut off or on top of others.
//!
//! Needs Chromium; without it the test says on the terminal what to install and ends. With
//! `BROWSER_PICTURES=FOLDER` it leaves a picture of each page there, to be looked at.

use std::fmt::Debug;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::critical_path::SLOW;
use crate::support::chromium::{Chromium, Look};
use crate::support::{Folder, SMALL};

/// Words of a user's that must stay words, on the page and in its pictures.
const HOSTILE: &str = "<script>console.error('ran')</script><img src=http://viaduct.test/i> &\"'";

/// Many send to one through a tree.
const INCAST: &str = r#"
[run]
until = "5 ms"
[network]
topology = "fat-tree"
arity = 4
levels = 3
[links]
rate = "856 Mbit/s"
[traffic]
pattern = "incast"
rate = "100/s"
size = "4 KiB"
"#;

/// What is wrong with a page for its reader, in words.
const COMPLAINTS: &str = r#"(() => {
    const found = [];
    for (const details of document.querySelectorAll("details")) details.open = true;
    const page = document.documentElement;
    if (page.scrollWidth > page.clientWidth)
        found.push(`the page is ${page.scrollWidth} wide, the screen ${page.clientWidth}`);
    if (document.body && document.body.innerText.includes("<wbr")) found.push("a tag is shown");
    for (const cell of document.querySelectorAll("td, th"))
        if (cell.scrollWidth > cell.clientWidth + 1) found.push(`too long: ${cell.textContent}`);
    for (const svg of document.querySelectorAll("svg")) {
        const box = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")].map(text =>
            [text.textContent, text.getBoundingClientRect()]);
        texts.forEach(([words, at], index) => {
            if (at.left < box.left - 1 || at.right > box.right + 1 ||
                at.top < box.top - 1 || at.bottom > box.bottom + 1) found.push(`cut off: ${words}`);
            for (const [others, beside] of texts.slice(index + 1)) {
                const over = Math.min(at.right, beside.right) - Math.max(at.left, beside.left);
                const along = Math.min(at.bottom, beside.bottom) - Math.max(at.top, beside.top);
                if (over > 1 && along > 3) found.push(`"${words}" lies on "${others}"`);
            }
        });
    }
    return found;
})()"#;

/// The share of a page's canvas on which something is drawn.
const DRAWN: &str = r#"(() => {
    const canvas = document.querySelector("canvas");
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let drawn = 0;
    for (let at = 3; at < pixels.length; at += 4) drawn += pixels[at] > 0;
    return drawn * 4 / pixels.length;
})()"#;

/// The small study of [`support`] with words of its own.
fn titled(title: &str) -> String {
    format!("[study]\ntitle = '''{title}'''\n{SMALL}")
}

fn looks() -> impl Iterator<Item = Look> {
    let both = |width| [false, true].map(|is_dark| Look { width, is_dark });
    [1280, 400].into_iter().flat_map(both)
}

/// Leaves a picture where a person asked for one.
fn keep_picture(browser: &mut Chromium, name: &str, look: Look) {
    let Some(folder) = std::env::var_os("BROWSER_PICTURES").map(PathBuf::from) else {
        return;
    };
    let file = folder.join(format!("{name}-{}-{}.png", look.width, look.scheme()));
    let mut decoder = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(fs::File::create(file).unwrap())
        .spawn()
        .unwrap();
    let picture = browser.picture();
    decoder
        .stdin
        .take()
        .unwrap()
        .write_all(picture.as_bytes())
        .unwrap();
    assert!(decoder.wait().unwrap().success());
}

#[test]
fn every_page_is_silent_and_legible_wide_and_narrow_light_and_dark() {
    let Some(program) = Chromium::find() else {
        // Not by `eprintln`, which a test that passes keeps to itself.
        let text = "no page was opened: install Chromium (Debian, Ubuntu: apt install chromium)";
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    };
    let folder = Folder::new();
    let mut browser = Chromium::start(&program);

    // What the test looks for it must be able to see.
    let control = folder.join("control.html");
    let text = "<p style='width:2000px'>x<script>console.error('told')</script>\
                <img src='http://viaduct.test/i'><table><td style='max-width:9px'>longword</table>\
                <svg width=50><text y=20>words that are cut off</text><text y=20>over</text></svg>";
    fs::write(&control, text).unwrap();
    let look = Look {
        width: 400,
        is_dark: false,
    };
    let opened = browser.open(&control, look);
    assert!(
        opened.console.iter().any(|line| line.contains("told")),
        "{opened:?}"
    );
    let asked = opened
        .requests
        .iter()
        .any(|url| url.contains("viaduct.test"));
    assert!(asked, "{opened:?}");
    let complaints = browser.evaluate(COMPLAINTS).to_string();
    for complaint in [
        "the screen 400",
        "too long: longword",
        "cut off: words",
        "lies on",
    ] {
        assert!(complaints.contains(complaint), "{complaint}: {complaints}");
    }

    fs::write(folder.join("hostile.toml"), titled(HOSTILE)).unwrap();
    fs::write(folder.join("<i>&.toml"), titled("plain")).unwrap();
    let hosts = "sim:clan-pio,sim:clan-dma";
    let measured = folder.succeed(&["measure", "bandwidth", "--on", hosts, "--json"]);
    fs::write(folder.join("measured.json"), measured).unwrap();
    fs::write(folder.join("incast.toml"), INCAST).unwrap();
    // So many hosts that the table of ranks is long.
    let slow = SLOW.replace("hosts = 8", "hosts = 40");
    fs::write(folder.join("slow.toml"), slow).unwrap();
    for arguments in [
        &["run", "hostile.toml", "--out", "one"][..],
        &["run", "incast.toml", "--out", "incast"],
        &["report", "measured.json", "-o", "measured.html"],
        &["show", "incast.toml", "-o", "tree.svg"],
        &["run", "<i>&.toml", "--out", "<b>two&", "--seeds", "3"],
        &[
            "run",
            "four-hop",
            "--out",
            "four",
            "--set",
            "run.until=50 ms",
        ],
        &[
            "run",
            "prepost-drops",
            "--out",
            "drops",
            "--set",
            "run.until=20 ms",
        ],
        &[
            "run",
            "torus-1024",
            "--out",
            "torus",
            "--set",
            "run.until=40 ms",
            "--set",
            "run.warmup=10 ms",
        ],
        &[
            "run",
            "bus-contention",
            "--out",
            "bus",
            "--set",
            "run.until=100 ms",
        ],
        &[
            "sweep",
            "hostile.toml",
            "--set=traffic.size=64 B,1 KiB,16 KiB",
            "--set=hosts.nic=giganet-clan,ideal",
            "--seeds=2",
            "--out=swept",
        ],
        &["report", "one", "<b>two&", "drops", "-o", "compared.html"],
        &["report", "one", "-o", "again.html"],
        &["run", "slow.toml", "--out", "slow"],
        &["report", "slow", "-o", "slow-again.html"],
        &[
            "why",
            "slow.toml",
            "--critical-path",
            "--report",
            "path.html",
        ],
        &["show", "four-hop", "-o", "four-hop.svg"],
        &["show", "torus-1024", "-o", "torus.svg"],
        &["show", "torus-1024", "-o", "network.html"],
        &[
            "show",
            "torus-million",
            "--set",
            "network.dimensions=[150, 150]",
            "-o",
            "large.html",
        ],
    ] {
        folder.ended(0, arguments);
    }

    let mut wrong: Vec<String> = Vec::new();
    for (name, page) in [
        ("hostile", "one/report.html"),
        ("seeds", "<b>two&/report.html"),
        ("sweep", "four/report.html"),
        ("drops", "drops/report.html"),
        ("torus", "torus/report.html"),
        ("incast", "incast/report.html"),
        ("ranks", "slow/report.html"),
        ("ranks-again", "slow-again.html"),
        ("critical-path", "path.html"),
        ("measured", "measured.html"),
        ("tree-picture", "tree.svg"),
        ("bus", "bus/report.html"),
        ("compared", "compared.html"),
        ("swept", "swept/report.html"),
        ("again", "again.html"),
        ("chain-picture", "four-hop.svg"),
        ("torus-picture", "torus.svg"),
        ("network", "network.html"),
        ("large-network", "large.html"),
    ] {
        // A name that needs no escaping in an address.
        let (_, ending) = page.rsplit_once('.').unwrap();
        let copy = folder.join(&format!("page.{ending}"));
        fs::copy(folder.join(page), &copy).unwrap();
        for look in looks() {
            let mut found = |what: &dyn Debug| {
                let width = look.width;
                let scheme = look.scheme();
                wrong.push(format!("{page}, {width} wide, {scheme}: {what:?}"));
            };
            let opened = browser.open(&copy, look);
            if !opened.console.is_empty() || !opened.requests.is_empty() {
                found(&opened);
            }
            let complaints = browser.evaluate(COMPLAINTS);
            if complaints != json!([]) {
                found(&complaints);
            }
            keep_picture(&mut browser, name, look);
            if name.ends_with("network") {
                let drawn = browser.evaluate(DRAWN).as_f64().unwrap();
                if drawn < 0.03 {
                    found(&drawn);
                }
            }
        }
        if page.ends_with("report.html") || name == "compared" {
            let document = browser.evaluate("document.documentElement.outerHTML");
            let document = document.as_str().unwrap();
            assert!(
                document.contains("</main>") && document.contains("<svg"),
                "{page}"
            );
            for element in ["<script", "<img", "<i>", "<b>"] {
                assert!(!document.contains(element), "{page}: {element}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
