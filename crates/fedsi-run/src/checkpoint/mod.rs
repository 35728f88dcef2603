//! Checkpoints: everything a run needs to continue as if it had never stopped.
//!
//! A run's random draws are keyed, so its state between rounds is small: what the server holds, what clients keep, the
//! prior variance once it is chosen, and the rounds' metrics. A checkpoint is written under a temporary name, synced
//! and renamed; the last two are kept, so that a damaged one costs a few rounds and no more.

mod format;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fedsi_fl::Config;
use fedsi_fl::config::CheckpointConfig;
use fedsi_fl::coordinator::{Snapshot, SnapshotError, Tally};
use fedsi_fl::wire::Traffic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::files::{Readers, WriteError, create_folder, remove_file, write_failed, write_for};
use crate::origin::Origin;
use crate::settings::settings_text;
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
    /// What the run is made from.
    pub origin: Origin,
    /// All of `metrics.jsonl` so far.
    pub metrics: String,
    /// How far the run's figures have got.
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

/// How far a run's figures have got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Time spent so far.
    pub seconds: Seconds,
    /// What travelled so far.
    pub bytes: Traffic,
    /// Who was left out so far, and which rounds were skipped.
    #[serde(default)]
    pub trouble: Tally,
    /// The kinds of CPU that computed the rounds so far, in order.
    #[serde(default)]
    pub cpus: Vec<String>,
}

/// Why a run cannot continue from any of its checkpoints. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Another version of fedsi wrote it.
    #[error("{path}: {source}; use the fedsi that wrote it", path = path.display())]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        source: CheckpointFormatError,
    },
    /// The folder's config.toml was changed since it was written.
    #[error("{path} is of a run with other settings than its config.toml", path = path.display())]
    OtherSettings {
        /// The file.
        path: PathBuf,
    },
    /// It is not one of this simulation.
    #[error("{path} does not fit: {source}", path = path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SnapshotError,
    },
    /// It cannot be read, or is damaged.
    #[error("{path} cannot be used: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl CheckpointError {
    /// Whether nothing but time is lost where the run starts over: the same settings give the same bits.
    pub(crate) const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

/// Writes checkpoints when they are due; by time it never spends more than a fiftieth of the run on them.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    config: CheckpointConfig,
    settings: String,
    origin: Origin,
    /// How many are kept.
    kept: usize,
    last: Instant,
    /// How long the last one took.
    cost: Duration,
}

impl Writer {
    pub(crate) fn new(run: &Path, config: &Config, origin: Origin) -> Result<Self, WriteError> {
        let folder = folder(run);
        let settings = settings_text(config).map_err(|error| write_failed(&folder)(error.into()))?;
        let (last, cost) = (Instant::now(), Duration::ZERO);
        Ok(Self { folder, config: config.checkpoint.clone(), settings, origin, kept: KEPT, last, cost })
    }

