//! Messages of three pairs of hosts over one link, posted by programs and by a list's own processes
//! at the same times: each message is delivered at the same time, and every stage takes as long.
//! They fill so many percent of the link.
//!
//! ```text
//! cargo run --release --example listed [MODEL] [PERCENT]
//! ```

mod both;

use std::sync::Arc;

use viaduct_scenario::load_programs;
use viaduct_topology::{ChainHosts, Ports, Topology};

use both::Outcome;

const PAIRS: u32 = 3;
const MESSAGES: u32 = 40;

#[expect(
    clippy::disallowed_methods,
    reason = "the command line is the example's configuration"
)]
fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let model = arguments
        .next()
        .unwrap_or_else(|| "giganet-clan".to_owned());
    let load = arguments.next().map_or(Ok(100), |word| word.parse())?;
    let mut config = load_programs(&model, None, 2 * PAIRS)?;
    config.topology = Arc::new(Topology::chain(
        2,
        ChainHosts::EverySwitch(PAIRS),
        Ports(8),
    )?);
    both::move_one_by_one(&mut config);

    let wanted = both::messages(&config, MESSAGES, load);
    let programs = both::of_programs(&config, &wanted)?;
    // A processor may have had no time for a post.
    let list = both::posted(&programs);
    let listed = both::of_list(&config, &list)?;
    let differing = both::rows(&programs)
        .into_iter()
        .zip(both::rows(&listed))
        .filter(|(program, list)| program != list)
        .count();
    if differing > 0 || programs.breakdown != listed.breakdown {
        return Err(format!("{differing} of {} messages differ", list.len()).into());
    }
    let latency = listed.latency.ok_or("no message was measured")?;
    println!(
        "listed: {} messages of {model}, {load} % of the link: mean {:.3} us, the slowest {:.3} us",
        list.len(),
        latency.mean_us.mean,
        latency.max_us
    );
    println!("list and programs: equal posts, deliveries and stages");
    Ok(())
}
