//! A comparison as a file: the section `[compare]` beside the settings of runs.

use fedsi_fl::ConfigError;
use fedsi_fl::config::Overrides;
use serde::Deserialize;

use fedsi_compare::TuneSpec;

use crate::args::{CompareArguments, Settings};
use crate::output::BadInput;

/// The section. Flags win over it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    methods: Option<Names>,
    seeds: Option<usize>,
    reference: Option<String>,
    tune: Option<bool>,
    tune_rounds: Option<usize>,
    tune_finalists: Option<usize>,
    tune_seeds: Option<usize>,
    columns: Option<Names>,
    with: Option<Names>,
    /// What fedsi itself wrote down of a comparison: nothing to go by.
    #[serde(rename = "made")]
    _made: Option<toml::Table>,
}

/// A text, or a list of texts.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts in [ ]")]
enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    fn list(self) -> Vec<String> {
        match self {
            Self::One(text) => split(&text),
            Self::Several(all) => all,
        }
    }
}

/// Names with commas between.
fn split(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// What is to be compared, file and flags together.
#[derive(Debug)]
pub(super) struct Wanted {
    /// With commas between.
    pub(super) methods: String,
    pub(super) seeds: usize,
    pub(super) reference: Option<String>,
    pub(super) tune: Option<TuneSpec>,
    pub(super) columns: Vec<String>,
    pub(super) with: Vec<String>,
}

/// Seeds where nobody says how many.
const SEEDS: usize = 5;

/// The settings of the runs, and the section of their file.
pub(super) fn read(settings: &Settings) -> Result<(Settings, Section), ConfigError> {
    let Some(path) = &settings.config else { return Ok((settings.clone(), Section::default())) };
    let mut file = Overrides::from_file(path)?;
    let section = file.take_section("compare")?;
    let section = section.map(|table| {
        toml::Value::Table(table).try_into().map_err(|error: toml::de::Error| ConfigError::Type {
            key: "compare".to_owned(),
            reason: format!("in {}: {}", path.display(), error.message().trim().replace('\n', " ")),
        })
    });
    Ok((Settings { file: Some(file), ..settings.clone() }, section.transpose()?.unwrap_or_default()))
}

impl Section {
    pub(super) fn overridden_by(self, flags: &CompareArguments) -> Result<Wanted, BadInput> {
        let tune = self.tune(flags)?;
        let names = |names: Option<Names>| names.map(Names::list);
        let methods = flags.methods.clone().or_else(|| names(self.methods).map(|all| all.join(",")));
        let with =
            if flags.with.is_empty() { names(self.with).unwrap_or_default() } else { flags.with.clone() };
        Ok(Wanted {
            methods: methods.unwrap_or_else(|| "all".to_owned()),
            seeds: flags.seeds.or(self.seeds).unwrap_or(SEEDS),
            reference: flags.reference.clone().or(self.reference),
            tune,
            columns: flags.columns.as_deref().map(split).or_else(|| names(self.columns)).unwrap_or_default(),
            with,
        })
    }

    /// How the methods are tuned first; none where they are not.
    fn tune(&self, flags: &CompareArguments) -> Result<Option<TuneSpec>, BadInput> {
        let spec = TuneSpec {
            rounds: flags.tune_rounds.or(self.tune_rounds),
            finalists: flags.tune_finalists.or(self.tune_finalists),
            seeds: flags.tune_seeds.or(self.tune_seeds),
        };
        let numbers = [
            ("--tune-rounds", spec.rounds),
            ("--tune-finalists", spec.finalists),
            ("--tune-seeds", spec.seeds),
        ];
        let is_on = flags.tune || self.tune.unwrap_or(false);
        match numbers.iter().find(|(_, number)| number.is_some()) {
            Some((flag, _)) if !is_on => Err(BadInput(format!("{flag} is for trials: give --tune too"))),
            _ if spec.rounds == Some(0) => {
                Err(BadInput("--tune-rounds 0: a trial needs at least 1 round".to_owned()))
            }
            _ if spec.seeds == Some(0) => {
                Err(BadInput("--tune-seeds 0: a setting needs at least 1 seed to be tried on".to_owned()))
            }
            _ => Ok(is_on.then_some(spec)),
        }
    }
}
