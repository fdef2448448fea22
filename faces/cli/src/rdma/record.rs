//! What was run on simulated hosts, as their run directory keeps it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use viaduct_report::PROGRAMS_FILE;

use crate::failure::Failure;
use crate::inspection::Subject;
use crate::showing::quoted;
use crate::simulated::Simulated;

/// Commands, and the simulated hosts that they run on.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// As `viaduct rdma --on` takes it.
    pub(super) on: String,
    /// Clients, where one command starts them.
    pub(super) ranks: Option<u32>,
    /// Of random draws.
    pub(super) seed: u64,
    /// Whether the study's traffic is around the programs.
    pub(super) has_traffic: bool,
    /// What a nanosecond of the programs' computing takes, where it was measured and not free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) computing_scale: Option<f64>,
    /// The words of each.
    commands: Vec<Vec<String>>,
}

impl Order {
    /// Of commands as they were typed.
    pub(super) fn new(
        hosts: &Simulated,
        ranks: Option<u32>,
        has_traffic: bool,
        commands: &[Vec<OsString>],
    ) -> Self {
        let word = |word: &OsString| word.to_string_lossy().into_owned();
        let commands = commands.iter();
        Self {
            on: hosts.name().to_owned(),
            ranks,
            seed: hosts.config().seed,
            has_traffic,
            computing_scale: None,
            commands: commands
                .map(|words| words.iter().map(word).collect())
                .collect(),
        }
    }

    /// That of a run directory, if it is one of programs.
    ///
    /// # Errors
    ///
    /// When its file cannot be read, or is none.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, Failure> {
        let path = directory.join(PROGRAMS_FILE);
        let Ok(text) = fs::read_to_string(&path) else {
            // Whoever reads scenarios says what is missing.
            return Ok(None);
        };
        let wrong = |problem: String| {
            let title = format!("`{}`: {problem}", path.display());
            Failure::new(
                title,
                "give a directory that `viaduct rdma --on ... --out` left",
            )
        };
        let order: Self = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match order.commands.is_empty() || order.commands.iter().any(Vec::is_empty) {
            true => Err(wrong("a command without a word".to_owned())),
            false => Ok(Some(order)),
        }
    }

    /// As its file has it.
    pub(super) fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The words of each command.
    pub(super) fn commands(&self) -> Vec<Vec<OsString>> {
        let commands = self.commands.iter();
        commands
            .map(|words| words.iter().map(OsString::from).collect())
            .collect()
    }

    /// Its hosts, which have as many commands or ranks, and two at least.
    ///
    /// # Errors
    ///
    /// When programs cannot run there.
    pub(crate) fn hosts(&self) -> Result<Simulated, Failure> {
        let mut hosts = hosts(&self.on, self.ranks, self.commands.len() as u32)?;
        if !self.has_traffic {
            hosts.silence()?;
        }
        hosts.check()?;
        hosts.draw_from(self.seed);
        Ok(hosts)
    }

    /// What results are called by: the programs, each once, and the hosts.
    pub(crate) fn name(&self) -> String {
        let mut programs: Vec<&str> = Vec::new();
        for words in &self.commands {
            let name = Path::new(&words[0]).file_name();
            let name = name.and_then(OsStr::to_str).unwrap_or(&words[0]);
            if !programs.contains(&name) {
                programs.push(name);
            }
        }
        format!("{} on {}", programs.join(", "), self.on)
    }

    /// What was run, as it is typed.
    pub(crate) fn typed(&self) -> String {
        let commands = self.commands.iter();
        let commands = commands.map(|words| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            words.join(" ")
        });
        commands.collect::<Vec<String>>().join(" : ")
    }

    /// The command that runs it.
    pub(super) fn command(&self) -> String {
        let mut command = format!(
            "viaduct rdma --on {} --seed {}",
            quoted(&self.on),
            self.seed
        );
        if let Some(ranks) = self.ranks {
            command += &format!(" --hosts {ranks}");
        }
        if !self.has_traffic {
            command += " --no-traffic";
        }
        if let Some(scale) = self.computing_scale {
            command += &format!(" --compute measured:{scale}");
        }
        format!("{command} -- {}", self.typed())
    }
}

/// What pages say of such a run.
pub(crate) const fn subject<'a>(name: &'a str, typed: &'a str) -> Subject<'a> {
    Subject {
        name,
        title: name,
        question: "Every message that the programs sent, from their first to their last.",
        settings: typed,
    }
}

/// The simulated hosts of a name: one for each command, or as many as ranks.
///
/// # Errors
///
/// When programs cannot run there.
pub(super) fn hosts(name: &str, ranks: Option<u32>, commands: u32) -> Result<Simulated, Failure> {
    if ranks.is_some() && commands > 1 {
        return Err(Failure::new(
            "`--hosts` is for one command that starts the others, and there are several",
            "leave it out: each command has a host of its own",
        ));
    }
    let hosts = ranks.unwrap_or(commands).max(2);
    Simulated::named(name, hosts - 1).ok_or_else(|| {
        Failure::new(
            format!("programs cannot run on `{name}`"),
            "it is for simulated hosts: --on sim:rnic-gen5, or sim:giganet-clan for programs of \
             libvipl; without `--on` programs run between processes of this machine",
        )
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let hosts = hosts("sim:rnic-gen5", None, 2).unwrap();
        let commands = [words("/usr/bin/rping -s"), words("rping -c it's")];
        Order::new(&hosts, None, true, &commands)
    }

    #[test]
    fn what_was_run_is_read_again_and_typed_again() {
        let order = order();
        let read: Order = serde_json::from_str(&order.text()).unwrap();
        assert_eq!(read, order);
        assert_eq!(read.name(), "rping on sim:rnic-gen5");
        assert_eq!(
            read.command(),
            r"viaduct rdma --on sim:rnic-gen5 --seed 1 -- /usr/bin/rping -s : rping -c 'it'\''s'"
        );
        assert_eq!(read.hosts().unwrap().config().seed, 1);
        let measured = Order {
            computing_scale: Some(2.5),
            ..read
        };
        assert_eq!(
            serde_json::from_str::<Order>(&measured.text()).unwrap(),
            measured
        );
        assert!(measured.command().contains("--compute measured:2.5 --"));
    }

    #[test]
    fn a_file_that_names_no_command_is_refused() {
        let folder = std::env::temp_dir().join(format!("viaduct-order-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(Order::read(&folder).unwrap().is_none());
        let mut order = order();
        order.commands.push(Vec::new());
        for text in ["{}", &order.text(), "[]"] {
            fs::write(folder.join(PROGRAMS_FILE), text).unwrap();
            assert!(Order::read(&folder).is_err(), "{text}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
