//! A browser that is told what to do over the DevTools protocol, by a pipe: no port, no library.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// An answer that takes longer does not come.
const PATIENCE: Duration = Duration::from_secs(120);

const OPTIONS: [&str; 12] = [
    "--headless=new",
    // Without a sandbox of its own: as root it has none, and the pages are ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--remote-debugging-pipe",
];

/// A browser with one tab.
pub(crate) struct Chromium {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    /// Events that came while an answer was waited for.
    events: VecDeque<Value>,
    session: Option<String>,
    last_id: u64,
    /// Goes with the browser.
    _profile: TempDir,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

impl Look {
    pub(crate) fn scheme(self) -> &'static str {
        match self.is_dark {
            true => "dark",
            false => "light",
        }
    }
}

/// What a browser makes of a page.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What was said on the console, and errors of scripts.
    pub(crate) console: Vec<String>,
    /// What was asked for besides the page itself.
    pub(crate) requests: Vec<String>,
}

impl Chromium {
    /// The browser of this machine, if it has one.
    pub(crate) fn find() -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let mut places = NAMES
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        places.find(|place| place.is_file())
    }

    pub(crate) fn start(program: &Path) -> Self {
        let profile = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // The browser reads from its descriptor 3 and writes to 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#, "sh"])
            .arg(program)
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let answers = messages(child.stdout.take().unwrap());
        let mut browser = Self {
            commands: child.stdin.take().unwrap(),
            child,
            answers,
            events: VecDeque::new(),
            session: None,
            last_id: 0,
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file and waits until it is drawn.
    pub(crate) fn open(&mut self, page: &Path, look: Look) -> Opened {
        let metrics = json!({
            "width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": false
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": look.scheme()}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
        self.call("Log.clear", json!({}));
        self.events.clear();
        let url = format!("file://{}", page.display());
        let navigated = self.call("Page.navigate", json!({"url": url}));
        assert!(navigated["errorText"].is_null(), "{url}: {navigated}");
        let mut seen = Vec::new();
        while seen
            .last()
            .is_none_or(|event: &Value| event["method"] != "Page.loadEventFired")
        {
            let event = self.event();
            seen.push(event);
        }
        // Two frames: whatever is drawn by a script has been drawn.
        let frames =
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))";
        self.evaluate(frames);
        seen.extend(self.events.drain(..));
        let mut opened = Opened {
            console: Vec::new(),
            requests: Vec::new(),
        };
        for event in seen {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.consoleAPICalled" => opened.console.push(parameters["args"].to_string()),
                "Runtime.exceptionThrown" => {
                    opened
                        .console
                        .push(parameters["exceptionDetails"].to_string());
                }
                "Log.entryAdded" => opened.console.push(parameters["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let asked = parameters["request"]["url"].as_str().unwrap_or_default();
                    // What the page holds itself is no request.
                    if asked != url && !asked.starts_with("data:") {
                        opened.requests.push(asked.to_owned());
                    }
                }
                _ => {}
            }
        }
        opened
    }

    /// The value of an expression on the page; of a promise, what it comes to.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true
        });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// A picture of the whole page, as base64 of a PNG.
    pub(crate) fn picture(&mut self) -> String {
        let metrics = self.call("Page.getLayoutMetrics", json!({}));
        let size = &metrics["cssContentSize"];
        let clip = json!({
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1
        });
        let parameters = json!({"captureBeyondViewport": true, "clip": clip});
        let answer = self.call("Page.captureScreenshot", parameters);
        answer["data"].as_str().unwrap().to_owned()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let mut message = self.next(method);
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push_back(message);
        }
    }

    fn event(&mut self) -> Value {
        match self.events.pop_front() {
            Some(event) => event,
            None => self.next("an event"),
        }
    }

    fn next(&mut self, wanted: &str) -> Value {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(error) => panic!("the browser says nothing for {wanted}: {error}"),
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each message ends with a byte of zero.
fn messages(stream: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while stream.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
            let message = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
            let Ok(message) = serde_json::from_slice(message) else {
                return;
            };
            if sender.send(message).is_err() {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}
