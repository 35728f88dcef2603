//! Arguments of commands that use the models of a finished run.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct PredictArguments {
    /// The folder of a finished run.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// Whose model predicts every row: a client's exact name or, where no client has that name, its id (from 0). Without it
    /// each row of a table goes to the client that its client column names.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["fit", "model"])]
    pub(crate) client: Option<String>,
    /// Instead of --client: fit a model to this labelled data of a new client, starting from what the run learned. CSV
    /// (with the target's column, `label` for the image datasets), safetensors (with `targets` or `labels`) or NPY.
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    pub(crate) fit: Option<PathBuf>,
    /// The targets that belong to an NPY file given to --fit.
    #[arg(long, value_name = "FILE", requires = "fit")]
    pub(crate) fit_targets: Option<PathBuf>,
    /// Save the model that --fit makes, for --model: a .safetensors file, or a folder to put it in.
    #[arg(long, value_name = "FILE", requires = "fit")]
    pub(crate) keep: Option<PathBuf>,
    /// Instead of --client: a model that --keep saved.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// What to predict for: a table (CSV or Parquet), an NPY, safetensors (`inputs`) or PNG file, or a folder of PNG files.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Where to write [default: stdout]; a file that another program wrote is not replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the files at --out and --keep whoever wrote them, but never an input or a file of a run.
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
    /// Abstain on inputs stranger than this: in standard deviations of what the client's training inputs have. 0 is usual, 3
    /// is rare, 6 has nothing to do with them.
    #[arg(long, value_name = "X", default_value_t = 6.0, allow_negative_numbers = true)]
    pub(crate) max_strangeness: f64,
    /// Add sets of classes, or make intervals, that hold the truth with this probability, 0.5 and more and below 1.
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    pub(crate) conformal: Option<f64>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    Csv,
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct ScoreArguments {
    /// The folder of a finished run.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: PathBuf,
    /// Rows and what came true: a table (CSV or Parquet) with the target's column, safetensors (with `targets` or `labels`) or
    /// NPY.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// The targets that belong to an NPY file.
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<PathBuf>,
    /// Whose model predicts every row: a client's exact name or its id. Without it each row of a table goes to the client
    /// that its client column names.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) client: Option<String>,
    /// Instead of --client: a model that `fedsi predict --keep` saved.
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Write the figures to this file too, as JSON; a file that another program wrote is not replaced.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the file at --out whoever wrote it, but never an input or a file of a run.
    #[arg(long)]
    pub(crate) force: bool,
    /// Count rows as abstained that are stranger than this, as `fedsi predict` does.
    #[arg(long, value_name = "X", default_value_t = 6.0, allow_negative_numbers = true)]
    pub(crate) max_strangeness: f64,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArguments {
    /// The folder to look below; a run's or comparison's own works too.
    #[arg(value_name = "DIR", default_value = Self::DEFAULT)]
    pub(crate) dir: PathBuf,
}

impl RunsArguments {
    /// Where `fedsi run` puts runs.
    pub(crate) const DEFAULT: &str = "runs";
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
