//! One copy between two processes by the kernel, a call a copy: what verbs of long messages stand
//! beside. The bench starts itself as the process whose memory is copied.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Signal, set_parent_process_death_signal};
use viaduct_processes::cma;

use crate::floor::pin;
use crate::table::Samples;

/// The hidden word for the process whose memory is copied.
pub(crate) const TARGET: &str = "copied";
/// Copies that are timed at once, and how often.
const COPIES: u32 = 20;
const BATCHES: u32 = 200;

/// Which way the bytes go, as the process sees it that calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Read,
    Write,
}

/// The process whose memory is copied: it says where so many bytes of it lie, and waits for the
/// end of its input.
///
/// # Errors
///
/// One line: an argument, or the system.
pub(crate) fn be_target(arguments: &[String]) -> Result<(), String> {
    let number = |at: usize| arguments.get(at)?.parse::<usize>().ok();
    let (Some(bytes), Some(core)) = (number(0), number(1)) else {
        return Err(format!("{TARGET} wants bytes and a core"));
    };
    let failed = |error: io::Error| format!("{TARGET}: {error}");
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(error.into()))?;
    pin(core).map_err(failed)?;
    let memory = vec![1_u8; bytes];
    let mut output = io::stdout();
    writeln!(output, "{}", memory.as_ptr().addr()).map_err(failed)?;
    output.flush().map_err(failed)?;
    io::stdin().read_to_end(&mut Vec::new()).map_err(failed)?;
    Ok(())
}

/// Microseconds of a copy of so many bytes from the first core, of memory that the second one
/// wrote: the median of batches.
///
/// # Errors
///
/// One line: what the system says, also when it forbids such copies.
pub(crate) fn microseconds(way: Way, bytes: usize, cores: [usize; 2]) -> Result<f64, String> {
    let failed = |error: io::Error| format!("a copy by the kernel: {error}");
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .args([TARGET, &bytes.to_string(), &cores[1].to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let measured = time(&mut child, way, bytes, cores[0]).map_err(failed);
    drop(child.stdin.take());
    child.wait().map_err(failed)?;
    measured
}

fn time(child: &mut Child, way: Way, bytes: usize, core: usize) -> io::Result<f64> {
    let mut line = String::new();
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    BufReader::new(output).read_line(&mut line)?;
    let address: u64 = line.trim().parse().map_err(io::Error::other)?;
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    // In a thread of its own: this one stays where the system wants it.
    std::thread::spawn(move || {
        pin(core)?;
        let mut memory = vec![2_u8; bytes];
        let (near, far) = (memory.as_mut_ptr(), [(address, bytes as u64)]);
        let mut samples = Samples::default();
        for _ in 0..BATCHES {
            let begin = Instant::now();
            for _ in 0..COPIES {
                // SAFETY: the memory is this thread's, and nobody else looks at it.
                unsafe {
                    match way {
                        Way::Read => cma::read(number, &[(near, bytes)], &far)?,
                        Way::Write => cma::write(number, &[(near.cast_const(), bytes)], &far)?,
                    }
                };
            }
            samples.add(begin.elapsed().as_secs_f64() * 1e6 / f64::from(COPIES));
        }
        Ok(samples.median())
    })
    .join()
    .unwrap_or_else(|_| Err(io::Error::other("the thread that copies panicked")))
}
