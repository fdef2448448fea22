//! How a key is declared, once: [`section!`] makes of one list the typed struct that a table is
//! read into and the rows of the list of keys.
//!
//! ```text
//! section! {
//!     /// What a switch costs a message.
//!     Switches "switches": "what a switch costs a message" {
//!         delay: Setting<Time> = time("from the header's arrival ...").or("0 s");
//!     }
//! }
//! ```
//!
//! The field's name is the key's; `time(...)` is its kind and meaning, and fits a field of `Time`
//! alone. A key that counts only beside some words of another one names that other field, and its
//! words by the variants of its type. So a slip of any of these does not compile.

use std::fmt;
use std::marker::PhantomData;

use viaduct_cluster::config::UNLIMITED;
use viaduct_engine::Time;
use viaduct_hardware::Rate;

use crate::diagnostics::{Diagnostic, Place};
use crate::keys::{Fallback, Key, Table};
use crate::value::{Kind, Value};

/// Why there is no value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    /// An error among the diagnostics says why.
    Told,
    /// The key does not count here, or nothing holds without it; nobody should have asked.
    Unset(&'static Table, &'static Key),
}

impl Absent {
    /// What is wrong in words; none if that has been said.
    pub(crate) fn problem(self) -> Option<String> {
        match self {
            Self::Told => None,
            Self::Unset(table, key) => Some(format!(
                "`{}` in {} is needed and not set",
                key.name,
                table.heading()
            )),
        }
    }

    /// The same as a message.
    pub(crate) fn diagnostic(self) -> Option<Diagnostic> {
        let error = Diagnostic::error(self.problem()?);
        Some(error.help("this is a mistake of the program: please report it with the scenario"))
    }
}

/// What is known of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyState<T> {
    Value(T),
    /// The key does not count here, or is left out and nothing stands in its place.
    Unset,
    /// It is wrong, or missing: an error says so.
    Wrong,
}

/// How a value was given.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) place: Place,
    pub(crate) written: String,
}

/// A key as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Setting<T> {
    pub(crate) table: &'static Table,
    pub(crate) key: &'static Key,
    state: KeyState<T>,
    /// Where and how it is given, if it is.
    given: Option<Given>,
    /// The head of its table, or else the whole text.
    around: Place,
}

impl<T: Field> Setting<T> {
    pub(crate) fn of(read: Setting<Value>) -> Self {
        let state = match read.state {
            KeyState::Value(value) => match T::of(&value) {
                Some(value) => KeyState::Value(value),
                // The kinds of values and the types of fields belong together: `KeyOf`.
                None => KeyState::Unset,
            },
            KeyState::Unset => KeyState::Unset,
            KeyState::Wrong => KeyState::Wrong,
        };
        Self {
            table: read.table,
            key: read.key,
            state,
            given: read.given,
            around: read.around,
        }
    }

    /// The value, of a key that has one in a scenario without mistakes.
    pub(crate) fn get(&self) -> Result<T, Absent> {
        match &self.state {
            KeyState::Value(value) => Ok(value.clone()),
            KeyState::Unset => Err(Absent::Unset(self.table, self.key)),
            KeyState::Wrong => Err(Absent::Told),
        }
    }

    /// The value, of a key that may be left out.
    pub(crate) fn optional(&self) -> Result<Option<T>, Absent> {
        match &self.state {
            KeyState::Value(value) => Ok(Some(value.clone())),
            KeyState::Unset => Ok(None),
            KeyState::Wrong => Err(Absent::Told),
        }
    }

    /// The value if there is one, be the reason right or wrong.
    pub(crate) fn known(&self) -> Option<T> {
        match &self.state {
            KeyState::Value(value) => Some(value.clone()),
            KeyState::Unset | KeyState::Wrong => None,
        }
    }

    /// Puts a value that follows from others; it stays marked as not given.
    pub(crate) fn follow(&mut self, value: Option<T>) {
        self.state = value.map_or(KeyState::Unset, KeyState::Value);
    }

    /// Puts the value of another key, or what is wrong with it.
    pub(crate) fn follow_setting(&mut self, other: &Self) {
        self.state.clone_from(&other.state);
    }

    /// Says that its value is wrong, which an error says.
    pub(crate) fn mark_wrong(&mut self) {
        self.state = KeyState::Wrong;
    }

    /// Puts a value that follows from another key that is given, which then no longer counts.
    pub(crate) fn derive<S: Field>(&mut self, value: T, from: &mut Setting<S>) {
        self.state = KeyState::Value(value);
        self.given.clone_from(&from.given);
        from.follow(None);
    }
}

