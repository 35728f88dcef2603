//! What folders may hold after a sequence of commands.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;
use proptest_state_machine::ReferenceStateMachine;

use crate::program::{Damage, Observed};

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A folder of its own.
    Run,
    /// Within a comparison.
    Compared,
}

/// Two settings that give different results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Settings {
    Short,
    Long,
}

/// What identifies a run's results: its settings and the version of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) settings: Settings,
    pub(crate) data: u8,
}

/// What somebody types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run { settings: Settings, force: bool },
    Resume,
    Report(Place),
    Compare { settings: Settings, force: bool },
}

impl Command {
    const fn place(self) -> Place {
        match self {
            Self::Run { .. } | Self::Resume => Place::Run,
            Self::Report(place) => place,
            Self::Compare { .. } => Place::Compared,
        }
    }
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) enum Transition {
    /// A command, killed before this many changes of files where there is a number.
    Do(Command, Option<u16>),
    /// A command, and a second one while the first has made this many changes.
    SideBySide(Command, Command, u16),
    /// A file is damaged that a run can do without.
    Damage(Place, Damage),
    /// The data is another one from here on.
    ChangeData(u8),
}

/// Everything that a folder may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    absent: bool,
    complete: BTreeSet<Key>,
    unfinished: BTreeSet<Key>,
}

impl Allowed {
    pub(crate) fn absent() -> Self {
        Self { absent: true, ..Self::default() }
    }

    fn complete(key: Key) -> Self {
        Self { complete: [key].into(), ..Self::default() }
    }

    fn unfinished(key: Key) -> Self {
        Self { unfinished: [key].into(), ..Self::default() }
    }

    fn or(mut self, other: Self) -> Self {
        self.absent |= other.absent;
        self.complete.extend(other.complete);
        self.unfinished.extend(other.unfinished);
        self
    }

    /// Whether what was found is one of them.
    pub(crate) fn permits(&self, observed: &Observed) -> bool {
        match observed {
            Observed::Absent => self.absent,
            Observed::Complete(key) => self.complete.contains(key),
            Observed::Resumable(key) => {
                // A run that was killed before it had looked at its data is made on what is there.
                self.unfinished.iter().any(|begun| begun.settings == key.settings)
            }
            Observed::OtherData(settings) => self.unfinished.iter().any(|key| key.settings == *settings),
            Observed::Broken(_) => false,
        }
    }

    /// What may be there after a command that was not killed.
    fn after(&self, command: Command, data: u8) -> Self {
        let mut next = Self::default();
        if self.absent {
            next = next.or(from_absent(command, data));
        }
        for &key in &self.complete {
            next = next.or(from_complete(command, key, data));
        }
        for &key in &self.unfinished {
            next = next.or(from_unfinished(command, key, data));
        }
        next
    }

    /// What may be there after one that was killed somewhere on its way.
    fn after_kill(&self, command: Command, data: u8) -> Self {
        let whole = self.after(command, data);
        let begun = whole.complete.iter().fold(Self::default(), |all, &key| all.or(Self::unfinished(key)));
        self.clone().or(whole.clone()).or(begun.only_new(self, command))
    }

    /// A complete run that nothing replaces does not become unfinished.
    fn only_new(self, before: &Self, command: Command) -> Self {
        match command {
            Command::Report(_) => Self::default(),
            Command::Run { force: false, .. } if !before.absent => Self::default(),
            Command::Resume if before.unfinished.is_empty() => Self::default(),
            _ => self,
        }
    }
}

fn from_absent(command: Command, data: u8) -> Allowed {
    match command {
        Command::Run { settings, .. } | Command::Compare { settings, .. } => {
            Allowed::complete(Key { settings, data })
        }
        Command::Resume | Command::Report(_) => Allowed::absent(),
    }
}

