//! What the processes of drawn traffic and of lists want to post, and when.

use viaduct_engine::Time;
use viaduct_topology::HostId;

use crate::cluster::Cluster;
use crate::config::Arrivals;
use crate::event::Event;
use crate::host::{BlockedPost, Drawn};
use crate::programs::Programs;

impl<P: Programs> Cluster<P> {
    /// A process's own time to send has come.
    pub(crate) fn handle_arrival(&mut self, process: u32) {
        let now = self.queue.now();
        if self.operations.is_some() {
            return self.begin_rank(process);
        }
        if now >= self.config.traffic.stop {
            return;
        }
        let arrivals = &self.config.traffic.arrivals;
        if !matches!(arrivals, Arrivals::Open(_) | Arrivals::Listed(_)) {
            self.post_next(process);
            return;
        }
        if self.failures.is_some() && self.is_dead(process) {
            return;
        }
        let state = &self.processes[process as usize];
        state.connections.prefetch();
        if let Some(drawn) = state.next {
            self.want_to_send(process, drawn, None);
        }
        self.schedule_arrival(process, now);
    }

    /// Schedules the next message of a process that sends of its own accord.
    ///
    /// It is drawn now, so that what it reads can be asked for before its time has come.
    pub(crate) fn schedule_arrival(&mut self, process: u32, from: Time) {
        let Arrivals::Open(interval) = &self.config.traffic.arrivals else {
            self.schedule_listed(process);
            return;
        };
        let next = from + interval.sample(&mut self.processes[process as usize].stream);
        if next < self.config.traffic.stop {
            self.queue.schedule(next, Event::Arrival(process));
            self.processes[process as usize].next = self.draw(process);
        }
    }

    /// Schedules the next message of a process that sends a list.
    #[cold]
    fn schedule_listed(&mut self, process: u32) {
        let traffic = &self.config.traffic;
        let Arrivals::Listed(list) = &traffic.arrivals else {
            return;
        };
        let state = &mut self.processes[process as usize];
        // The place in the list is the process's turn.
        let number = self.numbering.process_of(process);
        let Some(message) = list.of_process(number, state.turn) else {
            return;
        };
        let next = traffic.start.saturating_add(message.time);
        if next < traffic.stop {
            state.turn += 1;
            state.next = Some(Drawn {
                target: self.numbering.port_of(message.target),
                bytes: message.bytes,
                operation: message.operation,
            });
            self.queue.schedule(next, Event::Arrival(process));
        }
    }

    /// Draws a target and a size; none if the process never sends.
    fn draw(&mut self, process: u32) -> Option<Drawn> {
        let per_host = self.config.hosts.processes;
        let (source_host, _) = self.config.adapter_at(self.host_of(process));
        let state = &mut self.processes[process as usize];
        let HostId(target_host) =
            self.targets
                .next_target(HostId(source_host), &mut state.turn, &mut state.stream)?;
        let bytes = self.config.traffic.size.sample(&mut state.stream);
        let target = match per_host {
            1 => target_host,
            _ => target_host * per_host + process % per_host,
        };
        let target = self.numbering.port_of(target);
        Some(Drawn {
            target,
            bytes,
            operation: self.config.traffic.operation,
        })
    }

    /// Draws a message and posts it.
    fn post_next(&mut self, process: u32) -> bool {
        let Some(drawn) = self.draw(process) else {
            return false;
        };
        self.want_to_send(process, drawn, None);
        true
    }

    /// Keeps a window full.
    pub(crate) fn post_window(&mut self, process: u32) {
        let Arrivals::Window(window) = self.config.traffic.arrivals else {
            return;
        };
        let now = self.queue.now();
        if now >= self.config.traffic.stop || now > self.config.run.until {
            return;
        }
        while self.processes[process as usize].outstanding < window {
            self.processes[process as usize].outstanding += 1;
            if !self.post_next(process) {
                return;
            }
        }
    }

    /// Posts a message, or queues the wish until a buffer is free.
    pub(crate) fn want_to_post(&mut self, process: u32, drawn: Drawn) {
        if self.failures.is_some() && self.is_dead(process) {
            return;
        }
        let wanted = self.queue.now();
        let host = self.host_of(process);
        let wish = BlockedPost {
            number: self.accounting.posted(P::EXIST),
            process,
            target: drawn.target,
            bytes: drawn.bytes,
            operation: drawn.operation,
            wanted,
        };
        self.follow_wish(&wish);
        let first = self.numbering.first_place(host);
        let buffers = &mut self.buffers[first as usize];
        if buffers.free == 0 {
            let depth = buffers.block(wish) as u64;
            if depth > self.blocked_depth_max.0 {
                self.blocked_depth_max = (depth, host);
            }
            return;
        }
        self.post_wish(wish);
    }

    /// Posts a message for which there is a buffer, and tells the application that it is posted.
    #[inline]
    pub(crate) fn post_wish(&mut self, wish: BlockedPost) {
        self.post(wish);
        if self.operations.is_some() {
            self.note_posted(&wish);
        }
    }
}