impl<T> Setting<T> {
    pub(crate) fn new(
        (table, key): (&'static Table, &'static Key),
        state: KeyState<T>,
        given: Option<Given>,
        around: Place,
    ) -> Self {
        Self {
            table,
            key,
            state,
            given,
            around,
        }
    }

    pub(crate) const fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }

    pub(crate) const fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// Whether an error has been said of it.
    pub(crate) const fn is_wrong(&self) -> bool {
        matches!(self.state, KeyState::Wrong)
    }

    /// Where it is given; else the head of its table; else the whole text.
    pub(crate) fn place(&self) -> Place {
        self.given.as_ref().map_or(self.around, |given| given.place)
    }
}

/// A setting of whatever type, for what treats all alike.
pub(crate) trait AnySetting {
    fn table(&self) -> &'static Table;
    fn key(&self) -> &'static Key;
    fn value(&self) -> Option<Value>;
    fn given(&self) -> Option<&Given>;
}

impl<T: Field> AnySetting for Setting<T> {
    fn table(&self) -> &'static Table {
        self.table
    }

    fn key(&self) -> &'static Key {
        self.key
    }

    fn value(&self) -> Option<Value> {
        self.known().map(|value| value.to_value(&self.key.kind))
    }

    fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }
}

/// What the keys of a table are read from, one after the other.
pub(crate) trait Source {
    /// The next key of the table.
    fn next_key(&mut self) -> Setting<Value>;
}

/// A part of a section: a key, or a group of keys that several tables share.
pub(crate) trait Part {
    fn read(source: &mut dyn Source) -> Self;
    fn add_to<'s>(&'s self, list: &mut Vec<&'s dyn AnySetting>);
}

impl<T: Field> Part for Setting<T> {
    fn read(source: &mut dyn Source) -> Self {
        Self::of(source.next_key())
    }

    fn add_to<'s>(&'s self, list: &mut Vec<&'s dyn AnySetting>) {
        list.push(self);
    }
}

/// Keys as fields, of a table or of a part of several.
pub(crate) trait Keys: Part {
    /// In the order in which they are read and written.
    fn keys() -> Vec<Key>;
}

/// A table's keys as fields.
pub(crate) trait Section: Keys {
    /// Its row in the list of keys.
    fn table() -> &'static Table;

    /// All its settings.
    fn list(&self) -> Vec<&dyn AnySetting> {
        let mut list = Vec::new();
        self.add_to(&mut list);
        list
    }
}

/// The type of a key's value.
pub(crate) trait Field: Clone + fmt::Debug + 'static {
    fn of(value: &Value) -> Option<Self>;
    fn to_value(&self, kind: &Kind) -> Value;
}

/// A key that has values of a type, before its section names it.
#[derive(Clone, Debug)]
pub(crate) struct KeyOf<T> {
    key: Key,
    of: PhantomData<fn() -> T>,
}

/// Keys that a section declares for a field of the type `P`.
pub(crate) trait Declares<P> {
    /// They count only where another key of the table has one of these words.
    fn when(self, key: &'static str, words: Vec<&'static str>) -> Self;
    fn keys(self, field: &'static str) -> Vec<Key>;
}

impl<T: Field> KeyOf<T> {
    fn new(kind: Kind, meaning: &'static str) -> Self {
        Self {
            key: Key::new(kind, meaning),
            of: PhantomData,
        }
    }

    /// The value that holds if it is left out.
    pub(crate) fn or(mut self, value: &'static str) -> Self {
        self.key.fallback = Fallback::Value(value);
        self
    }

    /// What holds if it is left out, in words.
    pub(crate) fn otherwise(mut self, words: &'static str) -> Self {
        self.key.fallback = Fallback::Otherwise(words);
        self
    }

    /// Keys of its table that may not stand beside it.
    pub(crate) fn not_beside(mut self, keys: &'static [KeyName]) -> Self {
        self.key.excludes = keys;
        self
    }

    /// Given alone it makes the choice that it counts with.
    pub(crate) fn choosing(mut self) -> Self {
        self.key.chooses = true;
        self
    }
}

impl<T: Field> Declares<Setting<T>> for KeyOf<T> {
    fn when(mut self, key: &'static str, words: Vec<&'static str>) -> Self {
        self.key.when.push((key, words));
        self
    }

