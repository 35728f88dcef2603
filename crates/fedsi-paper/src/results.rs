//! `results.json`: every run of an experiment, continued by the same command and merged from several machines.

use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::PaperError;
use crate::plan::{PaperRun, Plan};
use crate::record::RunRecord;

/// The file's name in an experiment's folder.
pub const RESULTS_FILE: &str = "results.json";

/// What the file says it is.
const FORMAT: &str = "fedsi-paper-1";

/// All runs of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    format: String,
    /// The experiment's name.
    pub experiment: String,
    /// How clients differ.
    pub partition: String,
    /// The version that wrote the file; each run has its own.
    pub version: String,
    /// The runs, in the order of the tables.
    pub runs: Vec<RunRecord>,
}

impl Results {
    /// Without runs.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        Self {
            format: FORMAT.to_owned(),
            experiment: plan.experiment.id().to_owned(),
            partition: plan.partition.id().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            runs: Vec::new(),
        }
    }

    /// From a file; `None` where there is none.
    ///
    /// # Errors
    /// A file that cannot be read or is none of these.
    pub fn read(path: &Path) -> Result<Option<Self>, PaperError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PaperError::content(path, &error)),
        };
        let found: Self = serde_json::from_slice(&bytes)
            .map_err(|error| PaperError::content(path, &format!("not results of fedsi paper: {error}")))?;
        if found.format != FORMAT {
            let reason = format!("its format is `{}`, and this version reads `{FORMAT}`", found.format);
            return Err(PaperError::content(path, &reason));
        }
        Ok(Some(found))
    }

    /// From a file that must be there.
    ///
    /// # Errors
    /// As [`Self::read`], and a file that is not there.
    pub fn open(path: &Path) -> Result<Self, PaperError> {
        let reason = "there is no such file; expected the results.json of an experiment";
        Self::read(path)?.ok_or_else(|| PaperError::content(path, &reason))
    }

    /// The run that is planned, where it is here.
    #[must_use]
    pub fn find(&self, run: &PaperRun) -> Option<&RunRecord> {
        self.runs.iter().find(|record| record.is_of(run))
    }

    /// Forgets runs that are planned and were made under other defaults, and names them: they are to be made again.
    pub fn forget_outdated(&mut self, plan: &Plan) -> Vec<String> {
        let mut names = Vec::new();
        self.runs.retain(|record| {
            let outdated = plan.runs.iter().find(|run| record.has_settings_of(run) && !record.is_of(run));
            names.extend(outdated.map(|run| run.planned.name()));
            outdated.is_none()
        });
        names
    }

    /// Adds a run, in the place of the same one of before.
    pub fn add(&mut self, record: RunRecord) {
        match self.runs.iter_mut().find(|other| other.is_same_run(&record)) {
            Some(other) => *other = record,
            None => self.runs.push(record),
        }
    }

    /// Takes over the runs of another experiment or machine that this one has too and lacks: experiments share runs.
    pub fn merge(&mut self, other: &Self, plan: &Plan) {
        let settings: Vec<&str> = plan.settings.iter().map(|setting| setting.id.as_str()).collect();
        let is_wanted = |record: &&RunRecord| {
            settings.contains(&record.setting.as_str())
                && plan.entries.iter().any(|entry| entry.id == record.row)
        };
        for record in other.runs.iter().filter(is_wanted) {
            match self.runs.iter().find(|own| own.is_same_run(record)) {
                None => self.runs.push(record.clone()),
                Some(own) if own.summary.scores != record.summary.scores => tracing::warn!(
                    "{} {} seed {} has other digits in the results to be merged ({}): ours are kept",
                    record.setting,
                    record.row,
                    record.summary.seed,
                    record.summary.cpu.as_deref().unwrap_or("an unknown machine")
                ),
                Some(_) => {}
            }
        }
    }

    /// Writes the file whole, a line a run, in the order of settings, rows, rounds and seeds.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&mut self, path: &Path, plan: &Plan) -> Result<(), PaperError> {
        let setting = |id: &str| plan.settings.iter().position(|setting| setting.id == id);
        let row = |id: &str| crate::entry::ENTRIES.iter().position(|entry| entry.id == id);
        self.runs.sort_by_key(|record| {
            let summary = &record.summary;
            let place = setting(&record.setting).unwrap_or(usize::MAX);
            (place, record.setting.clone(), row(&record.row), summary.rounds, summary.seed)
        });
        let mut all = String::from("{\n");
        for (key, value) in [
            ("format", &self.format),
            ("experiment", &self.experiment),
            ("partition", &self.partition),
            ("version", &self.version),
        ] {
            all.push_str(&format!("\"{key}\": {},\n", line(value, path)?));
        }
        all.push_str("\"runs\": [\n");
        for (place, record) in self.runs.iter().enumerate() {
            let comma = if place + 1 < self.runs.len() { "," } else { "" };
            all.push_str(&format!("{}{comma}\n", line(record, path)?));
        }
        all.push_str("]\n}\n");
        Ok(fedsi_run::write_whole(path, all.as_bytes())?)
    }
}

fn line(value: &impl Serialize, path: &Path) -> Result<String, PaperError> {
    serde_json::to_string(value).map_err(|error| PaperError::content(path, &error))
}
