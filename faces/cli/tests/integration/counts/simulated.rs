//! The simulated face: CLAN's hosts, all costs but one set to zero.

use std::path::Path;
use std::sync::{Arc, Mutex};

use viaduct_engine::Time;
use viaduct_hardware::{BusModel, Rate};
use viaduct_hardware::{Mechanism, ProcessorModel, RemoteWriteModel};
use viaduct_network::SwitchModel;
use viaduct_programs::Simulation;
use viaduct_programs::config::SimulationConfig;
use viaduct_provider::Counts;
use viaduct_scenario::load_programs;

use super::program::{Case, Meeting, side};

/// Whose message queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Design {
    /// Those of 2001, from the preset `clan`.
    Clan,
    /// Those of the real fabric, from the preset in the documentation.
    LikeShm,
}

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mover {
    /// The processor; short messages go in slots.
    ProcessorAndSlots,
    Processor,
    Engine,
}

/// The preset that `docs/models.md` shows, as a file.
fn like_shm() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```toml file=like-shm.toml\n").unwrap();
    let (preset, _) = rest.split_once("```").unwrap();
    let name = format!("like-shm-{}.toml", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, preset).unwrap();
    file.to_str().unwrap().to_owned()
}

fn load(design: Design) -> SimulationConfig {
    static LOADED: Mutex<Vec<(Design, SimulationConfig)>> = Mutex::new(Vec::new());
    let mut loaded = LOADED.lock().unwrap();
    if let Some((_, config)) = loaded.iter().find(|(known, _)| *known == design) {
        return config.clone();
    }
    let config = match design {
        Design::Clan => load_programs("clan", None, 2).unwrap(),
        Design::LikeShm => {
            let file = like_shm();
            let config = load_programs(&file, None, 2).unwrap();
            std::fs::remove_file(file).unwrap();
            config
        }
    };
    loaded.push((design, config.clone()));
    config
}

/// The times that cost something in the model; one of them is not set to zero.
fn costs<'a>(
    processor: &'a mut ProcessorModel,
    bus: &'a mut BusModel,
    clan: &'a mut RemoteWriteModel,
) -> [&'a mut Time; 14] {
    [
        &mut processor.post,
        &mut processor.reap,
        &mut processor.polling_delay,
        &mut processor.interrupt,
        &mut processor.wake_up,
        &mut bus.programmed_write,
        &mut bus.read,
        &mut bus.write,
        &mut clan.adapter,
        &mut clan.segment,
        &mut clan.map,
        &mut clan.dma_request,
        &mut clan.dma_setup,
        &mut clan.dma_interrupt,
    ]
}

fn config(design: Design, mover: Mover, cost: usize) -> SimulationConfig {
    let mut config = load(design);
    let host = config.host.common_mut();
    let Mechanism::RemoteWrites(clan) = &mut host.mechanism else {
        panic!("CLAN writes remotely");
    };
    let (processor, bus) = (&mut host.processor, &mut host.bus);
    let mut costs = costs(processor, bus, clan);
    let cost = cost % costs.len();
    for (number, time) in costs.iter_mut().enumerate() {
        if number != cost {
            **time = Time::ZERO;
        }
    }
    bus.burst_overhead = Time::ZERO;
    bus.rate = Rate::INFINITE;
    clan.write_rate = Rate::INFINITE;
    (clan.dma_from_bytes, clan.dma_written_bytes) = match mover {
        Mover::ProcessorAndSlots | Mover::Processor => (u32::MAX, 0),
        Mover::Engine => (0, 0),
    };
    if mover != Mover::ProcessorAndSlots {
        clan.inline_bytes = 0;
    }
    config.links.propagation = Time::ZERO;
    config.links.rate = Rate::from_bits_per_second(1e15);
    config.links.host_rate = config.links.rate;
    config.switch = SwitchModel {
        delay: Time::ZERO,
        cut_through_bytes: 0,
    };
    config
}

/// What the NICs of the two hosts counted.
pub(crate) fn simulated(case: Case, design: Design, mover: Mover, cost: usize) -> [Counts; 2] {
    let mut simulation = Simulation::new(config(design, mover, cost));
    let meeting = Arc::new(Meeting::new());
    let counts: Arc<Mutex<[Counts; 2]>> = Arc::default();
    for number in [0, 1] {
        let (meeting, counts) = (Arc::clone(&meeting), Arc::clone(&counts));
        simulation.spawn(number as u32, move |process| {
            let fabric = process.fabric();
            let pause = || process.relax();
            let counted = side(fabric, "sim0", number, case, &meeting, &pause);
            counts.lock().unwrap()[number] = counted;
        });
    }
    simulation.run().unwrap();
    *counts.lock().unwrap()
}