    fn keys(mut self, field: &'static str) -> Vec<Key> {
        self.key.name = field;
        vec![self.key]
    }
}

/// The keys of a group that several tables share.
pub(crate) struct Group<S> {
    keys: Vec<Key>,
    /// A condition is one of its keys without conditions of their own: the others hang on these.
    of_heads: bool,
    of: PhantomData<fn() -> S>,
}

/// A group; a condition on it is one on each of its keys.
pub(crate) fn group<S: Keys>() -> Group<S> {
    Group {
        keys: S::keys(),
        of_heads: false,
        of: PhantomData,
    }
}

/// A group; a condition on it is one on those keys that have none themselves.
pub(crate) fn group_by_heads<S: Keys>() -> Group<S> {
    Group {
        of_heads: true,
        ..group()
    }
}

impl<S: Keys> Declares<S> for Group<S> {
    fn when(mut self, key: &'static str, words: Vec<&'static str>) -> Self {
        for own in &mut self.keys {
            if own.when.is_empty() || !self.of_heads {
                own.when.insert(0, (key, words.clone()));
            }
        }
        self
    }

    fn keys(self, _: &'static str) -> Vec<Key> {
        self.keys
    }
}

/// The words of a key that others hang on; that it is a field of the section is checked by the
/// compiler.
pub(crate) fn words_of<S, W: Word>(_: fn(&S) -> &Setting<W>, words: &[W]) -> Vec<&'static str> {
    words.iter().map(|word| word.word()).collect()
}

/// A key by the field that declares it. A section has a constant for each of its keys:
///
/// ```
/// use viaduct_scenario::key;
///
/// assert_eq!(key::Traffic::rate.path(), "traffic.rate");
/// ```
///
/// A slip does not compile:
///
/// ```compile_fail
/// viaduct_scenario::key::Traffic::rat.path();
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyName {
    table: &'static str,
    key: &'static str,
}

impl KeyName {
    pub(crate) const fn new(table: &'static str, key: &'static str) -> Self {
        Self { table, key }
    }

    /// The key of a group in a table that has the group.
    pub(crate) const fn within<S: OfTable>(self) -> Self {
        Self::new(S::TABLE, self.key)
    }

    /// Its name alone.
    #[must_use]
    pub const fn key(self) -> &'static str {
        self.key
    }

    /// Its whole path, as `--set` takes it.
    #[must_use]
    pub fn path(self) -> String {
        format!("{}.{}", self.table, self.key)
    }

    /// Whether this is its whole path.
    #[must_use]
    pub fn is_at(self, path: &str) -> bool {
        path.strip_prefix(self.table)
            .is_some_and(|rest| rest.strip_prefix('.') == Some(self.key))
    }

    /// The name of its table in a preset's file.
    pub(crate) fn root(self) -> &'static str {
        root(self.table)
    }
}

/// A table's name where it stands in a preset's file: `cpu`, `memory`.
pub(crate) fn root(table: &'static str) -> &'static str {
    let of_preset = table.strip_prefix("preset.");
    let name = of_preset.or_else(|| table.strip_prefix("hosts.model."));
    name.unwrap_or(table)
}

/// The table of a section. A group of keys stands in several, and its keys have none until they are
/// [within](KeyName::within) one.
pub(crate) trait OfTable {
    const TABLE: &'static str = "";
}

/// Declares a table: a struct of its settings, and their keys.
macro_rules! section {
    ($(#[$about:meta])* $name:ident $($($presence:ident)? $table:literal : $meaning:literal)? {
        $($field:ident : $part:ty = $declared:expr
            $(, when $($governing:ident).+ = $($word:path)|+)? $(, and $($other:ident).+ = $($more:path)|+)?;)+
    }) => {
        $(#[$about])*
        $(#[doc = concat!("The keys of the table `", $table, "`.")])?
        #[derive(Clone, Debug)]
        #[allow(unreachable_pub, reason = "some tables are named outside this crate")]
        pub struct $name {
            $(pub(crate) $field: $part,)+
        }

        impl $crate::section::OfTable for $name {
            $(const TABLE: &'static str = $table;)?
        }

        #[allow(
            non_upper_case_globals,
            dead_code,
            unreachable_pub,
            reason = "a constant has the name of its key, and few keys are named in the program"
        )]
        impl $name {
            $(
                #[doc = concat!("The key `", stringify!($field), "`.")]
                pub const $field: $crate::section::KeyName = $crate::section::KeyName::new(
                    <Self as $crate::section::OfTable>::TABLE,
                    stringify!($field),
                );
            )+
        }

        impl $crate::section::Part for $name {
            fn read(source: &mut dyn $crate::section::Source) -> Self {
                // In this order, which is that of the keys.
                Self { $($field: $crate::section::Part::read(source),)+ }
            }

            fn add_to<'s>(&'s self, list: &mut Vec<&'s dyn $crate::section::AnySetting>) {
                $($crate::section::Part::add_to(&self.$field, list);)+
            }
        }

        $(
            impl $crate::section::Section for $name {
                fn table() -> &'static $crate::keys::Table {
                    static TABLE: std::sync::LazyLock<$crate::keys::Table> =
                        std::sync::LazyLock::new(|| $crate::keys::Table {
                            name: $table,
                            meaning: $meaning,
                            presence: [
                                $($crate::keys::Presence::$presence,)?
                                $crate::keys::Presence::Always,
                            ][0],
                            keys: <$name as $crate::section::Keys>::keys(),
                        });
                    &TABLE
                }
            }
        )?

        impl $crate::section::Keys for $name {
            fn keys() -> Vec<$crate::keys::Key> {
                use $crate::section::Declares;
                let mut keys = Vec::new();
                $(
                    let declared = $declared;
                    $(
                        let words = $crate::section::words_of(|it: &Self| &it.$($governing).+, &[$($word),+]);
                        let name = *[$(stringify!($governing)),+].last().unwrap_or(&"");
                        let declared = Declares::<$part>::when(declared, name, words);
                    )?
                    $(
                        let words = $crate::section::words_of(|it: &Self| &it.$($other).+, &[$($more),+]);
                        let name = *[$(stringify!($other)),+].last().unwrap_or(&"");
                        let declared = Declares::<$part>::when(declared, name, words);
                    )?
                    keys.extend(Declares::<$part>::keys(declared, stringify!($field)));
                )+
                keys
            }
        }
    };
}
pub(crate) use section;

