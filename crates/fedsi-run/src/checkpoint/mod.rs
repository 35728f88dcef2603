//! Checkpoints: everything a run needs to continue as if it had never stopped.
//!
//! A run's random draws are keyed, so its state between rounds is small: what the server holds, what clients keep, the
//! prior variance once it is chosen, and how far the files have got. A checkpoint is written under a temporary name, synced
//! and renamed; the last two are kept, so that a damaged one costs a few rounds and no more.

mod format;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fedsi_fl::Config;
use fedsi_fl::config::CheckpointConfig;
use fedsi_fl::simulation::{Snapshot, Tally};
use fedsi_fl::wire::Traffic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files::{WriteError, write_failed, write_whole};
use crate::settings::{DataPaths, result_settings};
use crate::summary::Seconds;
pub use format::{BODY, CheckpointFormatError, sealed};
use format::{decode, encode};
pub(crate) use format::{decode_state, encode_state};

/// How many are kept.
const KEPT: usize = 2;

/// A run between two rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The federation.
    pub snapshot: Snapshot,
    /// Which settings it belongs to: the config without what changes no result.
    pub settings: String,
    /// How far the run's files and figures have got.
    pub progress: Progress,
}

impl Checkpoint {
    /// The file's bytes.
    ///
    /// # Errors
    /// The format's own limits.
    pub fn encode(&self) -> Result<Vec<u8>, CheckpointFormatError> {
        encode(self)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are no checkpoint, damaged, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CheckpointFormatError> {
        decode(bytes)
    }
}

/// How far a run's files and figures have got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Length of `metrics.jsonl` in bytes: lines after it belong to rounds that are made again.
    pub metrics: u64,
    /// Time spent so far.
    pub seconds: Seconds,
    /// What travelled so far.
    pub bytes: Traffic,
    /// Who was left out so far, and which rounds were skipped.
    #[serde(default)]
    pub trouble: Tally,
}

/// Why there is no checkpoint to continue from. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A newer fedsi wrote it.
    #[error("{path} is a checkpoint of version {version}, and this fedsi knows {known}: use the newer fedsi that wrote it",
        path = path.display(), known = format::VERSION)]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// An older fedsi wrote it.
    #[error("{path} is a checkpoint of version {version}, and this fedsi reads {known}: use the older fedsi that wrote it",
        path = path.display(), known = format::VERSION)]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// None of them can be read.
    #[error("no checkpoint in {folder} can be read: {reasons}", folder = folder.display())]
    Damaged {
        /// Where they are.
        folder: PathBuf,
        /// Each with what is wrong.
        reasons: String,
    },
}

/// The settings that a checkpoint belongs to, as text. Where the data is does not matter: it may have been moved.
///
/// # Errors
/// Settings that cannot be written as JSON.
pub fn settings(config: &Config) -> Result<String, serde_json::Error> {
    serde_json::to_string(&result_settings(config, DataPaths::Ignore))
}

/// Writes checkpoints when they are due; by time it never spends more than a fiftieth of the run on them.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    config: CheckpointConfig,
    settings: String,
    last: Instant,
    /// How long the last one took.
    cost: Duration,
}

impl Writer {
    pub(crate) fn new(run: &Path, config: &Config) -> Result<Self, WriteError> {
        let folder = folder(run);
        let settings = settings(config).map_err(|error| write_failed(&folder)(error.into()))?;
        let (last, cost) = (Instant::now(), Duration::ZERO);
        Ok(Self { folder, config: config.checkpoint.clone(), settings, last, cost })
    }

    /// Whether one is due after this round.
    pub(crate) fn is_due(&self, round: u64) -> bool {
        let CheckpointConfig { rounds, seconds, .. } = self.config;
        let by_rounds = rounds > 0 && round.is_multiple_of(rounds);
        // Fifty times its own cost: a fiftieth of the time.
        let by_time =
            seconds > 0.0 && self.last.elapsed() >= Duration::from_secs_f64(seconds).max(50 * self.cost);
        by_rounds || by_time
    }

