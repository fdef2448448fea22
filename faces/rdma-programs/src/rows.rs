//! The table: which programs must run, and what they must print.

use serde::Deserialize;

/// The file of `rows.toml`, which says what its keys mean.
const TABLE: &str = include_str!("../rows.toml");

/// Of the options of a row, so many and the last are run when there is little time.
const SHORT: usize = 2;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "what the docs show is compared with it")
    )]
    package: Vec<Package>,
    #[serde(default)]
    fault: Vec<Fault>,
    row: Vec<Written>,
}

/// Whose programs are run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what the docs show is compared with it")
)]
struct Package {
    name: String,
    version: String,
    programs: Vec<String>,
}

/// Rows that do not pass yet, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    rows: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    alone: Option<String>,
    command: Option<String>,
    at: Option<String>,
    server: Option<String>,
    client: Option<String>,
    #[serde(default)]
    each: Vec<String>,
    listens: Option<Listens>,
    #[serde(default)]
    environment: Vec<String>,
    #[serde(default)]
    prints: Vec<String>,
    #[serde(default)]
    server_prints: Vec<String>,
    #[serde(default)]
    client_prints: Vec<String>,
    #[serde(default)]
    exit: Vec<i32>,
    #[serde(default = "usual_seconds")]
    seconds: u64,
    #[serde(default = "usually")]
    moves: bool,
    #[serde(default)]
    serves_for_ever: bool,
}

const fn usual_seconds() -> u64 {
    30
}

const fn usually() -> bool {
    true
}

/// What a server is waited for.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Listens {
    /// The row's port.
    Tcp,
    /// A port of librdmacm.
    Rdma,
    /// Either, as the options of perftest say.
    Perftest,
}

/// One process of a row.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The program and its arguments, with places to fill in.
    pub(crate) command: Vec<String>,
    /// What it prints, in this order.
    pub(crate) prints: Vec<String>,
    /// With which it ends.
    pub(crate) exit: i32,
    /// Whether bytes must have crossed by its doing.
    pub(crate) moves: bool,
}

/// One row, with the options that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The row's name and its options.
    pub(crate) name: String,
    /// The server of two, or the only process.
    pub(crate) first: Side,
    /// The client.
    pub(crate) second: Option<Side>,
    /// What the server is waited for.
    pub(crate) listens: Option<Listens>,
    /// `NAME=VALUE`, for both.
    pub(crate) environment: Vec<(String, String)>,
    /// Why it does not pass yet, or not each time.
    pub(crate) fault: Option<String>,
    /// Whether it is among those that are run when there is little time.
    pub(crate) is_short: bool,
    /// A limit for all of it.
    pub(crate) seconds: u64,
    /// Whether the server is ended when the client has.
    pub(crate) serves_for_ever: bool,
}

/// All rows.
///
/// # Errors
///
/// What is wrong with the table, and with which row.
pub(crate) fn all() -> Result<Vec<Row>, String> {
    let file: File = toml::from_str(TABLE).map_err(|error| format!("rows.toml: {error}"))?;
    let mut rows = Vec::new();
    for written in &file.row {
        let options = if written.each.is_empty() {
            vec![None]
        } else {
            written.each.iter().map(Some).collect()
        };
        let last = options.len() - 1;
        for (index, option) in options.into_iter().enumerate() {
            let row = written.row(option.map(String::as_str));
            let mut row = row.map_err(|error| format!("rows.toml: {}: {error}", written.name))?;
            row.is_short = index < SHORT || index == last;
            rows.push(row);
        }
    }
    for fault in file.fault {
        for name in fault.rows {
            let row = rows.iter_mut().find(|row| row.name == name);
            let row =
                row.ok_or_else(|| format!("rows.toml: a fault of `{name}`, which is no row"))?;
            row.fault = Some(fault.reason.clone());
        }
    }
    Ok(rows)
}

