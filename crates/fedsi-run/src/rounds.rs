//! The rounds of a run or of a federation, with their lines in `metrics.jsonl` and their checkpoints.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fedsi_fl::coordinator::RoundRecord;
use fedsi_fl::{Checked, Coordinator};

use crate::RunError;
use crate::checkpoint::{self, Progress};
use crate::files::{Readers, append, open_to_append, write_failed, write_whole};
use crate::folder::FolderError;
use crate::origin::Origin;

/// How far the rounds have come, and the files that say so.
pub(crate) struct Rounds {
    /// `metrics.jsonl`, and its lines: every checkpoint has them all, so that the file can be made from it.
    path: PathBuf,
    file: File,
    lines: String,
    checkpoints: checkpoint::Writer,
    pub(crate) progress: Progress,
    /// When this process began, and what processes before it spent.
    started: Instant,
    earlier: f64,
}

/// How far the files were.
pub(crate) struct Mark {
    lines: usize,
    progress: Progress,
}

impl Rounds {
    /// Goes on after these lines; `metrics.jsonl` in this folder has them and no others, whatever became of it.
    pub(crate) fn new(
        folder: &Path,
        config: &Checked,
        origin: &Origin,
        lines: String,
        progress: Progress,
        started: Instant,
    ) -> Result<Self, RunError> {
        let path = folder.join("metrics.jsonl");
        write_whole(&path, lines.as_bytes())?;
        let file = open_to_append(&path, Readers::Umask)?;
        let checkpoints = checkpoint::Writer::new(folder, config, origin.clone())?;
        let earlier = progress.seconds.total;
        Ok(Self { path, file, lines, checkpoints, progress, started, earlier })
    }

    /// Older checkpoints than the newest are removed, because the rounds must not be continued from them.
    pub(crate) const fn keep_newest_checkpoint_only(&mut self) {
        self.checkpoints.keep_newest_only();
    }

    /// The lines of `metrics.jsonl` so far.
    pub(crate) fn lines(&self) -> &str {
        &self.lines
    }

    /// What cannot be made a second time is saved before the first round: the key of a run with privacy, without which one
    /// that is killed could not be continued.
    pub(crate) fn begin(&mut self, coordinator: &mut Coordinator, config: &Checked) -> Result<(), RunError> {
        if config.privacy.is_on() && coordinator.server().round() == 0 {
            self.save(coordinator)?;
        }
        Ok(())
    }

    /// One round, with its line in `metrics.jsonl`. `check_held` says whether the folder is still the one that was taken.
    pub(crate) fn round(
        &mut self,
        coordinator: &mut Coordinator,
        check_held: impl FnOnce() -> Result<(), FolderError>,
    ) -> Result<RoundRecord, RunError> {
        let (begun, before) = (Instant::now(), coordinator.server().round());
        let record = match coordinator.round() {
            Ok(record) => record,
            Err(error) => {
                // Where the round was not begun on the server, the state is that of the round before and worth
                // keeping. Else it is half of a round that the metrics do not have: an earlier checkpoint makes it
                // again.
                if coordinator.server().round() == before
                    && let Err(unsaved) = self.save(coordinator)
                {
                    tracing::warn!("no checkpoint could be written: {unsaved}");
                }
                return Err(error.into());
            }
        };
        check_held()?;
        self.progress.bytes += record.bytes;
        self.progress.trouble.add(&record);
        let line = serde_json::to_string(&record).map_err(|error| write_failed(&self.path)(error.into()))?;
        let start = self.lines.len();
        self.lines.push_str(&line);
        self.lines.push('\n');
        append(&mut self.file, &self.path, &self.lines.as_bytes()[start..])?;
        self.progress.seconds.posterior += record.seconds.posterior;
        self.progress.seconds.train += begun.elapsed().as_secs_f64() - record.seconds.posterior;
        Ok(record)
    }

    /// Where the files are, to [go back](Self::go_back) to.
    pub(crate) fn mark(&self) -> Mark {
        Mark { lines: self.lines.len(), progress: self.progress.clone() }
    }

    /// Takes back what was written since: the lines of a round that came to nothing.
    pub(crate) fn go_back(&mut self, mark: Mark) -> Result<(), RunError> {
        self.lines.truncate(mark.lines);
        self.progress = mark.progress;
        // Needs no space, as on a disk that is full; not every system lets a file that is appended to be cut.
        if self.file.set_len(mark.lines as u64).is_ok() {
            return Ok(());
        }
        write_whole(&self.path, self.lines.as_bytes())?;
        self.file = open_to_append(&self.path, Readers::Umask)?;
        Ok(())
    }

    /// A checkpoint where one is due, or after the last round.
    pub(crate) fn save_if_due(
        &mut self,
        coordinator: &mut Coordinator,
        config: &Checked,
    ) -> Result<(), RunError> {
        let round = coordinator.server().round();
        if self.checkpoints.is_due(round) || round == config.rounds as u64 {
            self.save(coordinator)?;
        }
        Ok(())
    }

    /// A checkpoint.
    pub(crate) fn save(&mut self, coordinator: &mut Coordinator) -> Result<(), RunError> {
        self.progress.seconds.total = self.earlier + self.started.elapsed().as_secs_f64();
        let oldest = self.checkpoints.write(coordinator.snapshot()?, &self.lines, self.progress.clone())?;
        coordinator.discard_before(oldest);
        Ok(())
    }
}
