//! A model-based test of run folders: random sequences of runs, kills, replacements, comparisons, reports, damage, changed
//! data and processes side by side. After every step each folder is a whole run that somebody asked for, or can be resumed
//! to one, bit for bit.
//!
//! A kill is an end at one of the points that every change of a file passes (`fedsi_run::crash_points`), after which the
//! process changes nothing more; a second process works while the first is held at such a point. A failing sequence is
//! shortened and printed, and can be repeated.
#![allow(clippy::unwrap_used, clippy::panic)]

mod model;
mod program;

use std::path::PathBuf;

use model::{Allowed, Reference, Transition};
use program::{Damage, Observed, Program};
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

/// The folders of one sequence.
struct Folders {
    program: Program,
    _scratch: tempfile::TempDir,
}

impl StateMachineTest for Folders {
    type SystemUnderTest = Self;
    type Reference = Reference;

    fn init_test(_: &<Self::Reference as ReferenceStateMachine>::State) -> Self {
        let scratch = scratch();
        let program = Program::new(scratch.path());
        Self { program, _scratch: scratch }
    }

    fn apply(
        state: Self,
        _: &<Self::Reference as ReferenceStateMachine>::State,
        transition: Transition,
    ) -> Self {
        match transition {
            Transition::Do(command, kill) => state.program.carry_out(command, kill),
            Transition::SideBySide(first, second, at) => state.program.side_by_side(first, second, at),
            Transition::Damage(place, damage) => state.program.damage(place, damage),
            Transition::ChangeData(version) => state.program.write_data(version),
        }
        state
    }

    fn check_invariants(state: &Self, reference: &<Self::Reference as ReferenceStateMachine>::State) {
        for (place, allowed) in &reference.places {
            let observed = state.program.observe(*place, reference.data);
            assert!(allowed.permits(&observed), "{place:?} is {observed:?}, expected {allowed:?}");
        }
    }
}

/// In memory where there is such a place: sequences are many, and what a crash of the machine would lose is not tested.
fn scratch() -> tempfile::TempDir {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Sequences of one test; two run side by side.
const SEQUENCES: u32 = 1_000;

fn sequences() -> Config {
    // A sequence that once failed is in the repository as a test of its own, not in a file that a tool writes.
    Config { cases: SEQUENCES, failure_persistence: None, max_shrink_iters: 400, ..Config::default() }
}

prop_state_machine! {
    #![proptest_config(sequences())]

    #[test]
    fn folders_are_whole_or_can_be_resumed(sequential 8..14 => Folders);

    #[test]
    fn folders_are_whole_or_can_be_resumed_in_other_sequences(sequential 8..14 => Folders);
}

/// The classification itself can fail: a folder in which two runs are mixed is not taken for one.
#[test]
fn a_mixed_folder_is_noticed() {
    let scratch = scratch();
    let program = Program::new(scratch.path());
    let both = [model::Settings::Short, model::Settings::Long];
    let [short, long] = both.map(|settings| {
        program.carry_out(model::Command::Run { settings, force: true }, None);
        let files = std::fs::read(program.path(model::Place::Run).join("clients/0.safetensors")).unwrap();
        let found = program.observe(model::Place::Run, 0);
        assert_eq!(found, Observed::Complete(model::Key { settings, data: 0 }));
        files
    });
    assert_ne!(short, long);
    std::fs::write(program.path(model::Place::Run).join("clients/0.safetensors"), short).unwrap();
    let found = program.observe(model::Place::Run, 0);
    assert!(matches!(found, Observed::Broken(_)), "{found:?}");
    assert!(!Allowed::absent().permits(&found));
    program.damage(model::Place::Run, Damage::Metrics);
}
