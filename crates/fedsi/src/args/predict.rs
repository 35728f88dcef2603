//! Arguments of commands that use the models of a finished run.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
