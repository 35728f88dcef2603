//! From an experiment to its runs: settings, rows and seeds, and for each a config and a folder.

use std::collections::BTreeMap;
use std::path::Path;

use fedsi_compare::plan::{PlannedRun, Settings};
use fedsi_run::settings::settings_text;
use sha2::{Digest as _, Sha256};
use toml::Value;

use crate::PaperError;
use crate::assignment::Assignment;
use crate::entry::Entry;
use crate::experiment::{Experiment, Form};
use crate::setting::{Partition, Setting};

/// The first seed of tables: settings were chosen on seeds 1 to 10, and earlier claims rest on seeds below 101.
pub const FIRST_SEED: u64 = 101;

/// Which runs of an experiment are to be made; tables always have all its rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Settings by their names; all where empty.
    pub settings: Vec<String>,
    /// Rows by their names; all where empty.
    pub entries: Vec<String>,
    /// Rounds, where not those of the protocol.
    pub rounds: Option<usize>,
    /// How many seeds, where not those of the protocol.
    pub seeds: Option<usize>,
}

/// An experiment, ready to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// How clients differ.
    pub partition: Partition,
    /// How much is run.
    pub form: Form,
    /// All settings, with the rounds and seeds of the protocol.
    pub settings: Vec<Setting>,
    /// All rows.
    pub entries: Vec<&'static Entry>,
    /// The runs that are wanted, settings first, then rows, then seeds.
    pub runs: Vec<PaperRun>,
}

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct PaperRun {
    /// Its setting's name.
    pub setting: String,
    /// Its row.
    pub entry: &'static Entry,
    /// What its settings have on top of the defaults, by key.
    pub values: BTreeMap<String, Value>,
    /// SHA-256 of all settings that decide its results, defaults too.
    pub config_sha256: String,
    /// The run.
    pub planned: PlannedRun,
    /// Whether its models are shown inputs unlike their training data: on the small sets without variation, in every
    /// experiment that has them.
    pub shows_strange_inputs: bool,
}

impl Plan {
    /// Lays an experiment out. `config` is the user's own settings: data folder, device, threads.
    ///
    /// # Errors
    /// Names that the experiment does not have; no seeds or rounds; settings that no run can have.
    pub fn new(
        experiment: Experiment,
        form: Form,
        partition: Partition,
        selection: &Selection,
        config: &Settings<'_>,
    ) -> Result<Self, PaperError> {
        let settings = experiment.settings(form, partition);
        let ids: Vec<&str> = settings.iter().map(|setting| setting.id.as_str()).collect();
        check_names(experiment, "setting", &selection.settings, &ids)?;
        let entries = experiment.entries();
        let rows: Vec<&str> = entries.iter().map(|entry| entry.id).collect();
        check_names(experiment, "method", &selection.entries, &rows)?;
        let is_wanted = |names: &[String], id: &str| names.is_empty() || names.iter().any(|name| name == id);
        let mut runs = Vec::new();
        for setting in settings.iter().filter(|setting| is_wanted(&selection.settings, &setting.id)) {
            let rounds = selection.rounds.unwrap_or(setting.rounds);
            let wanted = Setting { rounds, ..setting.clone() };
            let seeds = fedsi_compare::plan::seeds(FIRST_SEED, selection.seeds.unwrap_or(setting.seeds))?;
            for entry in entries.iter().filter(|entry| is_wanted(&selection.entries, entry.id)) {
                for &seed in &seeds {
                    runs.push(PaperRun::new(&wanted, entry, seed, config)?);
                }
            }
        }
        Ok(Self { experiment, partition, form, settings, entries, runs })
    }
}

impl PaperRun {
    fn new(
        setting: &Setting,
        entry: &'static Entry,
        seed: u64,
        config: &Settings<'_>,
    ) -> Result<Self, PaperError> {
        let values = values(setting, entry, seed);
        let given: Vec<(&str, Value)> =
            values.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
        let planned = PlannedRun::new(entry.method()?, seed, &given, config)?;
        let folder = format!("{}-{}r/{}-s{seed}", setting.id, setting.rounds, entry.id);
        let planned = planned.in_folder(folder);
        let text = settings_text(&planned.config)
            .map_err(|error| PaperError::content(Path::new(&planned.folder), &error))?;
        let config_sha256 = fedsi_data::hexadecimal(&Sha256::digest(text.as_bytes()));
        let shows_strange_inputs = setting.is_plain_small() && !entry.source.is_pooled();
        Ok(Self { setting: setting.id.clone(), entry, values, config_sha256, planned, shows_strange_inputs })
    }
}

/// What a run of a row under a setting has on top of the defaults, by key; the row's own values win.
#[must_use]
pub fn values(setting: &Setting, entry: &Entry, seed: u64) -> BTreeMap<String, Value> {
    let all: Vec<Assignment> = [setting.values(seed), entry.values(setting)].concat();
    all.into_iter().collect()
}

fn check_names(
    experiment: Experiment,
    what: &'static str,
    given: &[String],
    known: &[&str],
) -> Result<(), PaperError> {
    let Some(name) = given.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let nearest = known.iter().map(|known| (strsim::damerau_levenshtein(known, name), known)).min();
    let hint = nearest.filter(|(distance, _)| *distance <= 3);
    Err(PaperError::Unknown {
        what,
        name: name.clone(),
        experiment: experiment.id(),
        hint: hint.map(|(_, known)| format!(", did you mean `{known}`?")).unwrap_or_default(),
        known: known.join(", "),
    })
}