impl Written {
    fn row(&self, option: Option<&str>) -> Result<Row, String> {
        let filled = |command: &str| -> Result<Vec<String>, String> {
            let command = match option {
                Some(option) if self.each_has_a_place() => command.replace("{}", option),
                Some(_) => return Err("`each` needs `{}` in a command".into()),
                None => command.to_owned(),
            };
            Ok(command.split_whitespace().map(str::to_owned).collect())
        };
        let (first, second) = match (&self.alone, &self.command, &self.server, &self.client) {
            (Some(alone), None, None, None) => (filled(alone)?, None),
            (None, Some(command), None, None) => {
                let at = self.at.as_ref().ok_or("`command` needs `at`")?;
                let mut client = filled(command)?;
                client.push(at.clone());
                (filled(command)?, Some(client))
            }
            (None, None, Some(server), Some(client)) => (filled(server)?, Some(filled(client)?)),
            _ => return Err("give `alone`, `command`, or `server` and `client`".into()),
        };
        if second.is_some() && self.listens.is_none() {
            return Err("a server needs `listens`".into());
        }
        let side = |command, prints: &[String], index| Side {
            command,
            prints: self.prints.iter().chain(prints).cloned().collect(),
            exit: self.exit.get(index).copied().unwrap_or(0),
            moves: self.moves,
        };
        let environment = self.environment.iter().map(|pair| {
            let (name, value) = pair.split_once('=').ok_or("environment is NAME=VALUE")?;
            Ok((name.to_owned(), value.to_owned()))
        });
        Ok(Row {
            name: format!("{} {}", self.name, option.unwrap_or_default())
                .trim()
                .to_owned(),
            first: side(first, &self.server_prints, 0),
            second: second.map(|command| side(command, &self.client_prints, 1)),
            listens: self.listens,
            environment: environment.collect::<Result<_, String>>()?,
            fault: None,
            is_short: true,
            seconds: self.seconds,
            serves_for_ever: self.serves_for_ever,
        })
    }

    fn each_has_a_place(&self) -> bool {
        [&self.alone, &self.command, &self.server, &self.client]
            .into_iter()
            .flatten()
            .any(|command| command.contains("{}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_rows_with_names_of_their_own() {
        let rows = all().unwrap();
        let mut names: Vec<_> = rows.iter().map(|row| &row.name).collect();
        names.sort();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        assert!(rows.len() > 100, "{}", rows.len());
    }

    #[test]
    fn every_place_in_the_table_is_filled() {
        for row in all().unwrap() {
            for side in [Some(&row.first), row.second.as_ref()]
                .into_iter()
                .flatten()
            {
                for word in &side.command {
                    let known = word.replace("{port}", "").replace("{programs}", "");
                    assert!(!known.contains('{'), "{}: {word}", row.name);
                }
            }
        }
    }

    /// The program that a row is about: of Python the script.
    fn program(row: &Row) -> &str {
        let names = row.first.command.iter();
        let mut names = names.map(|word| word.rsplit('/').next().unwrap_or_default());
        names.find(|name| *name != "python3").unwrap_or_default()
    }

    /// The guide's table of the programs that were tried.
    fn shown(packages: &[Package], rows: &[Row]) -> Vec<String> {
        let mut lines = Vec::new();
        for package in packages {
            let is_ours = |row: &&Row| package.programs.iter().any(|name| name == program(row));
            let ours: Vec<_> = rows.iter().filter(is_ours).collect();
            let faults = ours.iter().filter(|row| row.fault.is_some()).count();
            let Package { name, version, .. } = package;
            let programs = package.programs.join("`, `");
            let count = ours.len();
            lines.push(format!(
                "| {name} {version} | `{programs}` | {count} | {faults} |"
            ));
        }
        lines
    }

    #[test]
    fn the_guide_shows_which_programs_were_tried() {
        let guide = include_str!("../../../docs/guides/rdma-in-ci.md");
        let file: File = toml::from_str(TABLE).unwrap();
        let rows = all().unwrap();
        let lines = shown(&file.package, &rows);
        let shown: Vec<_> = guide
            .lines()
            .skip_while(|line| !line.starts_with("| package |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        assert_eq!(shown, lines, "it should be:\n{}", lines.join("\n"));
        for package in &file.package {
            for name in &package.programs {
                let is_run = |row: &Row| program(row) == name;
                assert!(rows.iter().any(is_run), "{name} has no row");
            }
        }
        for row in &rows {
            let mut packages = file.package.iter();
            let has = |package: &Package| package.programs.iter().any(|name| name == program(row));
            assert!(packages.any(has), "{} is of no package", program(row));
        }
    }

    #[test]
    fn the_guide_shows_files_that_are_run() {
        let guide = include_str!("../../../docs/guides/rdma-in-ci.md");
        let loopback = include_str!("../programs/loopback.py");
        assert!(
            guide.contains(loopback),
            "the guide shows another loopback.py"
        );
        for (name, text) in [
            (
                "job.yml",
                include_str!("../../../examples/rdma-in-ci/job.yml"),
            ),
            (
                "Dockerfile",
                include_str!("../../../examples/rdma-in-ci/Dockerfile"),
            ),
        ] {
            let called = text.matches("examples/rdma-in-ci/check.sh").count();
            assert!(called > 0, "{name} does not call check.sh");
            assert!(
                guide.contains(text.trim_end()),
                "the guide shows another {name}"
            );
        }
    }
}
