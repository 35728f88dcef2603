//! What can be typed: one file for the arguments of each command that has many.

mod compare;
mod data;
mod laplace;
mod predict;
mod settings;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use compare::{CompareArguments, TableFormat};
pub(crate) use data::{CheckArguments, DataArguments, DataCommand, FetchArguments, ListArguments};
pub(crate) use laplace::{CalibrateArguments, LaplaceArguments};
pub(crate) use predict::{OodArguments, PredictArguments, RowFormat};
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
pub(crate) struct ReportArguments {
    /// Folders of complete runs and comparisons; each gets its report.html and plots/.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) folders: Vec<PathBuf>,
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