    /// Writes one and removes those that are older than the last two. Returns the round of the oldest that is left.
    pub(crate) fn write(&mut self, snapshot: Snapshot, progress: Progress) -> Result<u64, WriteError> {
        let started = Instant::now();
        let path = self.folder.join(name(snapshot.server.round));
        fs::create_dir_all(&self.folder).map_err(write_failed(&self.folder))?;
        let checkpoint = Checkpoint { snapshot, settings: self.settings.clone(), progress };
        let bytes = encode(&checkpoint).map_err(|error| write_failed(&path)(std::io::Error::other(error)))?;
        write_whole(&path, &bytes)?;
        let newest = checkpoint.snapshot.server.round;
        let mut oldest = newest;
        let all = list(&self.folder).into_iter();
        // Those of later rounds are left of a run that could not be continued from them: this one goes its own way.
        let (later, own): (Vec<_>, Vec<_>) = all.partition(|(round, _)| *round > newest);
        for (_, path) in later {
            let _ = fs::remove_file(path);
        }
        for (place, (round, path)) in own.into_iter().enumerate() {
            if place < KEPT {
                oldest = oldest.min(round);
            } else {
                // Best effort: an old checkpoint that stays costs disk space only.
                let _ = fs::remove_file(path);
            }
        }
        (self.last, self.cost) = (Instant::now(), started.elapsed());
        Ok(oldest)
    }
}

/// Removes all checkpoints: the run is complete.
pub(crate) fn remove_all(run: &Path) {
    for (_, path) in list(&folder(run)) {
        let _ = fs::remove_file(path);
    }
}

/// Where a run's checkpoints are.
fn folder(run: &Path) -> PathBuf {
    run.join("checkpoint")
}

fn name(round: u64) -> String {
    format!("round-{round:08}.fedsi")
}

/// The checkpoints in a folder, the newest first.
fn list(folder: &Path) -> Vec<(u64, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let round =
                entry.file_name().to_str()?.strip_prefix("round-")?.strip_suffix(".fedsi")?.parse().ok()?;
            Some((round, entry.path()))
        })
        .collect();
    found.sort_by_key(|(round, _)| std::cmp::Reverse(*round));
    found
}

/// The newest checkpoint of a run that can be read; none where none was written. One that is damaged is named in the log
/// and the one before it taken.
///
/// # Errors
/// Only damaged ones, or one that a newer fedsi wrote.
pub fn latest(run: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
    let folder = folder(run);
    let mut reasons = Vec::new();
    for (_, path) in list(&folder) {
        let reason = match fs::read(&path).map(|bytes| decode(&bytes)) {
            Ok(Ok(checkpoint)) => return Ok(Some(checkpoint)),
            Ok(Err(CheckpointFormatError::TooNew { version })) => {
                return Err(CheckpointError::TooNew { path, version });
            }
            Ok(Err(CheckpointFormatError::TooOld { version })) => {
                return Err(CheckpointError::TooOld { path, version });
            }
            Ok(Err(damaged)) => damaged.to_string(),
            Err(unreadable) => unreadable.to_string(),
        };
        tracing::warn!("{} cannot be used: {reason}", path.display());
        reasons.push(format!("{} ({reason})", path.display()));
    }
    if reasons.is_empty() {
        return Ok(None);
    }
    Err(CheckpointError::Damaged { folder, reasons: reasons.join(", ") })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fedsi_data::Size;
    use fedsi_fl::ClientStates;
    use fedsi_fl::parameters::SharedParameters;
    use fedsi_fl::server::ServerState;

    use super::*;

    /// Files of rounds that a run which started over has not come to yet must not take the places of its own.
    #[test]
    fn checkpoints_that_could_not_be_used_make_way() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = folder(scratch.path());
        fs::create_dir_all(&folder).unwrap();
        for round in [48, 50] {
            fs::write(folder.join(name(round)), b"damaged").unwrap();
        }
        let config = Config::defaults("fedavg", "digits", Size::Small).unwrap();
        let mut writer = Writer::new(scratch.path(), &config).unwrap();
        for round in 1..=3 {
            let shared = Arc::new(SharedParameters::Point(vec![0.5]));
            let server = ServerState { round, skipped_in_a_row: 0, shared, prior_variance: None };
            let snapshot = Snapshot { server, clients: ClientStates::Held([].into()) };
            writer.write(snapshot, Progress::default()).unwrap();
        }
        let rounds: Vec<u64> = list(&folder).into_iter().map(|(round, _)| round).collect();
        assert_eq!(rounds, [3, 2]);
        assert_eq!(latest(scratch.path()).unwrap().unwrap().snapshot.server.round, 3);
    }
}
