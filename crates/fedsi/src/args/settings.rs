//! Settings of a run from the command line, and how they become a checked config.

use std::path::PathBuf;

use clap::Args;
use fedsi_fl::config::{self, Overrides};
use fedsi_fl::{Checked, Config, ConfigError, resolve};
use fedsi_run::settings::paths;
use toml::{Table, Value};

/// The keys that hold paths.
const PATHS: [&str; 5] =
    ["data.dir", "data.files.train", "data.files.test", "partition.path", "checkpoint.state_dir"];

/// Settings of a run. Flags win over the config file, the file over the defaults.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Settings {
    /// A TOML file with any of the keys that `fedsi config` prints.
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Whether that file is a run's own, which may be of an older version.
    #[arg(skip)]
    pub(crate) saved: bool,
    /// That file as it was read, less what is no setting of a run.
    #[arg(skip)]
    pub(crate) file: Option<Overrides>,
    /// The method; `fedsi methods` lists them.
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,
    /// digits, mnist, fashion-mnist, cifar-10 or files.
    #[arg(long, value_name = "NAME")]
    pub(crate) dataset: Option<String>,
    /// How much data a client has: small or large.
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<String>,
    /// The folder that holds the datasets.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Rounds of training.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) rounds: Option<i64>,
    /// Number of clients.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) clients: Option<i64>,
    /// Clients drawn for a round.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) participants: Option<i64>,
    /// Local epochs a round.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) epochs: Option<i64>,
    /// Learning rate of local training.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) lr: Option<f64>,
    /// The seed of every random draw.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<i64>,
    /// Threads; 0 for one a core. Changes no result.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) threads: Option<i64>,
    /// What networks are computed on: cpu, cuda or auto (a GPU where there is one).
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Folder for what clients keep between rounds, for clients too many to hold in memory.
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// The defaults of fedsi and fedsi-fac: calibrated or paper.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Any other key, as in --set partition.kind=dirichlet. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

impl Settings {
    /// Whether any setting was given.
    pub(crate) fn any(&self) -> bool {
        self.config.is_some() || self.assignments().map_or(true, |given| !given.is_empty())
    }

    /// Defaults, file, flags: complete, not yet checked.
    pub(crate) fn resolve(&self) -> Result<Config, ConfigError> {
        self.resolve_with(&[])
    }

    /// The same with these keys laid over everything else.
    fn resolve_with(&self, last: &[(&str, Value)]) -> Result<Config, ConfigError> {
        let mut layers = self.layers()?;
        let last = last.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
        layers.push(Overrides::from_assignments("the command line", last.collect())?);
        let mut config = resolve(&layers)?;
        // A config must mean the same from any folder it is rerun in.
        for path in paths(&mut config) {
            if !path.as_os_str().is_empty() {
                *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
            }
        }
        Ok(config)
    }

    /// The file, then the flags.
    fn layers(&self) -> Result<Vec<Overrides>, ConfigError> {
        let mut layers = Vec::new();
        match (&self.file, &self.config) {
            (Some(file), _) => layers.push(file.clone()),
            (None, Some(path)) if self.saved => layers.push(Overrides::from_saved(path)?),
            (None, Some(path)) => layers.push(Overrides::from_file(path)?),
            (None, None) => {}
        }
        layers.push(Overrides::from_assignments("the command line", self.assignments()?)?);
        Ok(layers)
    }

    /// What was given, without defaults, and with paths that mean the same from any folder.
    pub(crate) fn given(&self) -> Result<Table, ConfigError> {
        let mut given = Overrides::merged(&self.layers()?);
        for key in PATHS {
            make_absolute(&mut given, key);
        }
        Ok(given)
    }

    /// A config that can run.
    pub(crate) fn checked(&self) -> Result<Checked, ConfigError> {
        self.checked_with(&[])
    }

    /// A config that can run, with these keys laid over everything else.
    pub(crate) fn checked_with(&self, last: &[(&str, Value)]) -> Result<Checked, ConfigError> {
        self.resolve_with(last)?.check()
    }

    /// Whether the command line itself names a method.
    pub(crate) fn names_a_method(&self) -> Result<bool, ConfigError> {
        Ok(self.assignments()?.iter().any(|(key, _)| key == "method"))
    }

    /// Flags as keys. `--set` comes first: a flag made for a key wins over the general one.
    fn assignments(&self) -> Result<Vec<(String, Value)>, ConfigError> {
        let mut all = self.set.iter().map(|text| config::assignment(text)).collect::<Result<Vec<_>, _>>()?;
        let text = |value: &Option<String>| value.clone().map(Value::String);
        let whole = |value: Option<i64>| value.map(Value::Integer);
        let folder =
            |path: &Option<PathBuf>| path.as_ref().map(|path| Value::String(path.display().to_string()));
        let flags = [
            ("method", text(&self.method)),
            ("profile", text(&self.profile)),
            ("data.dataset", text(&self.dataset)),
            ("data.size", text(&self.size)),
            ("data.dir", folder(&self.data_dir)),
            ("checkpoint.state_dir", folder(&self.state_dir)),
            ("rounds", whole(self.rounds)),
            ("partition.clients", whole(self.clients)),
            ("federation.participants", whole(self.participants)),
            ("training.epochs", whole(self.epochs)),
            ("training.learning_rate", self.lr.map(Value::Float)),
            ("seed", whole(self.seed)),
            ("threads", whole(self.threads)),
            ("device", text(&self.device)),
        ];
        all.extend(flags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        Ok(all)
    }
}

/// Makes the path under a dotted key absolute, where there is one.
fn make_absolute(table: &mut Table, key: &str) {
    let (section, rest) = key.split_once('.').map_or((key, None), |(section, rest)| (section, Some(rest)));
    match (table.get_mut(section), rest) {
        (Some(Value::Table(inner)), Some(rest)) => make_absolute(inner, rest),
        (Some(Value::String(path)), None) if !path.is_empty() => {
            if let Ok(absolute) = std::path::absolute(&*path) {
                *path = absolute.display().to_string();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_set() {
        let settings = Settings { rounds: Some(3), set: vec!["rounds=9".to_owned()], ..Settings::default() };
        assert_eq!(settings.resolve().unwrap().rounds, 3);
    }
}
