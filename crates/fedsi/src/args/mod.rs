//! What can be typed: one file for the arguments of each command that has many.

mod compare;
mod data;
mod laplace;
mod paper;
mod predict;
mod settings;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use compare::{CompareArguments, TableFormat};
pub(crate) use data::{
    CheckArguments, DataArguments, DataCommand, ExportArguments, FetchArguments, ListArguments,
};
pub(crate) use laplace::{CalibrateArguments, LaplaceArguments};
pub(crate) use paper::PaperArguments;
pub(crate) use predict::{OodArguments, PredictArguments, RowFormat, RunsArguments, ScoreArguments};
pub(crate) use settings::Settings;

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
    /// Resume a run that was stopped or killed; on the same device results are bit-identical.
    Resume(ResumeArguments),
    /// Compare methods on one dataset over several seeds; an interrupted comparison is resumed.
    ///
    /// CONFIG may have a section `[compare]` with methods, seeds, reference, tune, `tune_rounds`, `tune_finalists`, `tune_seeds`, columns and with, as the flags
    /// are called; `compare.toml` in a comparison's folder is such a file.
    // Refused with a message that names --methods, so not shown.
    #[command(args_override_self = true, mut_arg("method", |method| method.hide(true)))]
    Compare(Box<CompareArguments>),
    /// Run an experiment of the FedSI paper and write its table or figure, with tests; an interrupted one is continued.
    ///
    /// Each row is a method, FedSI in both profiles, each column a dataset and size. Written are README.md with what came out,
    /// results.json with every run, config.toml, tables for Markdown and LaTeX and figures as SVG. Experiments share runs;
    /// results that were made on several machines are brought together by --merge.
    #[command(args_override_self = true)]
    Paper(Box<PaperArguments>),
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
    /// to 255, floats are scaled to [-1, 1] already. A table has a header; where the run learned from a table, columns go by
    /// their names, and others are passed through. Arrays have a row a sample, or are one sample.
    ///
    /// Out comes a row a sample: the columns of the input (of images and arrays `row`: a number, or a PNG's name), then
    /// `class`, `probability`, one column a class under its name, `entropy` (in nats), `strangeness` (how unlike the client's
    /// training inputs, in standard deviations: 0 is usual, 3 is rare), `abstain` and `reason`; for a regression `mean`,
    /// `deviation` and the 95% interval `low` to `high`, in the data's own units, then the last three. JSON has `variance` too:
    /// how far the network's outputs vary under the posterior, 0 for a point model.
    ///
    /// A row abstains where a value is far outside what the client's training rows have, or its strangeness is above
    /// --max-strangeness; with --coverage or --risk also where it is too uncertain. These two find a threshold on the run's own
    /// test predictions, the client's or, for a new one, all clients'. What it is worth is told from thresholds found on half of
    /// them and judged on the other half: an estimate, not a guarantee.
    ///
    /// --conformal adds `set` (classes, separated by |) or makes `low` and `high` the ends of an interval that holds the truth
    /// with that probability, on average over rows like those it was calibrated on: the client's own test rows where they are
    /// enough (10 / (1 - LEVEL)), else those of all clients.
    Predict(Box<PredictArguments>),
    /// Score a run's models on rows whose labels came later, and say whether the rows have drifted.
    ///
    /// The figures of summary.json with 95% intervals (bootstrap over rows), beside those of the same clients on the run's own
    /// test rows; the share of rows that `fedsi predict` would abstain on; and tests of whether the new rows are like the
    /// run's test rows: their strangeness, their mix of classes, and for tables the values of every column.
    Score(ScoreArguments),
    /// List the runs and comparisons below a folder: what they are of, how far they are, how good.
    List(RunsArguments),
    /// Show the models of a finished run inputs unlike those they were trained on, and say whether they notice.
    ///
    /// Every client's model is shown its own test samples, test samples of other datasets of the same shape, of classes
    /// that the client never saw, and its own rotated, shifted, blurred, noisy and partly hidden, at five strengths. The
    /// table has accuracy, calibration, the mean entropy and strangeness of each, and how well entropy and
    /// strangeness tell them from the client's own test samples. Needs the run's data, unchanged; the same run gives the same
    /// bytes.
    Ood(OodArguments),
    /// Score predictions from a file (JSON, CSV, NPZ, safetensors): accuracy and calibration, by client too.
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
    /// What networks are computed on from here: cpu, cuda or auto. Unless said, what the run began on.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Folders of complete runs, and of comparisons; each gets its report.html and plots/.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
    /// Write every plot as PDF too.
    #[arg(long)]
    pub(crate) pdf: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Print the JSON schema instead.
    #[arg(long)]
    pub(crate) schema: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
