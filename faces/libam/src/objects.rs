//! What handles lead to: stations, endpoints, bundles.

use std::sync::{Arc, Weak};
use std::time::Duration;

use viaduct_am::{Bundle, EventMask, Handlers, Key, RequestError, SharedEndpoint, WaitError};
use viaduct_shm::Shm;
use viaduct_vi_carrier::Station;

use crate::abi::{Code, HandlerTable};
use crate::call::{Refused, Result};
use crate::handlers::{Context, handlers};
use crate::handles::{Handles, Held};

/// What carries messages: the one place that names the fabric.
pub(crate) type Carrier = Station<Shm>;
pub(crate) type Endpoint = viaduct_am::Endpoint<Carrier, State>;
pub(crate) type Table = Handlers<Carrier, State>;

/// The fabric's name of the NIC of this machine.
pub(crate) const DEVICE: &str = Shm::devices()[0];

pub(crate) static STATIONS: Handles<StationObject> = Handles::new(b'S', "a station");
pub(crate) static ENDPOINTS: Handles<EndpointObject> = Handles::new(b'E', "an endpoint");
pub(crate) static BUNDLES: Handles<BundleObject> = Handles::new(b'B', "a bundle");

/// What the handlers of an endpoint work on.
pub(crate) struct State {
    pub(crate) context: Context,
    pub(crate) key: Key,
    /// Keeps its station open.
    pub(crate) _use: Arc<()>,
}

pub(crate) struct StationObject {
    pub(crate) carrier: Carrier,
    /// Every endpoint and bundle has a clone.
    pub(crate) uses: Arc<()>,
    tables: Vec<(HandlerTable, Weak<Table>)>,
}

impl StationObject {
    pub(crate) fn new(carrier: Carrier) -> Self {
        Self {
            carrier,
            uses: Arc::new(()),
            tables: Vec::new(),
        }
    }

    /// The handlers of a table. Endpoints with equal tables share them: they take some kilobytes.
    pub(crate) fn table(&mut self, given: &HandlerTable) -> Result<Arc<Table>> {
        /// Tables that are compared.
        const KEPT: usize = 8;

        self.tables.retain(|(_, table)| table.strong_count() > 0);
        let equal = self.tables.iter().find(|(kept, _)| is_equal(kept, given));
        if let Some(table) = equal.and_then(|(_, table)| table.upgrade()) {
            return Ok(table);
        }
        let table = Arc::new(handlers(given)?);
        if self.tables.len() == KEPT {
            self.tables.remove(0);
        }
        self.tables.push((*given, Arc::downgrade(&table)));
        Ok(table)
    }
}

fn is_equal(one: &HandlerTable, other: &HandlerTable) -> bool {
    // By address: equal functions at two addresses only cost a second table.
    let requests = |table: &HandlerTable| table.request.map(|it| it.map(|it| it as usize));
    let replies = |table: &HandlerTable| table.reply.map(|it| it.map(|it| it as usize));
    let last = |table: &HandlerTable| table.undeliverable.map(|it| it as usize);
    requests(one) == requests(other) && replies(one) == replies(other) && last(one) == last(other)
}

/// An endpoint, or where it is.
pub(crate) enum EndpointObject {
    Exclusive(Box<Endpoint>),
    Shared(Arc<SharedEndpoint<Carrier, State>>),
    /// In a bundle, by its number there.
    Member {
        bundle: u64,
        member: usize,
    },
}

pub(crate) struct BundleObject {
    pub(crate) bundle: Bundle<Carrier, State>,
    pub(crate) carrier: Carrier,
    /// The endpoints' handles, by their numbers in the bundle.
    pub(crate) handles: Vec<Option<u64>>,
    /// Keeps its station open.
    pub(crate) _use: Arc<()>,
}

/// An endpoint, found and ready for use.
pub(crate) enum Found {
    Exclusive(Held<'static, EndpointObject>),
    Member {
        /// Nobody takes it out of its bundle meanwhile.
        _endpoint: Held<'static, EndpointObject>,
        bundle: Held<'static, BundleObject>,
        member: usize,
    },
    Shared(Arc<SharedEndpoint<Carrier, State>>),
}

impl Found {
    #[inline]
    pub(crate) fn of(handle: u64) -> Result<Self> {
        let mut held = ENDPOINTS.hold(handle)?;
        match held.get() {
            EndpointObject::Exclusive(_) => Ok(Self::Exclusive(held)),
            EndpointObject::Shared(endpoint) => Ok(Self::Shared(Arc::clone(endpoint))),
            EndpointObject::Member { bundle, member } => {
                let (bundle, member) = (BUNDLES.hold(*bundle)?, *member);
                Ok(Self::Member {
                    _endpoint: held,
                    bundle,
                    member,
                })
            }
        }
    }

    /// Does something with it alone, which must not sleep.
    #[inline]
    pub(crate) fn with<T>(&mut self, closure: impl FnOnce(&mut Endpoint) -> T) -> T {
        match self {
            Self::Shared(endpoint) => endpoint.with(closure),
            alone => closure(alone.alone().expect("an endpoint of one thread is at hand")),
        }
    }

    /// The endpoint, if it is not shared.
    #[inline]
    fn alone(&mut self) -> Option<&mut Endpoint> {
        match self {
            Self::Exclusive(held) => match held.get() {
                EndpointObject::Exclusive(endpoint) => Some(endpoint),
                _ => None,
            },
            Self::Member { bundle, member, .. } => bundle.get().bundle.member_mut(*member),
            Self::Shared(_) => None,
        }
    }

    pub(crate) fn wait(
        &mut self,
        mask: EventMask,
        limit: Option<Duration>,
    ) -> std::result::Result<EventMask, WaitError> {
        match self {
            Self::Shared(endpoint) => endpoint.wait(mask, limit),
            alone => match alone.alone() {
                Some(endpoint) => endpoint.wait(mask, limit),
                None => Err(WaitError::TimedOut),
            },
        }
    }

    /// Sleeps until a request that found no room may find some.
    pub(crate) fn wait_for_room(&mut self) {
        // Another thread may take what this one sleeps for: looked at in between.
        const LOOK_AGAIN: Duration = Duration::from_millis(1);

        let limit = matches!(self, Self::Shared(_)).then_some(LOOK_AGAIN);
        let _ = self.wait(EventMask::ALL, limit);
    }
}

impl From<RequestError> for Refused {
    fn from(error: RequestError) -> Self {
        match error {
            // Not put into words one by one: programs ask again and again.
            RequestError::NoCredit { .. } => Self::new(
                Code::NoCredit,
                "every credit waits for its reply: poll first",
            ),
            RequestError::Full => {
                Self::new(Code::Full, "no room to send now: poll, or wait for space")
            }
            RequestError::NotMapped { .. } => Self::new(Code::NotMapped, error.to_string()),
            RequestError::Closed => Self::new(Code::State, error.to_string()),
            _ => Self::new(Code::Limit, error.to_string()),
        }
    }
}

impl From<WaitError> for Refused {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => Self::new(Code::TimedOut, "nothing happened in the time limit"),
            WaitError::EmptyMask => Self::new(Code::Limit, error.to_string()),
        }
    }
}
