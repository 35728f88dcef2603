//! Arguments of `fedsi compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Settings;

#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    /// Methods with commas between, or `all` [default: all].
    #[arg(long, value_name = "NAMES")]
    pub(crate) methods: Option<String>,
    /// Another tool's predictions of the same test rows, as one more method: JSON, CSV, NPZ or safetensors as `fedsi
    /// calibrate` reads them, rows in the order of `fedsi data export`; {seed} in FILE stands for the seed. May be repeated.
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) with: Vec<String>,
    /// How many seeds, counted from --seed on; with fewer than 5 nothing is tested [default: 5].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seeds: Option<usize>,
    /// The method that the others are tested against [default: fedsi where it is compared, else the first of the table].
    #[arg(long, value_name = "NAME")]
    pub(crate) reference: Option<String>,
    /// First tune every method's learning rates on training data held out, by the same grid for all.
    #[arg(long)]
    pub(crate) tune: bool,
    /// Rounds of a trial [default: a quarter of a run's, at least 10].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tune_rounds: Option<usize>,
    /// The best N trials and the settings before the search are tried again for all rounds of a run, and these decide: what is best
    /// after few rounds need not be after many [default: 2, where trials have fewer rounds than runs; 0: none].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tune_finalists: Option<usize>,
    /// Try every setting on N seeds, counted from --seed on, and choose by the mean [default: 1].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) tune_seeds: Option<usize>,
    /// Columns of the table, by their names in summary.json, with commas between [default: as many as fit 80 letters].
    #[arg(long, value_name = "NAMES")]
    pub(crate) columns: Option<String>,
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
