//! Checkpoints: everything a run needs to go on as if it had never stopped.
//!
//! A run's random draws are keyed, so its state between rounds is small: what the server holds, what clients keep, the
//! prior variance once it is chosen, and how far the files have got. A checkpoint is written under a temporary name, synced
//! and renamed; the last two are kept, so that a damaged one costs a few rounds and no more.

mod format;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::RunError;
use crate::config::{Checked, CheckpointConfig};
use crate::exclusion::Tally;
use crate::files::write_whole;
use crate::record::{Seconds, Traffic};
use crate::simulation::Snapshot;
pub use format::{BODY, sealed};
use format::{Unreadable, decode, encode};
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
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        encode(self)
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// Bytes that are no checkpoint, damaged, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|error| error.to_string())
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

/// Why there is no checkpoint to go on from.
#[derive(Debug, Error)]
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
    /// None of them can be read.
    #[error("no checkpoint in {folder} can be read: {reasons}", folder = folder.display())]
    Damaged {
        /// Where they are.
        folder: PathBuf,
        /// Each with what is wrong.
        reasons: String,
    },
}

/// The settings that a checkpoint belongs to: all but threads, how often checkpoints are written, and where the data is.
#[must_use]
pub fn settings(config: &Checked) -> String {
    let mut config = (**config).clone();
    config.threads = 0;
    config.checkpoint = CheckpointConfig::defaults();
    config.data.dir = PathBuf::new();
    config.data.files.train = PathBuf::new();
    config.data.files.test = PathBuf::new();
    config.partition.path = PathBuf::new();
    serde_json::to_string(&config).unwrap_or_default()
}

/// Writes checkpoints when they are due, and never spends more than a fiftieth of the run on them.
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
    pub(crate) fn new(run: &Path, config: &Checked) -> Self {
        let (folder, settings) = (folder(run), settings(config));
        let cost = Duration::ZERO;
        Self { folder, config: config.checkpoint.clone(), settings, last: Instant::now(), cost }
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
    pub(crate) fn write(&mut self, snapshot: Snapshot, progress: Progress) -> Result<u64, RunError> {
        let started = Instant::now();
        let path = self.folder.join(name(snapshot.round));
        fs::create_dir_all(&self.folder).map_err(RunError::write(&self.folder))?;
        let checkpoint = Checkpoint { snapshot, settings: self.settings.clone(), progress };
        let bytes =
            encode(&checkpoint).map_err(|error| RunError::write(&path)(std::io::Error::other(error)))?;
        write_whole(&path, &bytes)?;
        let mut oldest = checkpoint.snapshot.round;
        for (place, (round, path)) in list(&self.folder).into_iter().enumerate() {
            if place < KEPT {
                oldest = oldest.min(round);
            } else {
                // One that stays behind is in nobody's way.
                let _ = fs::remove_file(path);
            }
        }
        (self.last, self.cost) = (Instant::now(), started.elapsed());
        Ok(oldest)
    }
}

/// A run is complete: its checkpoints have done their work.
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
        let read = fs::read(&path).map_err(|error| Unreadable::Damaged(error.to_string()));
        match read.and_then(|bytes| decode(&bytes)) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(Unreadable::TooNew { version }) => return Err(CheckpointError::TooNew { path, version }),
            Err(Unreadable::Damaged(reason)) => {
                tracing::warn!("{} cannot be used: {reason}", path.display());
                reasons.push(format!("{} ({reason})", path.display()));
            }
        }
    }
    if reasons.is_empty() {
        return Ok(None);
    }
    Err(CheckpointError::Damaged { folder, reasons: reasons.join(", ") })
}
