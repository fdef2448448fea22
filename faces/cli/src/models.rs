//! `viaduct models`: presets listed, shown number by number, and compared.

use std::fmt::Write as _;

use viaduct_programs::ways;
use viaduct_scenario::{
    NetworkPreset, Preset, PresetNumber, format_size, is_network, list_models, list_networks,
    load_network, load_preset, programs_of,
};

use crate::arguments::{ModelsArguments, ModelsCommand};
use crate::failure::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output;
use crate::virtual_networks::ranges_text;

/// A preset of hosts, or one of networks.
enum Model {
    Hosts(Box<Preset>),
    Network(NetworkPreset),
}

impl Model {
    fn load(name_or_path: &str) -> Result<Self, Failure> {
        Ok(match is_network(name_or_path) {
            true => Self::Network(load_network(name_or_path)?),
            false => Self::Hosts(Box::new(load_preset(name_or_path)?)),
        })
    }

    fn numbers(&self) -> &[PresetNumber] {
        match self {
            Self::Hosts(preset) => &preset.numbers,
            Self::Network(preset) => &preset.numbers,
        }
    }
}

/// Lists the presets, shows one, or compares two.
pub(crate) fn models(arguments: &ModelsArguments) -> Result<Exit, Failure> {
    let text = match (&arguments.command, &arguments.name) {
        (Some(ModelsCommand::Diff { first, second }), _) => {
            let models = (Model::load(first)?, Model::load(second)?);
            difference_text([first, second], [models.0.numbers(), models.1.numbers()])
        }
        (Some(ModelsCommand::Ranges { name, keys }), _) => {
            ranges_text(name, keys, &Interrupt::listen())?
        }
        (None, Some(name)) => match Model::load(name)? {
            Model::Hosts(preset) => preset_text(&preset) + &ways_text(&preset),
            Model::Network(preset) => network_text(&preset),
        },
        (None, None) => list_text(&list_models(), &list_networks()),
    };
    output::result(&text)?;
    Ok(Exit::Fine)
}

fn list_text(hosts: &[Preset], networks: &[NetworkPreset]) -> String {
    type Row<'a> = (&'a str, &'a str, &'a str);
    let of_hosts: Vec<Row<'_>> = hosts
        .iter()
        .map(|it| (&*it.name, &*it.description, &*it.source))
        .collect();
    let of_networks: Vec<Row<'_>> = networks
        .iter()
        .map(|it| (&*it.name, &*it.description, &*it.source))
        .collect();
    let width = widest(of_hosts.iter().chain(&of_networks).map(|row| row.0));
    let mut text = String::new();
    for (title, rows) in [
        ("Hosts and their adapters (hosts.nic)", of_hosts),
        ("\nSwitches and cables (links.preset)", of_networks),
    ] {
        let _ = writeln!(text, "{title}\n");
        for (name, description, source) in rows {
            let _ = writeln!(text, "{name:width$}   {description}");
            let _ = writeln!(text, "{:width$}   source: {source}", "");
        }
    }
    text.push_str(
        "\nviaduct models NAME       shows each number, its source and how sure it is\n\
         viaduct models diff A B   shows the numbers in which two presets differ\n\
         viaduct models ranges A   shows what assumed numbers do, for interfaces with endpoints\n",
    );
    text
}

fn preset_text(preset: &Preset) -> String {
    let head = head_text(
        &preset.name,
        &preset.description,
        &preset.source,
        &preset.inherits,
    );
    head + &numbers_text(&preset.numbers)
}

fn network_text(preset: &NetworkPreset) -> String {
    let head = head_text(
        &preset.name,
        &preset.description,
        &preset.source,
        &preset.inherits,
    );
    let levels = preset.levels().join(", ");
    let numbers = numbers_text(&preset.numbers);
    format!("{head}for links.model: {levels}; the first has all of it\n{numbers}")
}

fn head_text(name: &str, description: &str, source: &str, inherits: &[String]) -> String {
    let mut text = format!("{name}: {description}\nsource: {source}\n");
    if !inherits.is_empty() {
        let _ = writeln!(text, "inherits: {}", inherits.join(", "));
    }
    text
}

fn numbers_text(numbers: &[PresetNumber]) -> String {
    let mut text = String::new();
    let keys: Vec<String> = numbers.iter().map(path).collect();
    let key_width = widest(keys.iter().map(String::as_str));
    let value_width = widest(numbers.iter().map(|number| number.value.as_str()));
    for (key, number) in keys.iter().zip(numbers) {
        let _ = write!(
            text,
            "\n{key:key_width$}   {:value_width$}   {:9}   {}\n{:key_width$}   {}\n",
            number.value,
            number.confidence.word(),
            number.meaning,
            "",
            number.source,
        );
        for row in &number.rows {
            let _ = writeln!(text, "{:key_width$}   fitted to {row}", "");
        }
        if let Some([low, high]) = number.ends() {
            let _ = writeln!(
                text,
                "{:key_width$}   plausible: {} to {}",
                "", low.value, high.value
            );
        }
    }
    text
}

