//! The example, in two processes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Built with the tests, beside their folder.
fn example() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let profile = deps.parent().and_then(|deps| deps.parent()).unwrap();
    profile.join("examples").join("board")
}

#[test]
fn the_board_shows_what_a_client_wrote() {
    let file = std::env::temp_dir().join(format!("viaduct-board-{}", std::process::id()));
    let start = |role: &str| -> Child {
        let mut command = Command::new(example());
        command.arg(role).arg(&file).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let (server, client) = (start("server"), start("client"));
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let pinned = format!("pinned: process {} was here", client.id());
    assert_eq!(said(client), "102 answers, sum: 5050\n");
    assert_eq!(said(server), format!("{pinned}\nsum: 5050\n"));
    std::fs::remove_file(file).unwrap();
}
