//! Programs that wait where nobody would see it.

use std::process::Command;

use crate::run::{each_time, library, once, program};

#[test]
fn io_uring_is_refused_as_by_a_system_without_it() {
    // The call costs what calls cost, and the clock is read.
    let wanted = "setup -38, errno 77, took 225\n\
                  enter -38\n\
                  register -38\n\
                  masked -38\n\
                  thread -38\n\
                  forked -38\n\
                  started -38\n\
                  ignored\n\
                  goes on 1000225\n";
    let hosts: [&[&str]; 2] = [&[], &["alone"]];
    let printed = each_time(&program("refused"), &hosts);
    assert_eq!(printed, [wanted, "started -38\n"]);
}

#[test]
fn who_asks_for_io_uring_is_told_of_once() {
    // Host 1 asks first, since host 0 reads its clock before.
    let (result, _) = once(&program("refused"), &[&[], &["alone"]], |_| {});
    let result = result.unwrap();
    assert_eq!(result.notices, Vec::<String>::new());
    assert_eq!(result.remarks.len(), 1, "{:?}", result.remarks);
    let remark = &result.remarks[0];
    assert!(
        remark.starts_with("`refused` (process ")
            && remark.contains(" on host 1) asked for io_uring")
            && remark.contains("epoll"),
        "{remark}"
    );
    // Who does not ask is not told of.
    let (result, _) = once(&program("host"), &[&["names"]], |_| {});
    assert_eq!(result.unwrap().remarks, Vec::<String>::new());
}

#[test]
fn a_program_in_go_says_why_it_cannot_take_part() {
    let (_, ended) = once(&program("go"), &[&[]], |_| {});
    let (well, text) = &ended[0];
    assert!(
        !well
            && text.contains("/go is written in Go, whose runtime waits")
            && !text.contains("runs"),
        "{text}"
    );
    // Without a simulation nothing is refused.
    let mut command = Command::new(program("go"));
    let output = command.env("LD_PRELOAD", library()).output().unwrap();
    assert!(
        output.status.success() && output.stdout == b"runs\n",
        "{output:?}"
    );
}
