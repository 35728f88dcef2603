//! The rounds of a run, with their lines in `metrics.jsonl` and their checkpoints.

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use fedsi_fl::{Checked, Simulation};

use super::Observer;
use crate::RunError;
use crate::checkpoint::{self, Progress};
use crate::files::{Readers, append, open_to_append, write_failed, write_whole};
use crate::folder::RunFolder;
use crate::origin::Origin;

/// How far the rounds have come, and the files that say so.
pub(super) struct Rounds<'a> {
    folder: &'a RunFolder,
    /// `metrics.jsonl`, and its lines: every checkpoint has them all, so that the file can be made from it.
    path: PathBuf,
    file: File,
    lines: String,
    checkpoints: checkpoint::Writer,
    pub(super) progress: Progress,
}

impl<'a> Rounds<'a> {
    /// Goes on after these lines; `metrics.jsonl` has them and no others, whatever became of it.
    pub(super) fn new(
        folder: &'a RunFolder,
        config: &Checked,
        origin: &Origin,
        lines: String,
        progress: Progress,
    ) -> Result<Self, RunError> {
        let path = folder.path().join("metrics.jsonl");
        write_whole(&path, lines.as_bytes())?;
        let file = open_to_append(&path, Readers::Umask)?;
        let checkpoints = checkpoint::Writer::new(folder.path(), config, origin.clone())?;
        Ok(Self { folder, path, file, lines, checkpoints, progress })
    }

    /// The rounds that are left, a line each in `metrics.jsonl`, with checkpoints between them: when due, after the last,
    /// and where the run stops early.
    pub(super) fn train(
        &mut self,
        simulation: &mut Simulation,
        config: &Checked,
        observer: &mut dyn Observer,
        started: Instant,
    ) -> Result<(), RunError> {
        let earlier = self.progress.seconds.total;
        let total = || earlier + started.elapsed().as_secs_f64();
        if config.privacy.is_on() && simulation.server().round() == 0 {
            // Its key cannot be drawn a second time: without it a run that is killed could not be made again.
            self.save(simulation, total())?;
        }
        while simulation.server().round() < config.rounds as u64 {
            if observer.wants_to_stop() {
                self.save(simulation, total())?;
                let round = simulation.server().round();
                return Err(RunError::Interrupted { round, rounds: config.rounds });
            }
            let (begun, before) = (Instant::now(), simulation.server().round());
            let record = match simulation.round() {
                Ok(record) => record,
                Err(error) => {
                    // Where the round was not begun on the server, the state is that of the round before and worth
                    // keeping. Else it is half of a round that the metrics do not have: an earlier checkpoint makes it
                    // again.
                    if simulation.server().round() == before
                        && let Err(unsaved) = self.save(simulation, total())
                    {
                        tracing::warn!("no checkpoint could be written: {unsaved}");
                    }
                    return Err(error.into());
                }
            };
            self.folder.check_held()?;
            self.progress.bytes += record.bytes;
            self.progress.trouble.add(&record);
            let line =
                serde_json::to_string(&record).map_err(|error| write_failed(&self.path)(error.into()))?;
            let start = self.lines.len();
            self.lines.push_str(&line);
            self.lines.push('\n');
            append(&mut self.file, &self.path, &self.lines.as_bytes()[start..])?;
            self.progress.seconds.posterior += record.seconds.posterior;
            self.progress.seconds.train += begun.elapsed().as_secs_f64() - record.seconds.posterior;
            observer.round(&record);
            let round = simulation.server().round();
            if self.checkpoints.is_due(round) || round == config.rounds as u64 {
                self.save(simulation, total())?;
            }
        }
        Ok(())
    }

    fn save(&mut self, simulation: &mut Simulation, seconds: f64) -> Result<(), RunError> {
        self.progress.seconds.total = seconds;
        let oldest = self.checkpoints.write(simulation.snapshot()?, &self.lines, self.progress.clone())?;
        simulation.discard_before(oldest);
        Ok(())
    }
}