/// A choice: a type each of whose values has a word.
pub(crate) trait Word: Copy + PartialEq + fmt::Debug + 'static {
    const ALL: &'static [Self];
    const WORDS: &'static [&'static str];
    fn word(self) -> &'static str;

    /// The value that has a word.
    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.word() == word)
    }
}

/// Gives the values of a type their words, and makes the type if it has a visibility. Another
/// value without a word does not compile.
macro_rules! words {
    ($(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$what:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        $visible enum $name {
            $($(#[$what])* $variant,)+
        }
        words! { $name { $($variant = $word),+ } }
    };
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $crate::section::Word for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),+];
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}
pub(crate) use words;

impl<W: Word> Field for W {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Choice(word) => Self::of_word(word),
            _ => None,
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        Value::Choice(self.word())
    }
}

/// Types whose values are of one kind.
macro_rules! fields {
    ($($type:ty: $variant:ident),+ $(,)?) => {$(
        impl Field for $type {
            fn of(value: &Value) -> Option<Self> {
                match value {
                    Value::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            }

            fn to_value(&self, _: &Kind) -> Value {
                Value::$variant(self.clone())
            }
        }
    )+};
}

fields! {
    String: Text,
    Time: Time,
    Rate: Rate,
    bool: Boolean,
    Vec<u32>: Counts,
    Vec<(u32, u32)>: Pairs,
    Vec<(Time, f64)>: TimeTable,
}

/// Whole numbers of each width: the limits of their kinds keep them within it.
macro_rules! whole_fields {
    ($($type:ty),+) => {$(
        impl Field for $type {
            fn of(value: &Value) -> Option<Self> {
                match value {
                    Value::Count(count) | Value::Size(count) => Self::try_from(*count).ok(),
                    Value::Unlimited => Self::try_from(UNLIMITED).ok(),
                    _ => None,
                }
            }

            fn to_value(&self, kind: &Kind) -> Value {
                let whole = u64::from(*self);
                match kind {
                    Kind::SizeOrUnlimited(most) if whole > *most => Value::Unlimited,
                    Kind::Size(_) | Kind::SizeOrUnlimited(_) => Value::Size(whole),
                    Kind::CountOrUnlimited(_, most) if whole > *most => Value::Unlimited,
                    _ => Value::Count(whole),
                }
            }
        }
    )+};
}

whole_fields!(u8, u16, u32, u64);

impl Field for f64 {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) | Value::Ratio(number) | Value::Frequency(number) => Some(*number),
            _ => None,
        }
    }

    fn to_value(&self, kind: &Kind) -> Value {
        match kind {
            Kind::Ratio => Value::Ratio(*self),
            Kind::Frequency => Value::Frequency(*self),
            _ => Value::Real(*self),
        }
    }
}

