//! The plans of messages under way.

use super::{LastPlan, Plan};

/// Number of a plan that is kept; free numbers are used again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PlanId(u32);

impl PlanId {
    /// Names no plan.
    pub const NONE: Self = Self(u32::MAX);
}

/// The plans of messages under way. Messages that are alike share one: it is longer than all else
/// that is known of a message, and one that all of them read stays near the processor.
#[derive(Debug, Default)]
pub struct Plans {
    /// With how many hold it; one that nobody holds is free.
    slots: Vec<(Plan, u32)>,
    free: Vec<PlanId>,
    /// The plan that was made last, where a message has it.
    last: Option<PlanId>,
}

impl Plans {
    /// Holds the plan that was made last.
    #[inline]
    pub fn hold_last(&mut self, last: &mut LastPlan) -> PlanId {
        let is_new = last.take_new();
        let id = match self.last {
            Some(id) if !is_new => id,
            former => {
                if let Some(former) = former {
                    self.release(former);
                }
                let id = self.add(last.plan);
                self.last = Some(id);
                id
            }
        };
        self.hold(id);
        id
    }

    /// One more holds a plan that somebody holds.
    #[inline]
    pub fn hold(&mut self, id: PlanId) {
        self.slots[id.0 as usize].1 += 1;
    }

    /// Keeps a plan, for one who holds it.
    pub fn add(&mut self, plan: Plan) -> PlanId {
        if let Some(id) = self.free.pop() {
            self.slots[id.0 as usize] = (plan, 1);
            return id;
        }
        self.slots.push((plan, 1));
        PlanId(self.slots.len() as u32 - 1)
    }

    /// A plan that somebody holds.
    #[inline]
    #[must_use]
    pub fn get(&self, id: PlanId) -> &Plan {
        &self.slots[id.0 as usize].0
    }

    /// One who held a plan needs it no more.
    #[inline]
    pub fn release(&mut self, id: PlanId) {
        let holders = &mut self.slots[id.0 as usize].1;
        *holders -= 1;
        if *holders == 0 {
            self.free.push(id);
        }
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<(Plan, u32)>()
    }
}
