//! A federation between two rounds: taken down, and gone on from.

use std::path::Path;

use super::Simulation;
use crate::RunError;
use crate::aggregate::Shared;
use crate::calibrate;
use crate::personal::{Personal, PersonalStore};
use crate::state::State;

/// Everything that a federation is between two rounds, besides its settings and its data: random draws are keyed, and
/// optimisers start afresh in every round.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Rounds completed.
    pub round: u64,
    /// How many of the newest were skipped, one after another.
    pub skipped_in_a_row: u64,
    /// What the server holds.
    pub shared: Shared,
    /// What clients keep.
    pub personal: Personal,
    /// The prior variance of personal models, once the federation has chosen it.
    pub chosen: Option<f64>,
}

impl Simulation {
    /// From now on what clients keep is in this folder: before the first round.
    pub fn keep_on_disk(&mut self, folder: &Path) {
        self.personal = PersonalStore::on_disk(folder);
    }

    /// The federation as it is. Cost: a copy of what the server holds and of what clients keep in memory.
    ///
    /// # Errors
    /// Clients' state that cannot be synced to disk.
    pub fn snapshot(&mut self) -> Result<Snapshot, RunError> {
        Ok(Snapshot {
            round: self.server.round(),
            skipped_in_a_row: self.server.skipped_in_a_row(),
            shared: self.server.shared().clone(),
            personal: self.personal.snapshot()?,
            chosen: self.chosen,
        })
    }

    /// Goes on from a snapshot of the same run: what comes then is what would have come.
    ///
    /// # Errors
    /// A snapshot of another run.
    pub fn restore(&mut self, snapshot: Snapshot) -> Result<(), String> {
        let Snapshot { round, skipped_in_a_row, shared, personal, chosen } = snapshot;
        if round > self.config.rounds as u64 {
            return Err(format!("it is of round {round}, and the run has {}", self.config.rounds));
        }
        let kept = self.procedure.kept.range(self.network().layout()).len();
        let fits = |(&client, state): (&usize, &State)| {
            client < self.federation.clients()
                && state.values.len() == kept
                && (state.deviation.is_empty() || state.deviation.len() == kept)
        };
        let known = match &personal {
            Personal::Here(parts) => parts.iter().all(fits),
            Personal::OnDisk(rounds) => rounds.keys().all(|&client| client < self.federation.clients()),
        };
        if !known {
            return Err("what it says of clients does not fit this run".to_owned());
        }
        self.server.restore(shared, round, skipped_in_a_row)?;
        self.personal.restore(personal, round)?;
        self.chosen = chosen;
        if self.procedure.calibrates() && round >= calibrate::last_round_with_data_aside(self.config.rounds) {
            self.executor.set_aside(0.0);
        }
        Ok(())
    }

    /// Checkpoints from round `oldest` on are what is left: clients' files that none of them needs go.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        self.personal.forget_before(oldest);
    }
}