/// A time that may be that of `run.warmup`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Start {
    At(Time),
    AfterWarmup,
}

/// The key whose time it may be.
const WARMUP: &str = "run.warmup";

impl Field for Start {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Time(time) => Some(Self::At(*time)),
            Value::Choice(WARMUP) => Some(Self::AfterWarmup),
            _ => None,
        }
    }

    fn to_value(&self, _: &Kind) -> Value {
        match self {
            Self::At(time) => Value::Time(*time),
            Self::AfterWarmup => Value::Choice(WARMUP),
        }
    }
}

/// Kinds of keys, each with the type of its values.
pub(crate) mod kinds {
    use viaduct_cluster::workload::OPERATION_BYTES_MAX;

    use super::{Field, KeyOf, Kind, Rate, Start, Time, WARMUP, Word};

    macro_rules! kinds {
        ($($name:ident: $type:ty = $kind:expr),+ $(,)?) => {$(
            pub(crate) fn $name(meaning: &'static str) -> KeyOf<$type> {
                KeyOf::new($kind, meaning)
            }
        )+};
    }

    kinds! {
        text: String = Kind::Text,
        file: String = Kind::File,
        preset: String = Kind::Preset,
        time: Time = Kind::Time,
        start: Start = Kind::TimeOr(WARMUP),
        rate: Rate = Kind::Rate,
        rate_or_infinite: Rate = Kind::RateOrInfinite,
        frequency: f64 = Kind::Frequency,
        share: f64 = Kind::Ratio,
        number: f64 = Kind::Real,
        boolean: bool = Kind::Boolean,
        counts: Vec<u32> = Kind::Counts,
        pairs: Vec<(u32, u32)> = Kind::Pairs,
        time_table: Vec<(Time, f64)> = Kind::TimeTable,
        message: u32 = Kind::Size(crate::schema::MESSAGE_BYTES_MAX),
        long_size: u64 = Kind::Size(OPERATION_BYTES_MAX),
        host: u32 = Kind::Count(0, u32::MAX as u64),
    }

    /// One of the words of a type.
    pub(crate) fn choice<W: Word>(meaning: &'static str) -> KeyOf<W> {
        KeyOf::new(Kind::Choice(W::WORDS), meaning)
    }

    /// Bytes, up to a limit.
    pub(crate) fn size(most: u32, meaning: &'static str) -> KeyOf<u32> {
        KeyOf::new(Kind::Size(most.into()), meaning)
    }

    /// The same, or `unlimited`.
    pub(crate) fn size_or_unlimited(most: u32, meaning: &'static str) -> KeyOf<u32> {
        KeyOf::new(Kind::SizeOrUnlimited(most.into()), meaning)
    }

    /// A whole number within limits.
    pub(crate) fn whole<N: Field + Into<u64>>(
        least: N,
        most: N,
        meaning: &'static str,
    ) -> KeyOf<N> {
        KeyOf::new(Kind::Count(least.into(), most.into()), meaning)
    }

    /// A whole number from 1.
    pub(crate) fn count(meaning: &'static str) -> KeyOf<u32> {
        whole(1, u32::MAX, meaning)
    }

