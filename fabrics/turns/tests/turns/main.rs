//! Clients are processes: this program starts itself again as each of them, over a world that has a
//! clock and nothing else. What a run did is a list of lines, and the same list each time.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod cases;
mod clients;
mod runs;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--client") {
        clients::act(&words[1], &words[2..]);
        return ExitCode::SUCCESS;
    }
    if words.iter().any(|word| word == "--list") {
        for (name, _) in cases::TESTS {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let wanted = words.iter().find(|word| !word.starts_with('-'));
    for (name, test) in cases::TESTS {
        if wanted.is_none_or(|wanted| name.contains(wanted.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}