fn from_complete(command: Command, key: Key, data: u8) -> Allowed {
    match command {
        Command::Run { settings, force: true } => Allowed::complete(Key { settings, data }),
        Command::Run { force: false, .. } | Command::Resume | Command::Report(_) => Allowed::complete(key),
        // Made again where its data changed; one with other settings is replaced by force alone.
        Command::Compare { settings, force } if settings == key.settings || force => {
            Allowed::complete(Key { settings, data })
        }
        Command::Compare { .. } => Allowed::complete(key),
    }
}

fn from_unfinished(command: Command, key: Key, data: u8) -> Allowed {
    let made = |settings| Allowed::complete(Key { settings, data });
    match command {
        Command::Run { settings, force: true } => made(settings),
        Command::Run { force: false, .. } | Command::Report(_) => Allowed::unfinished(key),
        // Refused where its data changed, unless it had not looked at it.
        Command::Resume if key.data == data => made(key.settings),
        Command::Resume => made(key.settings).or(Allowed::unfinished(key)),
        Command::Compare { settings, force } if settings == key.settings || force => made(settings),
        // Kept, unless nothing of it was done.
        Command::Compare { settings, .. } => Allowed::unfinished(key).or(made(settings)),
    }
}

/// What all folders may hold, and which data there is.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) places: BTreeMap<Place, Allowed>,
    pub(crate) data: u8,
}

impl Expected {
    fn update(&mut self, place: Place, next: impl FnOnce(&Allowed) -> Allowed) {
        if let Some(allowed) = self.places.get_mut(&place) {
            *allowed = next(allowed);
        }
    }
}

/// The model.
pub(crate) struct Reference;

fn settings() -> impl Strategy<Value = Settings> {
    prop_oneof![Just(Settings::Short), Just(Settings::Long)]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => (settings(), any::<bool>()).prop_map(|(settings, force)| Command::Run { settings, force }),
        4 => Just(Command::Resume),
        4 => (settings(), any::<bool>()).prop_map(|(settings, force)| Command::Compare { settings, force }),
        1 => prop_oneof![Just(Place::Run), Just(Place::Compared)].prop_map(Command::Report),
    ]
}

impl ReferenceStateMachine for Reference {
    type State = Expected;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Self::State> {
        let places = [(Place::Run, Allowed::absent()), (Place::Compared, Allowed::absent())].into();
        Just(Expected { places, data: 0 }).boxed()
    }

    fn transitions(_: &Self::State) -> BoxedStrategy<Self::Transition> {
        let damage = prop_oneof![
            Just(Damage::Metrics),
            Just(Damage::NewestCheckpoint),
            Just(Damage::EvaluationLog),
            Just(Damage::EvaluationRecord),
            Just(Damage::LeftOver),
        ];
        let place = prop_oneof![Just(Place::Run), Just(Place::Compared)];
        prop_oneof![
            4 => command().prop_map(|command| Transition::Do(command, None)),
            8 => (command(), 0_u16..110).prop_map(|(command, kill)| Transition::Do(command, Some(kill))),
            3 => (command(), command(), 0_u16..110)
                .prop_map(|(first, second, at)| Transition::SideBySide(first, second, at)),
            2 => (place, damage).prop_map(|(place, damage)| Transition::Damage(place, damage)),
            1 => (0_u8..2).prop_map(Transition::ChangeData),
        ]
        .boxed()
    }

    fn apply(mut state: Self::State, transition: &Self::Transition) -> Self::State {
        let data = state.data;
        match *transition {
            Transition::Do(command, None) => state.update(command.place(), |now| now.after(command, data)),
            Transition::Do(command, Some(_)) => {
                state.update(command.place(), |now| now.after_kill(command, data));
            }
            Transition::SideBySide(first, second, _) => {
                state.update(first.place(), |now| now.after(first, data));
                // Refused while the first works in the same folder, unless it comes when that is done.
                let same = first.place() == second.place();
                state.update(second.place(), |now| match same {
                    true => now.clone().or(now.after(second, data)),
                    false => now.after(second, data),
                });
            }
            Transition::Damage(..) => {}
            Transition::ChangeData(version) => state.data = version,
        }
        state
    }
}
