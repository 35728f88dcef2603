//! What a run left in its folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fedsi_data::display_name;
use fedsi_fl::client::Predictions;
use fedsi_fl::coordinator::RoundRecord;
use fedsi_run::Summary;
use fedsi_run::report_data::{REPORT_DATA, REPORT_DATA_0_1, ReportData, read_report_data};
use fedsi_run::saved::verify_digest;

use crate::ReportError;
use crate::data_summary::DataSummary;
use crate::ood::OodReport;

/// What a run wrote, read.
#[derive(Clone, Debug)]
pub struct RunFiles {
    /// `summary.json`.
    pub summary: Summary,
    /// `metrics.jsonl`.
    pub rounds: Vec<RoundRecord>,
    /// `config.toml`, as text.
    pub config: String,
    /// `predictions.safetensors`.
    pub predictions: Predictions,
    /// Whose each prediction is.
    pub owners: Vec<usize>,
    /// `report_data.safetensors`; the oldest runs have none.
    pub report_data: Option<ReportData>,
    /// `data.json`, of runs on tables.
    pub(crate) data: Option<DataSummary>,
    /// `ood.json`, where `fedsi ood` was asked for.
    pub(crate) ood: Option<OodReport>,
}

impl RunFiles {
    /// Reads a complete run.
    ///
    /// # Errors
    /// A folder without `summary.json`, a file that is missing or is not what a run writes.
    pub fn open(folder: &Path) -> Result<Self, ReportError> {
        let path = folder.join("summary.json");
        let summary = match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(content(&path))?,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                let has = |name: &str| folder.join(name).is_file();
                let reason = if !folder.exists() {
                    "does not exist"
                } else if has("config.toml") {
                    "holds a run that is not complete (it has no summary.json)"
                } else if has("compare.toml") {
                    "holds a comparison that is not complete (it has no compare.json), and none of its runs is"
                } else {
                    "is no folder of a run or of a comparison (it has no summary.json and no compare.json)"
                };
                return Err(ReportError::NoRun { path: folder.to_owned(), reason });
            }
            Err(source) => return Err(ReportError::File { path, source }),
        };
        Self::read(folder, summary)
    }

    /// Reads a run's files beside its summary.
    ///
    /// # Errors
    /// A file that is missing or is not what a run writes.
    pub fn read(folder: &Path, mut summary: Summary) -> Result<Self, ReportError> {
        check_counts(&summary).map_err(content(&folder.join("summary.json")))?;
        let rounds = rounds(&folder.join("metrics.jsonl"))?;
        let config = text(&folder.join("config.toml"))?;
        // One that is missing is named, or done without, where it is read.
        for name in summary.files.keys().filter(|name| folder.join(name).exists()) {
            let path = folder.join(name);
            if !verify_digest(&summary.files, name, &bytes(&path)?) {
                let reason = "its bytes are not those that the run wrote: it was damaged or changed";
                return Err(content(&path)(reason));
            }
        }
        let (predictions, owners) = predictions(&folder.join("predictions.safetensors"))?;
        let report_data = report_data(folder)?;
        // Runs of 0.1 have fewer scores, and those of 0.2 no intervals.
        let names = report_data.as_ref().map(|found| &*found.classes);
        summary.complete_scores(&predictions, &owners, names);
        let training_counts =
            |client: usize| report_data.as_ref().and_then(|found| found.train.get(client).cloned());
        summary.complete_details(&predictions, &owners, names, &training_counts);
        let (data, ood) = (DataSummary::read(folder), OodReport::read(folder));
        Ok(Self { summary, rounds, config, predictions, owners, report_data, data, ood })
    }
}

/// Whether what is counted in a summary can be summed up.
fn check_counts(summary: &Summary) -> Result<(), &'static str> {
    let samples = summary.clients.iter().try_fold(0_usize, |sum, client| sum.checked_add(client.samples));
    samples.ok_or("its clients have more samples than can be counted")?;
    let traffic = summary.bytes.up.checked_add(summary.bytes.down);
    traffic.map(drop).ok_or("it has more traffic than can be counted")
}

/// The rounds in `metrics.jsonl`.
pub(crate) fn rounds(path: &Path) -> Result<Vec<RoundRecord>, ReportError> {
    text(path)?.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(content(path))
}

/// The predictions in `predictions.safetensors`, and whose each is.
pub(crate) fn predictions(path: &Path) -> Result<(Predictions, Vec<usize>), ReportError> {
    let bytes = bytes(path)?;
    let predictions = fedsi_run::read_predictions(&bytes).map_err(content(path))?;
    let owners = fedsi_run::read_prediction_clients(&bytes).map_err(content(path))?;
    if owners.len() != predictions.len() {
        return Err(content(path)("`client` is not as long as the predictions"));
    }
    Ok((predictions, owners))
}

fn report_data(folder: &Path) -> Result<Option<ReportData>, ReportError> {
    let paths = [REPORT_DATA, REPORT_DATA_0_1].map(|name| folder.join(name));
    let Some(path) = paths.iter().find(|path| path.exists()) else { return Ok(None) };
    let mut found = read_report_data(&bytes(path)?).map_err(content(path))?;
    // From here on they are only shown.
    for name in &mut found.classes {
        *name = display_name(name);
    }
    Ok(Some(found))
}

fn bytes(path: &Path) -> Result<Vec<u8>, ReportError> {
    fs::read(path).map_err(|source| ReportError::File { path: path.to_owned(), source })
}

fn text(path: &Path) -> Result<String, ReportError> {
    fs::read_to_string(path).map_err(|source| ReportError::File { path: path.to_owned(), source })
}

fn content<E: std::fmt::Display>(path: &Path) -> impl FnOnce(E) -> ReportError + '_ {
    move |error| ReportError::Content { path: PathBuf::from(path), reason: error.to_string() }
}
