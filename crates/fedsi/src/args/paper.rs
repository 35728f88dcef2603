//! Arguments of `fedsi paper`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fedsi_paper::{Experiment, Partition};

#[derive(Debug, Args)]
pub(crate) struct PaperArguments {
    /// The table or figure.
    #[arg(value_name = "NAME")]
    pub(crate) experiment: ExperimentName,
    /// A look in at most five minutes on two cores: few rounds and seeds on the built-in digits or, with --data-dir, on
    /// MNIST-small.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How clients differ.
    #[arg(long, value_name = "NAME", default_value = "labels")]
    pub(crate) partition: PartitionName,
    /// Make only the runs of these settings, with commas between, as in mnist-small,cifar-10-small.
    #[arg(long, value_name = "NAMES")]
    pub(crate) settings: Option<String>,
    /// Make only the runs of these rows, with commas between, as in fedsi,fedsi-paper,fedavg.
    #[arg(long, value_name = "NAMES")]
    pub(crate) methods: Option<String>,
    /// The folder that holds the datasets.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Rounds of a run [default: 800; those of cells with fewer stand in the cell].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) rounds: Option<usize>,
    /// How many seeds, counted from 101 on, on which nothing was chosen [default: 10 on MNIST-small and Fashion-MNIST-small, 5 on
    /// CIFAR-10-small, 3 on the large sets].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seeds: Option<usize>,
    /// What networks are computed on: cpu, cuda or auto (a GPU where there is one).
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Threads; 0 for one a core. Changes no result.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) threads: Option<i64>,
    /// Runs side by side; 0 for as many as cores and memory allow. Changes no result.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) jobs: usize,
    /// Folder for the tables and figures; one that holds this experiment is continued [default: runs/paper/NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Folder for the runs, which experiments share.
    #[arg(long, value_name = "DIR", default_value = "runs/paper/runs")]
    pub(crate) runs: PathBuf,
    /// Take runs over from the results.json of this or another experiment, made elsewhere. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub(crate) merge: Vec<PathBuf>,
    /// Make no runs: write down what there is.
    #[arg(long)]
    pub(crate) no_runs: bool,
    /// Compare the digits of every run with those in this results.json, and fail where one differs.
    #[arg(long, value_name = "FILE")]
    pub(crate) check: Option<PathBuf>,
    /// Replace finished runs whose settings differ.
    #[arg(long)]
    pub(crate) force: bool,
}

/// The experiments, as they are typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExperimentName {
    /// Accuracy by method, dataset and size.
    Table1,
    /// Calibration by method and dataset.
    Table2,
    /// The subnetwork's share of the body, 3 to 9%.
    Fig3,
    /// Reliability diagrams.
    Fig4,
    /// Novel clients.
    Fig5,
    /// Local epochs, 5 to 20.
    Fig6,
}

impl From<ExperimentName> for Experiment {
    fn from(name: ExperimentName) -> Self {
        match name {
            ExperimentName::Table1 => Self::Table1,
            ExperimentName::Table2 => Self::Table2,
            ExperimentName::Fig3 => Self::Fig3,
            ExperimentName::Fig4 => Self::Fig4,
            ExperimentName::Fig5 => Self::Fig5,
            ExperimentName::Fig6 => Self::Fig6,
        }
    }
}

/// The partitions, as they are typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartitionName {
    /// The paper's: five of ten classes a client.
    Labels,
    /// Dirichlet(0.1) shares of every class, clients of unequal size.
    #[value(name = "dirichlet-0.1")]
    Dirichlet01,
    /// Dirichlet(0.5) shares of every class, clients of unequal size.
    #[value(name = "dirichlet-0.5")]
    Dirichlet05,
    /// 100 clients, ten of them a round.
    #[value(name = "clients-100")]
    Clients100,
}

impl From<PartitionName> for Partition {
    fn from(name: PartitionName) -> Self {
        match name {
            PartitionName::Labels => Self::Labels,
            PartitionName::Dirichlet01 => Self::Dirichlet01,
            PartitionName::Dirichlet05 => Self::Dirichlet05,
            PartitionName::Clients100 => Self::Clients100,
        }
    }
}
