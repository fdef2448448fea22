//! How busy links were, and what their queues held, window by window.

use viaduct_engine::Time;
use viaduct_topology::Topology;

use crate::fluid::ResourceId;
use crate::network::Network;
use crate::queue_windows::{QueueWindow, QueueWindows};

/// Windows of a run's time series.
const WINDOWS: u64 = 100;
/// Links looked at over all windows at most: large networks get fewer windows.
const LINK_VISITS_MAX: u64 = 20_000_000;
const WINDOWS_MIN: u64 = 4;
/// The first windows of those that grow.
const GROWING: Time = Time::from_picoseconds(1_000_000);

/// How many windows a run with so many links between switches has.
fn windows(links: usize) -> u64 {
    (LINK_VISITS_MAX / (links as u64).max(1)).clamp(WINDOWS_MIN, WINDOWS)
}

/// Utilisation of the links between switches in one window, 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowUse {
    /// Of all of them.
    pub mean: f64,
    /// Of the busiest.
    pub max: f64,
}

/// The account of the links between switches at the end of the window before.
#[derive(Debug)]
pub struct LinkWindows {
    /// When the first of them begins.
    origin: Time,
    width: Time,
    index: u64,
    begun: Time,
    /// Links between switches: these numbers.
    links: core::ops::Range<u32>,
    /// What each had carried by its account when the window began; below zero if the account was
    /// cleared since.
    carried: Vec<f64>,
    /// What queues held, where links have any.
    queues: Option<QueueWindows>,
}

impl LinkWindows {
    /// The windows of a run that lasts until a time.
    #[must_use]
    pub fn new(network: &Network, topology: &Topology, until: Time) -> Self {
        let hosts = topology.host_count();
        let links = 2 * hosts..topology.link_count();
        let width = until.picoseconds().div_ceil(windows(links.len())).max(1);
        Self {
            origin: Time::ZERO,
            width: Time::from_picoseconds(width),
            index: 0,
            begun: Time::ZERO,
            carried: vec![0.0; links.len()],
            links,
            queues: QueueWindows::of(network, topology),
        }
    }

    /// The windows of a run that lasts nobody knows how long: short ones, until they become too
    /// many and are doubled.
    #[must_use]
    pub fn growing(network: &Network, topology: &Topology) -> Self {
        Self::new(network, topology, GROWING.saturating_mul(WINDOWS))
    }

    /// Such windows of which the first begins now, whatever was before.
    #[must_use]
    pub fn growing_from(network: &mut Network, topology: &Topology, now: Time) -> Self {
        let mut windows = Self::growing(network, topology);
        windows.close(network, now);
        if let Some(queues) = &mut windows.queues {
            queues.forget();
        }
        (windows.origin, windows.index) = (now, 0);
        windows
    }

    /// How many windows there are at most, of those that grow.
    #[must_use]
    pub fn most(&self) -> usize {
        2 * windows(self.links.len()) as usize
    }

    /// Makes windows of double the width.
    pub fn double(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.index /= 2;
        if let Some(queues) = &mut self.queues {
            queues.widen(self.origin, self.width);
        }
    }

    /// The end of the present window.
    #[must_use]
    pub fn next_end(&self) -> Time {
        let ends = self.width.saturating_mul(self.index + 1);
        self.origin.saturating_add(ends)
    }

    /// Ends a window at `now`.
    pub fn close(&mut self, network: &mut Network, now: Time) -> WindowUse {
        let span = now.saturating_sub(self.begun).picoseconds() as f64;
        let since = now.saturating_sub(self.origin);
        self.index = since.picoseconds() / self.width.picoseconds();
        self.begun = now;
        if let Some(queues) = &mut self.queues {
            queues.close(network, now);
        }
        if span == 0.0 || self.links.is_empty() {
            return WindowUse::default();
        }
        network.credit_all(now);
        let mut usage = WindowUse::default();
        for (link, before) in self.links.clone().zip(&mut self.carried) {
            let resource = ResourceId(link);
            let carried = network.carried(resource);
            let share = (carried - *before) / (network.rate(resource) * span);
            *before = carried;
            usage.mean += share;
            usage.max = usage.max.max(share);
        }
        usage.mean /= self.links.len() as f64;
        usage
    }

    /// The resources' account is about to be cleared: what they carried in the present window still
    /// belongs to it.
    pub fn before_clearing(&mut self, network: &Network) {
        for (link, before) in self.links.clone().zip(&mut self.carried) {
            *before -= network.carried(ResourceId(link));
        }
    }

    /// What queues held and did in the windows that have ended. To be asked once.
    pub fn take_queues(&mut self) -> Vec<QueueWindow> {
        self.queues
            .take()
            .map_or_else(Vec::new, QueueWindows::into_rows)
    }

    /// The same, of windows that go on; when the first of all windows began, and how long each is.
    #[must_use]
    pub fn queues(&self) -> (Vec<QueueWindow>, Time, Time) {
        let rows = self.queues.as_ref().map_or(Vec::new(), QueueWindows::rows);
        (rows, self.origin, self.width)
    }

    /// Memory of the account.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let queues = self.queues.as_ref().map_or(0, QueueWindows::state_bytes);
        self.carried.capacity() * size_of::<f64>() + queues
    }
}
