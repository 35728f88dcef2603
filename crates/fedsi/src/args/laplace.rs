//! Arguments of commands that work on files of other programs.

use std::path::PathBuf;

use clap::Args;

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
