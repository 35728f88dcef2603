//! The rounds of a run, with their lines in `metrics.jsonl` and their checkpoints.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Instant;

use fedsi_fl::{Checked, Simulation};

use super::Observer;
use crate::RunError;
use crate::checkpoint::{self, Progress};
use crate::files::write_failed;

/// The rounds that are left, a line each in `metrics.jsonl`, with checkpoints between them: when due, after the last, and
/// where the run stops early.
pub(super) fn train(
    simulation: &mut Simulation,
    config: &Checked,
    path: &Path,
    mut progress: Progress,
    observer: &mut dyn Observer,
    started: Instant,
) -> Result<Progress, RunError> {
    let metrics = path.join("metrics.jsonl");
    let mut lines = open_metrics(&metrics, progress.metrics)?;
    let mut checkpoints = checkpoint::Writer::new(path, config)?;
    let earlier = progress.seconds.total;
    let save = |checkpoints: &mut checkpoint::Writer,
                simulation: &mut Simulation,
                progress: &mut Progress,
                lines: &File| {
        // What a checkpoint says of the file must be on the disk before it.
        lines.sync_data().map_err(write_failed(&metrics))?;
        progress.seconds.total = earlier + started.elapsed().as_secs_f64();
        let oldest = checkpoints.write(simulation.snapshot()?, progress.clone())?;
        simulation.discard_before(oldest);
        Ok::<_, RunError>(())
    };
    while simulation.server().round() < config.rounds as u64 {
        if observer.wants_to_stop() {
            save(&mut checkpoints, simulation, &mut progress, &lines)?;
            let round = simulation.server().round();
            return Err(RunError::Interrupted { round, rounds: config.rounds });
        }
        let (begun, before) = (Instant::now(), simulation.server().round());
        let record = match simulation.round() {
            Ok(record) => record,
            Err(error) => {
                // Where the round was not begun on the server, the state is that of the round before and worth keeping.
                // Else it is half of a round that the metrics do not have: an earlier checkpoint makes it again.
                if simulation.server().round() == before
                    && let Err(unsaved) = save(&mut checkpoints, simulation, &mut progress, &lines)
                {
                    tracing::warn!("no checkpoint could be written: {unsaved}");
                }
                return Err(error.into());
            }
        };
        progress.bytes += record.bytes;
        progress.trouble.add(&record);
        let line = serde_json::to_string(&record).map_err(|error| write_failed(&metrics)(error.into()))?;
        writeln!(lines, "{line}").map_err(write_failed(&metrics))?;
        progress.metrics += line.len() as u64 + 1;
        progress.seconds.posterior += record.seconds.posterior;
        progress.seconds.train += begun.elapsed().as_secs_f64() - record.seconds.posterior;
        observer.round(&record);
        let round = simulation.server().round();
        if checkpoints.is_due(round) || round == config.rounds as u64 {
            save(&mut checkpoints, simulation, &mut progress, &lines)?;
        }
    }
    Ok(progress)
}

/// `metrics.jsonl` with its first `length` bytes: what comes after them is made again.
fn open_metrics(path: &Path, length: u64) -> Result<File, RunError> {
    let mut file =
        File::options().create(true).truncate(false).write(true).open(path).map_err(write_failed(path))?;
    if file.metadata().map_err(write_failed(path))?.len() < length {
        return Err(RunError::MetricsCut { path: path.to_owned() });
    }
    file.set_len(length).map_err(write_failed(path))?;
    file.seek(SeekFrom::Start(length)).map_err(write_failed(path))?;
    Ok(file)
}