/// Which way messages of each size go: where one takes over from another.
fn ways_text(preset: &Preset) -> String {
    /// Where the ways are looked for: all change below.
    const BYTES_MAX: u32 = 128 << 10;

    // A preset without a cable has no hosts of its own to ask.
    let Ok(hosts) = programs_of(preset, &preset.name, None, 2) else {
        return String::new();
    };
    let found = ways(&hosts, BYTES_MAX);
    let ways: Vec<String> = found
        .iter()
        .map(|(from, way)| format!("{way} from {}", format_size(u64::from(*from))))
        .collect();
    format!("\nways of a message of one segment: {}\n", ways.join(", "))
}

/// A row for each number with two values, then the keys whose values agree and whose sources do
/// not. `names` are those that the user typed: two files may hold presets of one name.
fn difference_text(names: [&str; 2], numbers: [&[PresetNumber]; 2]) -> String {
    let [first, second] = numbers;
    let same_key = |a: &PresetNumber, b: &PresetNumber| (a.table, a.key) == (b.table, b.key);
    let twin = |a: &PresetNumber, of: &[PresetNumber]| of.iter().any(|b| same_key(a, b));
    let pairs: Vec<(&PresetNumber, &PresetNumber)> = first
        .iter()
        .filter_map(|a| Some((a, second.iter().find(|b| same_key(a, b))?)))
        .collect();
    let (same, other): (Vec<_>, Vec<_>) = pairs.iter().partition(|(a, b)| a.has_value_of(b));
    let resourced: Vec<String> = same
        .iter()
        .filter(|(a, b)| (&a.source, a.confidence) != (&b.source, b.confidence))
        .map(|(a, _)| path(a))
        .collect();
    let mut text = String::new();
    let [a, b] = names;
    let count = pairs.len();
    if !other.is_empty() {
        write_rows(&mut text, names, &other);
        let _ = writeln!(text, "\nnumbers that differ: {} of {count}", other.len());
    } else if resourced.is_empty() {
        let _ = writeln!(
            text,
            "nothing differs: {a} and {b} have the same {count} numbers from the same sources"
        );
    } else {
        let _ = writeln!(
            text,
            "no value differs: {a} and {b} have the same {count} numbers"
        );
    }
    if !resourced.is_empty() {
        let _ = writeln!(
            text,
            "same value, another source or confidence: {}",
            resourced.join(", ")
        );
    }
    for (name, own, other) in [(a, first, second), (b, second, first)] {
        let numbers = own.iter().filter(|number| !twin(number, other));
        let only: Vec<String> = numbers.map(path).collect();
        if !only.is_empty() {
            let _ = writeln!(text, "only in {name}: {}", only.join(", "));
        }
    }
    text
}

fn write_rows(text: &mut String, names: [&str; 2], rows: &[(&PresetNumber, &PresetNumber)]) {
    let keys: Vec<String> = rows.iter().map(|(a, _)| path(a)).collect();
    let key_width = widest(keys.iter().map(String::as_str).chain(["key"]));
    let column = |name: &str, values: Vec<&str>| widest(values).max(widest([name]));
    let first_width = column(
        names[0],
        rows.iter().map(|(a, _)| a.value.as_str()).collect(),
    );
    let second_width = column(
        names[1],
        rows.iter().map(|(_, b)| b.value.as_str()).collect(),
    );
    let name_width = widest(names);
    let _ = writeln!(
        text,
        "{:key_width$}   {:first_width$}   {}",
        "key", names[0], names[1]
    );
    for (key, (a, b)) in keys.iter().zip(rows) {
        let _ = writeln!(
            text,
            "\n{key:key_width$}   {:first_width$}   {:second_width$}   {}",
            a.value, b.value, a.meaning
        );
        for (name, number) in names.iter().zip([a, b]) {
            let _ = writeln!(
                text,
                "{:key_width$}   {name:name_width$}   {:9}   {}",
                "",
                number.confidence.word(),
                number.source
            );
        }
    }
}

/// A number's key with its table: `nic.doorbell`.
fn path(number: &PresetNumber) -> String {
    format!("{}.{}", number.table, number.key)
}

fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts
        .into_iter()
        .map(|text| text.chars().count())
        .max()
        .unwrap_or_default()
}
