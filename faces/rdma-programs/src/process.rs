//! A program under way: its output, whether it listens, its end.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often something is looked at that nobody tells of.
const PAUSE: Duration = Duration::from_millis(5);

/// A program in a group of processes of its own.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    output: PathBuf,
    has_ended: bool,
}

impl Process {
    /// Starts a program, whose standard output and standard error go to one file.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn start(mut command: Command, output: &Path) -> io::Result<Self> {
        let file = File::create(output)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        command.process_group(0);
        Ok(Self {
            child: command.spawn()?,
            output: output.to_owned(),
            has_ended: false,
        })
    }

    /// What it has printed.
    #[must_use]
    pub(crate) fn printed(&self) -> String {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(&self.output) {
            let _ = file.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until it ends; `None` when the time is over.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn wait(&mut self, deadline: Instant) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.has_ended = true;
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until its group listens as is asked; false when it has ended, or the time is over.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn wait_for(
        &mut self,
        listens: impl Fn(&Self) -> bool,
        deadline: Instant,
    ) -> io::Result<bool> {
        loop {
            if listens(self) {
                return Ok(true);
            }
            if self.child.try_wait()?.is_some() || Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The folders of its group's processes.
    fn members(&self) -> Vec<PathBuf> {
        let group = self.child.id().to_string();
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let members = processes.map(|process| process.path()).filter(|path| {
            // Behind the name in brackets: state, parent, group.
            std::fs::read_to_string(path.join("stat")).is_ok_and(|stat| {
                let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
                fields.split_whitespace().nth(2) == Some(&group)
            })
        });
        members.collect()
    }

    /// The numbers of all sockets that its group has open.
    fn sockets(&self) -> HashSet<u64> {
        let mut sockets = HashSet::new();
        for member in self.members() {
            for open in entries(&member.join("fd")) {
                let Ok(target) = std::fs::read_link(open) else {
                    continue;
                };
                let number: Option<u64> = target.to_str().and_then(|target| {
                    target
                        .strip_prefix("socket:[")?
                        .strip_suffix(']')?
                        .parse()
                        .ok()
                });
                sockets.extend(number);
            }
        }
        sockets
    }

    /// Whether it listens for TCP on a port.
    pub(crate) fn listens_on_tcp(&self, port: u16) -> bool {
        let at = format!(":{port:04X}");
        let sockets = self.sockets();
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
            let table = std::fs::read_to_string(table).unwrap_or_default();
            table.lines().skip(1).any(|line| {
                let fields: Vec<_> = line.split_whitespace().collect();
                fields.len() > 9
                    && fields[1].ends_with(&at)
                    // The state of those who listen.
                    && fields[3] == "0A"
                    && fields[9].parse().is_ok_and(|number| sockets.contains(&number))
            })
        })
    }

    /// Whether it has a port of librdmacm, and waits for an event. A port is there as soon as it is
    /// bound, and nothing to be seen from outside changes when it listens.
    pub(crate) fn listens_on_rdma(&self) -> bool {
        let sockets = self.sockets();
        let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let has_port = table.lines().skip(1).any(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            fields.len() > 7
                && fields[7].starts_with("@viaduct-1c")
                && fields[6]
                    .parse()
                    .is_ok_and(|number| sockets.contains(&number))
        });
        has_port && self.waits_for_event()
    }

    fn waits_for_event(&self) -> bool {
        let threads = self
            .members()
            .into_iter()
            .flat_map(|member| entries(&member.join("task")));
        threads.into_iter().any(|thread| {
            // Those of our libraries wait for something else.
            let name = std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
            if name.starts_with("viaduct") {
                return false;
            }
            // The number of `read`, then its arguments: a descriptor first.
            let call = std::fs::read_to_string(thread.join("syscall")).unwrap_or_default();
            let descriptor = call.strip_prefix("0 0x").and_then(|arguments| {
                let (descriptor, _) = arguments.split_once(' ')?;
                u64::from_str_radix(descriptor, 16).ok()
            });
            descriptor.is_some_and(|descriptor| {
                let target = std::fs::read_link(thread.join(format!("fd/{descriptor}")));
                target.is_ok_and(|target| target.as_os_str() == "anon_inode:[eventfd]")
            })
        })
    }

    /// Ends all of its group.
    pub(crate) fn kill(&mut self) {
        let group = -i32::try_from(self.child.id()).unwrap_or(0);
        if group == 0 {
            return;
        }
        // A starter of others ends them when it is asked to.
        let signals = if self.has_ended {
            &[libc::SIGKILL][..]
        } else {
            &[libc::SIGTERM, libc::SIGKILL][..]
        };
        for signal in signals {
            // SAFETY: signals to a group that this process has made.
            unsafe { libc::kill(group, *signal) };
            let patience = Instant::now() + Duration::from_secs(1);
            if matches!(self.wait(patience), Ok(Some(_))) && !self.has_ended {
                break;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}