    /// A whole number from 1, or `unlimited`.
    pub(crate) fn count_or_unlimited(most: u32, meaning: &'static str) -> KeyOf<u32> {
        KeyOf::new(Kind::CountOrUnlimited(1, most.into()), meaning)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::diagnostics::Diagnostics;
    use crate::document;
    use crate::keys;
    use crate::schema::{ArrivalKind, FaultKind, FaultRow, Traffic};
    use crate::settings::{default_value, read_row};

    fn read<S: Section>(text: &str) -> (S, Diagnostics) {
        let mut diagnostics = Diagnostics::default();
        let (source, tree) = document::parse("x.toml", text, &mut diagnostics);
        let place = Place {
            source,
            start: 0,
            end: 0,
        };
        let section = read_row(&tree.expect("TOML"), place, &mut diagnostics);
        (section, diagnostics)
    }

    #[test]
    fn a_key_that_is_needed_and_not_set_is_named() {
        let (row, mut diagnostics) =
            read::<FaultRow>("kind = \"host-dies\"\nhost = 1\nat = \"0 s\"");
        assert!(!diagnostics.has_errors(), "{diagnostics}");
        assert_eq!(row.host.get().ok(), Some(1));
        // The share of lost frames says nothing of a host that dies.
        assert_eq!(diagnostics.tell(row.rate.get()), None);
        let text = diagnostics.to_string();
        assert!(
            text.contains("`rate` in [[fault]] is needed and not set"),
            "{text}"
        );
    }

    #[test]
    fn what_is_wrong_is_said_once() {
        let (row, mut diagnostics) = read::<FaultRow>("kind = \"loss\"\nrate = \"2 ms\"");
        let told = diagnostics.error_count();
        assert_eq!(told, 1, "{diagnostics}");
        assert_eq!(diagnostics.tell(row.rate.get()), None);
        assert_eq!(diagnostics.error_count(), told);
    }

    #[test]
    fn each_word_means_a_value_of_its_own() {
        let mut words = BTreeSet::new();
        for (kind, word) in FaultKind::ALL.iter().zip(FaultKind::WORDS) {
            assert_eq!(kind.word(), *word);
            assert_eq!(FaultKind::of_word(word), Some(*kind));
            assert!(words.insert(word), "{word} stands twice");
        }
        assert_eq!(FaultKind::of_word("explodes"), None);
    }

    #[test]
    fn a_key_makes_the_choice_that_it_counts_with() {
        let sent = |chosen: &str| {
            format!("{chosen}\npattern = \"uniform\"\nsize = \"64 B\"\nstop = \"1 s\"")
        };
        for (text, chosen) in [
            (sent("window = 4"), ArrivalKind::Window),
            (sent("rate = \"5/s\""), ArrivalKind::Open),
            (
                "collective = \"all-reduce\"".to_owned(),
                ArrivalKind::Collective,
            ),
            ("program = \"nas-is\"".to_owned(), ArrivalKind::Program),
        ] {
            let (traffic, diagnostics) = read::<Traffic>(&text);
            assert!(!diagnostics.has_errors(), "{diagnostics}");
            assert_eq!(traffic.arrivals.known(), Some(chosen), "{text}");
        }
        // What is written holds, and two that choose differently choose nothing.
        for text in [
            "arrivals = \"open\"\nrate = \"5/s\"\nwindow = 4",
            "window = 4\ncollective = \"all-reduce\"",
        ] {
            let (traffic, diagnostics) = read::<Traffic>(&sent(text));
            assert_eq!(traffic.arrivals.known(), Some(ArrivalKind::Open), "{text}");
            let told = diagnostics.to_string();
            assert!(
                told.contains("`window` in [traffic] has no effect here"),
                "{told}"
            );
        }
    }

    #[test]
    fn fields_are_read_in_the_order_of_their_keys() {
        let (traffic, diagnostics) = read::<Traffic>(
            "pattern = \"incast\"\ntarget = 3\nrate = \"5/s\"\nsize = \"64 B\"\nstop = \"1 s\"",
        );
        assert!(!diagnostics.has_errors(), "{diagnostics}");
        assert_eq!(traffic.target.get().ok(), Some(3));
        assert_eq!(traffic.rate.get().ok(), Some(5.0));
        assert_eq!(traffic.sizes.size.get().ok(), Some(64));
        let named: Vec<&str> = traffic.list().iter().map(|it| it.key().name).collect();
        let declared: Vec<&str> = Traffic::table().keys.iter().map(|key| key.name).collect();
        assert_eq!(named, declared);
    }

    #[test]
    fn defaults_are_values_of_their_keys_and_conditions_name_keys_above() {
        for table in keys::tables() {
            let mut above: Vec<&Key> = Vec::new();
            for key in &table.keys {
                let name = format!("{}.{}", table.name, key.name);
                assert!(
                    above.iter().all(|it| it.name != key.name),
                    "{name} stands twice"
                );
                if let Fallback::Value(text) = key.fallback {
                    assert!(
                        default_value(key, text).is_some(),
                        "{name} cannot be {text}"
                    );
                }
                for (governing, words) in &key.when {
                    let found = above.iter().find(|it| it.name == *governing);
                    let kind = found.map(|it| it.kind);
                    let Some(Kind::Choice(choices)) = kind else {
                        panic!("{name} hangs on {governing}, which is no choice above it");
                    };
                    assert!(words.iter().all(|word| choices.contains(word)), "{name}");
                }
                for other in key.excludes {
                    assert!(
                        table.find(other.key()).is_some(),
                        "{name} excludes {other:?}"
                    );
                }
                if key.chooses {
                    assert!(
                        matches!(key.when[..], [(_, ref words)] if words.len() == 1),
                        "{name} does not say what it chooses"
                    );
                }
                above.push(key);
            }
        }
    }
}
