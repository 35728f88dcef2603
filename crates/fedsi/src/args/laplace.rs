//! Arguments of commands that work on files of other programs.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// JSON, NPZ or safetensors with `probabilities` (rows x classes), `labels` and, where there are clients, `client`; or
    /// CSV with a column for each class, `label` and `client`. Regression: `mean`, `variance` and `targets`.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Bins of the reliability diagram.
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    pub(crate) bins: usize,
    /// Print a table instead of JSON.
    #[arg(long)]
    pub(crate) table: bool,
    /// Also write a page with plots, and the scores as calibrate.json, into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LaplaceArguments {
    /// A folder with case.json (the layers), model.safetensors and data.safetensors (`train_x`, `train_y`, `test_x`,
    /// `prior_variance`; with `test_y` the predictions are scored). docs/laplace.md has every key and array.
    #[arg(long, value_name = "DIR", required_unless_present = "schema")]
    pub(crate) case: Option<PathBuf>,
    /// Where to write the arrays: `subnetwork`, `diag_ggn`, `ggn`, `covariance`, `logits`, `functional_variance`, and
    /// `probit` or `predictive_variance`.
    #[arg(long, value_name = "FILE", required_unless_present = "schema")]
    pub(crate) out: Option<PathBuf>,
    /// Which body parameters: variance, live, predictive, leverage, random, magnitude or layers:NAME,..., where the head may
    /// be named too [default: variance].
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
    /// How many body parameters, or P% of them; or `head` for the last layer and `all` for the whole network [default:
    /// `subnetwork_size` in case.json].
    #[arg(long, value_name = "N|P%|head|all")]
    pub(crate) subnetwork: Option<String>,
    /// All parameters of the last N layers that have any, the head included.
    #[arg(long, value_name = "N", conflicts_with = "subnetwork", allow_negative_numbers = true)]
    pub(crate) last_layers: Option<usize>,
    /// The prior variance of every parameter; or chosen, as a factor on what the data gives, by marginal-likelihood or
    /// held-out (the NLL of held-out rows) [default: `prior_variance` in data.safetensors].
    #[arg(long, value_name = "X|marginal-likelihood|held-out", allow_negative_numbers = true)]
    pub(crate) prior_variance: Option<String>,
    /// The share of training rows that --prior-variance held-out judges by, where the data has no `held_out_x`.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, allow_negative_numbers = true)]
    pub(crate) held_out: f64,
    /// Also write a page with plots of the test rows' predictions into this folder; needs `test_y`.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
    /// Let every variance be up to this share too large, where the cost depends on how many directions the
    /// data determines; 0 is exact.
    #[arg(long, value_name = "EPS", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) tolerance: f64,
    /// The same as --tolerance 0.
    #[arg(long, conflicts_with = "tolerance")]
    pub(crate) exact: bool,
    /// The seed of random rules, and of which rows are held out.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the JSON schema of case.json instead.
    #[arg(long)]
    pub(crate) schema: bool,
}
