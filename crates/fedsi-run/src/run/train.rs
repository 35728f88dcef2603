//! The rounds of a run that are left.

use fedsi_fl::{Checked, Coordinator};

use super::Observer;
use crate::RunError;
use crate::folder::RunFolder;
use crate::rounds::Rounds;

/// Trains the rounds that are left, a line each in `metrics.jsonl`, with checkpoints between them: when due, after the last,
/// and where the run stops early.
pub(super) fn train(
    rounds: &mut Rounds,
    folder: &RunFolder,
    coordinator: &mut Coordinator,
    config: &Checked,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    rounds.begin(coordinator, config)?;
    while coordinator.server().round() < config.rounds as u64 {
        if observer.wants_to_stop() {
            rounds.save(coordinator)?;
            let round = coordinator.server().round();
            return Err(RunError::Interrupted { round, rounds: config.rounds });
        }
        let record = rounds.round(coordinator, || folder.check_held())?;
        observer.round(&record);
        rounds.save_if_due(coordinator, config)?;
    }
    Ok(())
}
