//! Arguments of `fedsi data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Settings;

#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    #[command(subcommand)]
    pub(crate) command: DataCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// List the known datasets; with --partition or --dataset, show who gets how many samples of each class, and of a table
    /// which columns are used and how.
    List(Box<ListArguments>),
    /// Download a dataset: resumed, checked against its checksums, from one of several mirrors.
    Fetch(FetchArguments),
    /// Check the datasets under a folder: counts, shapes, labels, checksums.
    Check(CheckArguments),
    /// Write the training and test rows of every client for other tools.
    ///
    /// DIR/train.safetensors and DIR/test.safetensors hold `inputs` as networks get them, `labels` or `targets`, `client`
    /// and `row`; of a table train.csv and test.csv hold the same rows as the table has them. DIR/README.txt says how
    /// predictions of another tool come back to `fedsi compare --with NAME=FILE`.
    #[command(args_override_self = true)]
    Export(Box<ExportArguments>),
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// The folder to write: a new or empty one.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
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
