//! One fluid server and the flows that cross it: its members, and those that ride (`crowd.rs`).

use super::FlowId;

/// Members kept in the server itself; more go to a list of their own.
const FEW: usize = 4;

/// A link or bus: one cache line.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Bytes a picosecond.
    pub(crate) rate: f64,
    /// The rate over the number of flows; the whole rate with none.
    pub(crate) share: f64,
    /// Bytes credited.
    pub(crate) carried: f64,
    /// Most flows at once.
    pub(crate) flows_max: u32,
    /// Members and riders.
    len: u32,
    riders: u32,
    /// What no share of this server may fall below, as long as it has riders.
    floor: f32,
    few: [FlowId; FEW],
    #[expect(
        clippy::box_collection,
        reason = "a million links have no more than a few members"
    )]
    many: Option<Box<Vec<FlowId>>>,
}

impl Resource {
    pub(crate) fn new(rate: f64) -> Self {
        Self {
            rate,
            share: rate,
            carried: 0.0,
            flows_max: 0,
            len: 0,
            riders: 0,
            floor: 0.0,
            few: [FlowId(u32::MAX); FEW],
            many: None,
        }
    }

    /// Members and riders now.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Members now.
    #[inline]
    pub(crate) fn member_count(&self) -> u32 {
        self.len - self.riders
    }

    /// Riders now.
    #[inline]
    pub(crate) fn rider_count(&self) -> u32 {
        self.riders
    }

    /// What its share may not fall below for its riders to ride on.
    #[inline]
    pub(crate) fn floor(&self) -> f64 {
        f64::from(self.floor)
    }

    pub(crate) fn raise_floor(&mut self, floor: f64) {
        // Of the numbers of this length one that is not below.
        self.floor = self.floor.max((floor as f32).next_up());
    }

    pub(crate) fn join_rider(&mut self) {
        self.riders += 1;
        self.len += 1;
        self.flows_max = self.flows_max.max(self.len);
        self.share = self.rate / f64::from(self.len);
    }

    pub(crate) fn leave_rider(&mut self) {
        self.len -= 1;
        self.ride_no_more();
        self.share = self.rate / f64::from(self.len.max(1));
    }

    pub(crate) fn member_becomes_rider(&mut self, flow: FlowId) {
        self.remove(flow);
        self.riders += 1;
    }

    pub(crate) fn rider_becomes_member(&mut self, flow: FlowId) {
        let index = self.member_count();
        self.add(index, flow);
        self.ride_no_more();
    }

    fn ride_no_more(&mut self) {
        self.riders -= 1;
        if self.riders == 0 {
            self.floor = 0.0;
        }
    }

    /// The members, in an order that only joins and leaves decide.
    #[inline]
    pub(crate) fn members(&self) -> impl Iterator<Item = FlowId> {
        let few = &self.few[..FEW.min(self.member_count() as usize)];
        let many = self.many.as_deref().map_or(&[][..], Vec::as_slice);
        few.iter().chain(many).copied()
    }

    /// Says whether nobody else is there.
    #[inline]
    pub(crate) fn join(&mut self, flow: FlowId) -> bool {
        // Most find the server free, and its share is the rate already.
        if self.len == 0 {
            self.few[0] = flow;
            self.len = 1;
            self.flows_max = self.flows_max.max(1);
            return true;
        }
        self.join_others(flow);
        false
    }

    #[inline]
    fn join_others(&mut self, flow: FlowId) {
        self.add(self.member_count(), flow);
        self.len += 1;
        self.flows_max = self.flows_max.max(self.len);
        self.share = self.rate / f64::from(self.len);
    }

    #[inline]
    fn add(&mut self, index: u32, flow: FlowId) {
        let index = index as usize;
        if index < FEW {
            self.few[index] = flow;
        } else {
            self.many.get_or_insert_default().push(flow);
        }
    }

    /// Says whether nobody is left.
    #[inline]
    pub(crate) fn leave(&mut self, flow: FlowId) -> bool {
        if self.len == 1 {
            debug_assert!(self.few[0] == flow, "a flow leaves where it joined");
            self.len = 0;
            return true;
        }
        self.leave_others(flow);
        false
    }

    #[inline]
    fn leave_others(&mut self, flow: FlowId) {
        self.remove(flow);
        self.len -= 1;
        self.share = self.rate / f64::from(self.len);
    }

    /// Takes a flow out of the members; the last takes its place.
    #[inline]
    fn remove(&mut self, flow: FlowId) {
        let index = self.members().position(|member| member == flow);
        debug_assert!(index.is_some(), "a flow leaves where it joined");
        let Some(index) = index else { return };
        let end = self.member_count() as usize - 1;
        let last = if end >= FEW {
            self.many
                .as_mut()
                .and_then(|many| many.pop())
                .unwrap_or(flow)
        } else {
            self.few[end]
        };
        if index != end {
            match &mut self.many {
                Some(many) if index >= FEW => many[index - FEW] = last,
                _ => self.few[index] = last,
            }
        }
    }

    pub(crate) fn spilled_bytes(&self) -> usize {
        self.many.as_ref().map_or(0, |many| {
            size_of::<Vec<FlowId>>() + many.capacity() * size_of::<FlowId>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_one_cache_line() {
        assert!(size_of::<Resource>() <= 64);
    }

    #[test]
    fn members_leave_in_any_order() {
        for leaver in 0..9 {
            let mut resource = Resource::new(1.0);
            for flow in 0..9 {
                resource.join(FlowId(flow));
            }
            resource.leave(FlowId(leaver));
            let mut left: Vec<u32> = resource.members().map(|flow| flow.0).collect();
            left.sort_unstable();
            assert_eq!(
                left,
                (0..9).filter(|&flow| flow != leaver).collect::<Vec<_>>()
            );
            assert_eq!(resource.share, 1.0 / 8.0);
            for flow in left.into_iter().rev() {
                resource.leave(FlowId(flow));
            }
            assert_eq!((resource.len(), resource.share), (0, 1.0));
        }
    }
}