    /// No older one is kept beside the newest: none may be gone back to.
    pub(crate) const fn keep_newest_only(&mut self) {
        self.kept = 1;
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

    /// Writes one and removes those that are older than the last ones that are kept. Returns the round of the oldest that is left.
    pub(crate) fn write(
        &mut self,
        snapshot: Snapshot,
        metrics: &str,
        progress: Progress,
    ) -> Result<u64, WriteError> {
        let started = Instant::now();
        let path = self.folder.join(name(snapshot.server.round));
        create_folder(&self.folder, Readers::Umask)?;
        let (settings, origin, metrics) = (self.settings.clone(), self.origin.clone(), metrics.to_owned());
        let checkpoint = Checkpoint { snapshot, settings, origin, metrics, progress };
        let bytes = encode(&checkpoint).map_err(|error| write_failed(&path)(std::io::Error::other(error)))?;
        write_for(Readers::Owner, &path, &bytes)?;
        let newest = checkpoint.snapshot.server.round;
        let mut oldest = newest;
        let all = list(&self.folder).into_iter();
        // Those of later rounds are left of a run that could not be continued from them: this one goes its own way.
        let (later, own): (Vec<_>, Vec<_>) = all.partition(|(round, _)| *round > newest);
        for (_, path) in later {
            let _ = remove_file(&path);
        }
        for (place, (round, path)) in own.into_iter().enumerate() {
            if place < self.kept {
                oldest = oldest.min(round);
            } else {
                // Best effort: an old checkpoint that stays costs disk space only.
                let _ = remove_file(&path);
            }
        }
        (self.last, self.cost) = (Instant::now(), started.elapsed());
        Ok(oldest)
    }
}

/// Where a run's checkpoints are.
pub(crate) fn folder(run: &Path) -> PathBuf {
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

/// Which checkpoints a run may continue from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usable {
    /// The newest that is whole.
    Any,
    /// The newest, or none.
    Newest,
}

/// What `restore` makes of the newest checkpoint of a run that it can use; none where there are no checkpoints. One that
/// cannot be used, whatever the reason, is named in the log, and the one before it tried where it may be.
///
/// # Errors
/// None can be used: what is wrong with the newest, damage coming last.
pub(crate) fn newest_usable<T>(
    run: &Path,
    usable: Usable,
    mut restore: impl FnMut(&Path, Checkpoint) -> Result<T, CheckpointError>,
) -> Result<Option<T>, CheckpointError> {
    let mut errors = Vec::new();
    for (_, path) in list(&folder(run)) {
        match read(&path).and_then(|checkpoint| restore(&path, checkpoint)) {
            Ok(restored) => {
                errors.iter().for_each(|error| tracing::warn!("{error}; an older checkpoint is used"));
                return Ok(Some(restored));
            }
            Err(error) if usable == Usable::Newest => return Err(error),
            Err(error) => errors.push(error),
        }
    }
    errors.sort_by_key(CheckpointError::is_damage);
    errors.into_iter().next().map_or(Ok(None), Err)
}

/// Reads a checkpoint's file.
fn read(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let damaged = |reason: String| CheckpointError::Damaged { path: path.to_owned(), reason };
    let bytes = fs::read(path).map_err(|error| damaged(error.to_string()))?;
    decode(&bytes).map_err(|error| match error {
        CheckpointFormatError::OtherVersion { .. } => {
            CheckpointError::OtherVersion { path: path.to_owned(), source: error }
        }
        other => damaged(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use fedsi_fl::calibration::Calibration;
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
        let mut writer = Writer::new(scratch.path(), &config, Origin::default()).unwrap();
        for round in 1..=3 {
            let modes = vec![Arc::new(SharedParameters::Point(vec![0.5]))];
            let calibration = Calibration::default();
            let server = ServerState { round, skipped_in_a_row: 0, modes, calibration, privacy_key: None };
            let snapshot = Snapshot { server, clients: ClientStates::Held([].into()) };
            writer.write(snapshot, "", Progress::default()).unwrap();
        }
        let rounds: Vec<u64> = list(&folder).into_iter().map(|(round, _)| round).collect();
        assert_eq!(rounds, [3, 2]);
        let round = |_: &Path, checkpoint: Checkpoint| Ok(checkpoint.snapshot.server.round);
        assert_eq!(newest_usable(scratch.path(), Usable::Any, round).unwrap(), Some(3));
        // Whatever is wrong with the newest, the one before it serves.
        let newest = folder.join(name(3));
        let whole = fs::read(&newest).unwrap();
        for at in [0, 8, 11, 20, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            fs::write(&newest, changed).unwrap();
            assert_eq!(newest_usable(scratch.path(), Usable::Any, round).unwrap(), Some(2), "byte {at}");
        }
        fs::write(&newest, whole).unwrap();
        let refused = |path: &Path, checkpoint: Checkpoint| match checkpoint.snapshot.server.round {
            3 => Err(CheckpointError::OtherSettings { path: path.to_owned() }),
            round => Ok(round),
        };
        assert_eq!(newest_usable(scratch.path(), Usable::Any, refused).unwrap(), Some(2));
    }
}
