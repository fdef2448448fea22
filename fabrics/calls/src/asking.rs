//! What all calls have in common: requests by number, and answers, which are results.

use std::ffi::CStr;

use viaduct_core::verbs::{self, errno};
use viaduct_provider::ReturnCode;

use crate::credit::Credits;
use crate::wire::Wire;

/// How requests reach whoever carries them out.
pub trait Line: Sync {
    /// Has a request carried out: its answer. `what` names it to people.
    fn call(&self, what: &'static CStr, request: &[u8], answer: &mut Vec<u8>);

    /// What is reckoned with where posts need no answer; none: each is a call.
    fn credits(&self) -> Option<&Credits> {
        None
    }

    /// Has a post carried out that will be taken, without an answer, and takes what it costs the
    /// processor, in picoseconds. False: it is to be a call.
    fn post(&self, _request: &[u8], _cost: u64) -> bool {
        false
    }

    /// As [`Line::post`], of a look that is in vain if what has come is all that comes while it
    /// takes. False: that is not known.
    fn look(&self, _request: &[u8], _cost: u64) -> bool {
        false
    }
}

macro_rules! requests {
    ($(#[$of:meta])* pub enum Request {
        $($(#[$about:meta])* $name:ident $({ $($field:ident: $type:ty),+ $(,)? })? = $number:literal;)+
    }) => {
        $(#[$of])*
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "fields are the arguments of the calls")]
        pub enum Request {
            $($(#[$about])* $name $({ $($field: $type),+ })?,)+
        }

        impl Request {
            /// What it is called, for people.
            #[must_use]
            pub const fn name(&self) -> &'static std::ffi::CStr {
                match self {
                    $(Self::$name $({ $($field: _),+ })? => {
                        const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                        match std::ffi::CStr::from_bytes_with_nul(NAME) {
                            Ok(name) => name,
                            Err(_) => c"a call",
                        }
                    })+
                }
            }
        }

        impl $crate::wire::Wire for Request {
            fn put(&self, into: &mut Vec<u8>) {
                match self {
                    $(Self::$name $({ $($field),+ })? => {
                        into.push($number);
                        $($($crate::wire::Wire::put($field, into);)+)?
                    })+
                }
            }

            fn get(from: &mut &[u8]) -> Option<Self> {
                Some(match <u8 as $crate::wire::Wire>::get(from)? {
                    $($number => Self::$name $({ $($field: $crate::wire::Wire::get(from)?),+ })?,)+
                    _ => return None,
                })
            }
        }
    };
}

pub(crate) use requests;

/// Why a call was refused: a number above 0 and a reason.
pub trait Refusal: Sized {
    /// What stands for an answer that is none.
    fn broken(reason: String) -> Self;

    /// The number.
    fn number(&self) -> u32;

    /// The reason.
    fn reason(&self) -> String;

    /// The one of a number, if it is one.
    fn from_number(number: u32, reason: String) -> Option<Self>;
}

/// By numbers of `errno.h`.
impl Refusal for verbs::Error {
    fn broken(reason: String) -> Self {
        Self::new(errno::EIO, reason)
    }

    fn number(&self) -> u32 {
        self.errno().unsigned_abs()
    }

    fn reason(&self) -> String {
        Self::reason(self).to_owned()
    }

    fn from_number(number: u32, reason: String) -> Option<Self> {
        Some(Self::new(i32::try_from(number).ok()?, reason))
    }
}

/// By numbers of `VIP_RETURN`.
impl Refusal for viaduct_provider::Error {
    fn broken(reason: String) -> Self {
        Self::new(ReturnCode::Resource, reason)
    }

    fn number(&self) -> u32 {
        self.code() as u32
    }

    fn reason(&self) -> String {
        self.to_string()
    }

    fn from_number(number: u32, reason: String) -> Option<Self> {
        let code = ReturnCode::from_number(number)?;
        Some(Self::new(code, reason))
    }
}

/// A result as the bytes of an answer.
pub fn put_answer<T: Wire, E: Refusal>(result: &Result<T, E>, into: &mut Vec<u8>) {
    match result {
        Ok(value) => {
            0_u32.put(into);
            value.put(into);
        }
        Err(error) => put_refusal(error.number(), &error.reason(), into),
    }
}

fn put_refusal(number: u32, reason: &str, into: &mut Vec<u8>) {
    number.put(into);
    into.extend_from_slice(reason.as_bytes());
}

/// The answer to a request that nobody has carried out, as that kind of requests is answered.
pub fn put_refused(request: &[u8], error: &verbs::Error, into: &mut Vec<u8>) {
    let reason = error.reason();
    let number = match is_of_via(request) {
        true => viaduct_provider::Error::broken(String::new()).number(),
        false => error.number(),
    };
    put_refusal(number, reason, into);
}

/// The number of the first request of VIA. Those of verbs are below.
pub(crate) const FIRST_OF_VIA: u8 = 128;

/// Whether the bytes of a request are of one of VIA, by its number.
#[must_use]
pub fn is_of_via(request: &[u8]) -> bool {
    request
        .first()
        .is_some_and(|number| *number >= FIRST_OF_VIA)
}

/// The result that an answer's bytes are.
///
/// # Errors
///
/// That of the answer, or that it is none.
pub fn answer<T: Wire, E: Refusal>(mut from: &[u8]) -> Result<T, E> {
    let found = u32::get(&mut from).and_then(|number| match number {
        0 => T::get(&mut from).map(Ok),
        number => {
            let reason = String::from_utf8_lossy(from).into_owned();
            E::from_number(number, reason).map(Err)
        }
    });
    found.unwrap_or_else(|| {
        let reason = "the simulation has ended, or answers what this library does not understand";
        Err(E::broken(reason.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use viaduct_provider::Error;

    use super::*;
    use crate::{Request, via};

    fn bytes_of(asked: &impl Wire) -> Vec<u8> {
        let mut bytes = Vec::new();
        asked.put(&mut bytes);
        bytes
    }

    #[test]
    fn requests_say_what_kind_they_are() {
        assert!(is_of_via(&bytes_of(&via::Request::NextCall)));
        let nic = via::Request::OpenNic {
            device: String::new(),
        };
        assert!(is_of_via(&bytes_of(&nic)));
        assert!(!is_of_via(&bytes_of(&Request::Describe { adapter: 0 })));
        assert!(!is_of_via(&[]));
    }

    #[test]
    fn what_nobody_carries_out_is_refused_in_the_words_of_its_kind() {
        let refused = verbs::Error::new(errno::ENOMEM, "too many");
        let mut bytes = Vec::new();
        put_refused(
            &bytes_of(&Request::Describe { adapter: 0 }),
            &refused,
            &mut bytes,
        );
        let error = answer::<(), verbs::Error>(&bytes).unwrap_err();
        assert_eq!((error.errno(), error.reason()), (errno::ENOMEM, "too many"));
        bytes.clear();
        put_refused(&bytes_of(&via::Request::NextCall), &refused, &mut bytes);
        let error = answer::<(), Error>(&bytes).unwrap_err();
        assert_eq!(error.code(), ReturnCode::Resource);
        assert_eq!(error.to_string(), "too many");
    }

    #[test]
    fn a_refusal_comes_back_as_it_was_and_no_answer_is_one() {
        for code in ReturnCode::ALL {
            let result: Result<u32, Error> = Err(Error::new(code, "why"));
            let mut bytes = Vec::new();
            put_answer(&result, &mut bytes);
            assert_eq!(answer::<u32, Error>(&bytes), result);
        }
        // None, one of an unknown number, and a value that is cut off.
        for broken in [&[][..], &[1, 0, 0, 0], &[0, 0, 0, 0, 7]] {
            let error = answer::<u32, Error>(broken).unwrap_err();
            assert_eq!(error.code(), ReturnCode::Resource, "{broken:?}");
        }
    }
}
