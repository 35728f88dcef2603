//! What can be typed, and how it becomes a checked config.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fedsi_fl::config::{self, Overrides};
use fedsi_fl::{Checked, Config, ConfigError, resolve};
use fedsi_run::settings::paths;
use toml::Value;

/// Personalised federated learning with calibrated uncertainty for every client.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Print results as JSON.
    #[arg(long, global = true, display_order = 100)]
    pub(crate) json: bool,
    /// Show no progress and no closing table; warnings about results are printed all the same.
    #[arg(long, short, global = true, display_order = 101)]
    pub(crate) quiet: bool,
    /// Print more log messages.
    #[arg(long, short, global = true, action = clap::ArgAction::Count, display_order = 102)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train, evaluate and report one method on one dataset.
    #[command(args_override_self = true)]
    Run(RunArguments),
    /// Resume a run that was stopped or killed; results are bit-identical.
    Resume(ResumeArguments),
    /// Compare methods on one dataset over several seeds; an interrupted comparison is resumed.
    // Refused with a message that names --methods, so not shown.
    #[command(args_override_self = true, mut_arg("method", |method| method.hide(true)))]
    Compare(Box<CompareArguments>),
    /// Regenerate the pages and plots of saved runs and comparisons, from their files alone.
    Report(ReportArguments),
    /// List the methods: what each shares, keeps, evaluates and costs, for the network of these settings.
    #[command(args_override_self = true)]
    Methods(Box<Settings>),
    /// List, fetch and check datasets; show who gets which samples.
    Data(DataArguments),
    /// Print a complete, commented config, or its JSON schema.
    #[command(args_override_self = true)]
    Config(ConfigArguments),
    /// Predict with a client's model, or with one fitted to a new client's data.
    ///
    /// Inputs are given as the run's data was and scaled as it was. Images: bytes, integers and CSV cells are shades from 0
    /// to 255, floats are scaled to [-1, 1] already. A CSV has a header; where the run learned from a CSV, columns go by
    /// their names and the target's and client's may be there. Arrays have a row a sample, or are one sample.
    ///
    /// Out comes a row a sample: `row` (a number, or a PNG's name), `class`, `name`, `probability`, `entropy` (in nats),
    /// `strangeness` (how unlike the client's training inputs, in standard deviations: 0 is usual, 3 is rare), `variance` (how far the network's outputs vary under the posterior; 0 for a point model), `abstain` and
    /// `reason` (with --coverage, --risk or --max-strangeness) and every class's probability `p0`, `p1`, ...; for a regression `mean`, `deviation`, `variance`
    /// and the 95% interval `low` to `high`, in the data's own units, then `strangeness`.
    ///
    /// --coverage and --risk find a threshold on the run's own test predictions, the client's or, for a new one, all
    /// clients'. What it is worth is told from thresholds found on half of them and judged on the other half: an estimate,
    /// not a guarantee.
    Predict(PredictArguments),
    /// Show the models of a finished run inputs unlike those they were trained on, and say whether they notice.
    ///
    /// Every client's model is shown its own test samples, test samples of other datasets of the same shape, of classes
    /// that the client never saw, and its own rotated, shifted, blurred, noisy and partly hidden, at five strengths. The
    /// table has accuracy, calibration, the mean entropy and strangeness of each, and how well entropy and
    /// strangeness tell them from the client's own test samples. Needs the run's data, unchanged; the same run gives the same
    /// bytes.
    Ood(OodArguments),
    /// Score predictions from a JSON file: accuracy and calibration.
    Calibrate(CalibrateArguments),
    /// Compute the subnetwork posterior of a trained network in PyTorch's layout.
    Laplace(LaplaceArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Folder for the results [default: runs/METHOD-DATASET-SIZE-sSEED].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the run that is in the folder.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArguments {
    /// The run's folder.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The folder that holds the datasets, where it is not where it was.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder of clients' state, where it is not where it was.
    #[arg(long, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Threads; 0 for one a core. Changes no result.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) threads: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Methods with commas between, or `all`.
    #[arg(long, value_name = "NAMES", default_value = "all")]
    pub(crate) methods: String,
    /// How many seeds, counted from --seed on; with fewer than 5 nothing is tested.
    #[arg(long, value_name = "N", default_value_t = 5, allow_negative_numbers = true)]
    pub(crate) seeds: usize,
    /// The method that the others are tested against [default: fedsi where it is compared, else the first of the table].
    #[arg(long, value_name = "NAME")]
    pub(crate) reference: Option<String>,
    /// First tune every method's learning rates on training data held out, by the same grid for all.
    #[arg(long)]
    pub(crate) tune: bool,
    /// Rounds of a trial [default: a quarter of a run's, at least 10].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tune_rounds: Option<usize>,
    /// How the table is written [default: plain].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<TableFormat>,
    /// Runs side by side; 0 for as many as cores and memory allow. Changes no result.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) jobs: usize,
    /// Folder for the results; one that holds this comparison is continued [default: runs/compare-DATASET-SIZE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace finished runs whose settings differ.
    #[arg(long)]
    pub(crate) force: bool,
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    Plain,
    Markdown,
    Latex,
    Csv,
}

/// Settings of a run. Flags win over the config file, the file over the defaults.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Settings {
    /// A TOML file with any of the keys that `fedsi config` prints.
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Whether that file is a run's own, which may be of an older version.
    #[arg(skip)]
    pub(crate) saved: bool,
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

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Folders of complete runs and comparisons; each gets its report.html and plots/.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    #[command(subcommand)]
    pub(crate) command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// List the known datasets; with --partition or --dataset, show who gets how many samples of each class.
    List(Box<ListArguments>),
    /// Download a dataset: resumed, checked against its checksums, from one of several mirrors.
    Fetch(FetchArguments),
    /// Check the datasets under a folder: counts, shapes, labels, checksums.
    Check(CheckArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Show the clients of this partition: labels, iid, dirichlet, shards, natural or file.
    #[arg(long, value_name = "KIND")]
    pub(crate) partition: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FetchArguments {
    /// mnist, fashion-mnist or cifar-10.
    pub(crate) name: String,
    /// The folder that holds the datasets.
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub(crate) data_dir: PathBuf,
    /// Fetch from here instead of the known mirrors. May be repeated; tried in order.
    #[arg(long, value_name = "URL")]
    pub(crate) mirror: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The folder that holds the datasets.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Print the JSON schema instead.
    #[arg(long)]
    pub(crate) schema: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PredictArguments {
    /// The folder of a finished run.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// Whose model: a client's exact name or, where no client has that name, its id (from 0).
    #[arg(long, value_name = "ID", required_unless_present = "fit", conflicts_with = "fit")]
    pub(crate) client: Option<String>,
    /// Instead of --client: fit a model to this labelled data of a new client, starting from what the run learned. CSV
    /// (with the target's column, `label` for the image datasets), safetensors (with `targets` or `labels`) or NPY.
    #[arg(long, value_name = "FILE")]
    pub(crate) fit: Option<PathBuf>,
    /// The targets that belong to an NPY file given to --fit.
    #[arg(long, value_name = "FILE", requires = "fit")]
    pub(crate) fit_targets: Option<PathBuf>,
    /// What to predict for: a CSV, NPY, safetensors (`inputs`) or PNG file, or a folder of PNG files.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Where to write [default: stdout]; a file that another program wrote is not replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file at --out whoever wrote it, but never an input or a file of a run.
    #[arg(long)]
    pub(crate) force: bool,
    /// How to write [default: by the ending of --out, else csv; --json is the same as json].
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<RowFormat>,
    /// Abstain on all but the surest share of samples, above 0 and at most 1.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, conflicts_with = "risk")]
    pub(crate) coverage: Option<f64>,
    /// Answer as many samples as possible with at most this share of errors, 0 up to 1.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) risk: Option<f64>,
    /// Abstain on inputs stranger than this: in standard deviations of what the client's training inputs have, 0 being
    /// usual and 3 rare.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub(crate) max_strangeness: Option<f64>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    Csv,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct OodArguments {
    /// The folder of a finished run.
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// Another dataset to show. May be repeated [default: all of the same shape that are in the data folder, and digits].
    #[arg(long, value_name = "NAME")]
    pub(crate) against: Vec<String>,
    /// Most samples of each kind that a client's model is shown.
    #[arg(long, value_name = "N", default_value_t = 500, allow_negative_numbers = true)]
    pub(crate) samples: usize,
    /// The folder that holds the datasets, where it is not where it was.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where to write [default: ood.json in the run's folder]; a file that another program wrote is not replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file at --out whoever wrote it, but never a file of a run.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// A JSON file with `probabilities` (a list of rows) and `labels`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Bins of the reliability diagram.
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    pub(crate) bins: usize,
}

#[derive(Debug, Args)]
pub(crate) struct LaplaceArguments {
    /// A folder with case.json (the layers), model.safetensors and data.safetensors (`train_x`, `train_y`, `test_x`,
    /// `prior_variance`).
    #[arg(long, value_name = "DIR")]
    pub(crate) case: PathBuf,
    /// Where to write the arrays: `subnetwork`, `diag_ggn`, `ggn`, `covariance`, `logits`, `functional_variance`, and
    /// `probit` or `predictive_variance`.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Which body parameters: variance, live, predictive, leverage, random, magnitude or layers:NAME,...
    #[arg(long, value_name = "NAME", default_value = "variance")]
    pub(crate) rule: String,
    /// How many body parameters, or P% of them [default: `subnetwork_size` in case.json].
    #[arg(long, value_name = "N|P%")]
    pub(crate) subnetwork: Option<String>,
    /// Let every variance be up to this share too large, where the cost depends on how many directions the
    /// data determines; 0 is exact.
    #[arg(long, value_name = "EPS", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// The same as --tolerance 0.
    #[arg(long, conflicts_with = "tolerance")]
    pub(crate) exact: bool,
    /// The seed of random rules.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
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
        let mut layers = Vec::new();
        if let Some(path) = &self.config {
            layers.push(if self.saved { Overrides::from_saved(path)? } else { Overrides::from_file(path)? });
        }
        layers.push(Overrides::from_assignments("the command line", self.assignments()?)?);
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
        ];
        all.extend(flags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn flags_win_over_set() {
        let settings = Settings { rounds: Some(3), set: vec!["rounds=9".to_owned()], ..Settings::default() };
        assert_eq!(settings.resolve().unwrap().rounds, 3);
    }
}
