//! The pages that the command writes, opened in a browser: nothing on the console, no request.
//!
//! Needs Chromium; without it the test says on the terminal what to install and ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A page that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Words of a user's that must stay words, on the page and in its pictures.
const HOSTILE: &str = "<script>console.error('ran')</script><img src=http://viaduct.test/i> &\"'";

fn small(title: &str) -> String {
    format!(
        r#"
[study]
title = '''{title}'''

[run]
until = "10 ms"
warmup = "1 ms"

[network]
topology = "torus"
dimensions = [4, 4]
hosts_per_switch = 2

[links]
rate = "856 Mbit/s"

[traffic]
pattern = "uniform"
rate = "2000/s"
size = "1 KiB"
"#
    )
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn viaduct(&self, arguments: &[&str]) {
        let output = Command::new(env!("CARGO_BIN_EXE_viaduct"))
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    }
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let places = BROWSERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

/// Takes every request of a browser, and answers none.
struct Proxy {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else {
                    continue;
                };
                let mut line = String::new();
                let _ = connection.set_read_timeout(Some(Duration::from_secs(5)));
                let _ = BufReader::new(&connection).read_line(&mut line);
                kept.lock().unwrap().push(line.trim().to_owned());
                let _ =
                    connection.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
        });
        Self { address, requests }
    }

    /// What was asked for since the last time of hosts that `page` names. A browser asks others for
    /// news of itself; a page without scripts can ask nobody whom it does not name.
    fn taken(&self, page: &str) -> Vec<String> {
        let mut requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.retain(|line| {
            let address = line.split(' ').nth(1).unwrap_or_default();
            let host = address.split_once("://").map_or(address, |(_, rest)| rest);
            let host = host.split([':', '/']).next().unwrap_or_default();
            page.contains(host)
        });
        requests
    }
}

/// What a browser makes of a page.
struct Opened {
    document: String,
    console: Vec<String>,
    requests: Vec<String>,
}

fn open(browser: &Path, page: &Path, (width, scheme): (u32, u8), proxy: &Proxy) -> Opened {
    let profile = page.with_extension("profile");
    let _ = fs::remove_dir_all(&profile);
    let picture = page.with_extension(format!("{width}-{scheme}.png"));
    let _ = fs::remove_file(&picture);
    let mut child = Command::new(browser)
        // Without a sandbox of its own: as root it has none, and the page is ours.
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .args([
            "--disable-sync",
            "--disable-default-apps",
            "--disable-extensions",
        ])
        .args([
            "--disable-domain-reliability",
            "--disable-client-side-phishing-detection",
        ])
        .args([
            "--disable-features=OptimizationHints,MediaRouter,Translate,NetworkTimeServiceQuerying",
        ])
        .args([
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--log-level=0",
        ])
        .arg(format!("--proxy-server={}", proxy.address))
        // Loopback too goes to the proxy.
        .arg("--proxy-bypass-list=<-loopback>")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},2000"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let document = reading(child.stdout.take().unwrap());
    let said = reading(child.stderr.take().unwrap());
    wait(&mut child, page);
    let (document, said) = (document.join().unwrap(), said.join().unwrap());
    let _ = fs::remove_dir_all(&profile);
    let png = fs::read(&picture).unwrap_or_default();
    assert!(
        png.starts_with(b"\x89PNG"),
        "{}: no picture\n{said}",
        page.display()
    );
    Opened {
        document,
        console: said
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .map(str::to_owned)
            .collect(),
        requests: proxy.taken(&fs::read_to_string(page).unwrap()),
    }
}

fn reading(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, page: &Path) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{} did not open within {PATIENCE:?}", page.display());
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn every_page_opens_with_a_silent_console_and_without_a_request() {
    let Some(browser) = browser() else {
        // Not by `eprintln`, which a test that passes keeps to itself.
        let text = "no page was opened: install Chromium (Debian, Ubuntu: apt install chromium)";
        let _ = writeln!(std::io::stderr(), "{text}");
        return;
    };
    let folder = Folder::new();
    let proxy = Proxy::start();

    // What the test looks for it must be able to see.
    let control = folder.0.join("control.html");
    let text = "<p>x<script>console.error('told')</script><img src='http://viaduct.test/i'>";
    fs::write(&control, text).unwrap();
    let opened = open(&browser, &control, (500, 1), &proxy);
    let told = opened.console.iter().any(|line| line.contains("told"));
    assert!(told, "{:?}", opened.console);
    let asked = opened
        .requests
        .iter()
        .any(|line| line.contains("viaduct.test"));
    assert!(asked, "{:?}", opened.requests);

    fs::write(folder.0.join("hostile.toml"), small(HOSTILE)).unwrap();
    fs::write(folder.0.join("<i>&.toml"), small("plain")).unwrap();
    let set = "run.until=20 ms";
    folder.viaduct(&["run", "hostile.toml", "--out", "one"]);
    folder.viaduct(&["run", "<i>&.toml", "--out", "<b>two&", "--seeds", "3"]);
    folder.viaduct(&[
        "run",
        "four-hop",
        "--out",
        "sweep",
        "--set",
        "run.until=50 ms",
    ]);
    folder.viaduct(&["run", "prepost-drops", "--out", "drops", "--set", set]);
    folder.viaduct(&["report", "one", "<b>two&", "drops", "-o", "compared.html"]);
    folder.viaduct(&["report", "one", "-o", "again.html"]);

    let pages = [
        "one/report.html",
        "<b>two&/report.html",
        "sweep/report.html",
        "drops/report.html",
        "compared.html",
        "again.html",
    ];
    for (index, page) in pages.into_iter().enumerate() {
        // A name that needs no escaping in an address.
        let copy = folder.0.join(format!("page-{index}.html"));
        fs::copy(folder.0.join(page), &copy).unwrap();
        for look in [(1280, 1), (500, 0)] {
            let opened = open(&browser, &copy, look, &proxy);
            assert_eq!(opened.console, Vec::<String>::new(), "{page} {look:?}");
            assert_eq!(opened.requests, Vec::<String>::new(), "{page} {look:?}");
            let document = &opened.document;
            assert!(
                document.contains("</main>") && document.contains("<svg"),
                "{page}"
            );
            for element in ["<script", "<img", "<i>", "<b>"] {
                assert!(!document.contains(element), "{page}: {element}");
            }
        }
    }
}
