//! The experiments of the FedSI paper, each made by one command: `fedsi paper table1|table2|fig3|fig4|fig5|fig6`.
//!
//! - [`experiment`]: the six of them: what each asks, on which settings, with which rows.
//! - [`setting`], [`entry`]: the columns (datasets, partitions, what is varied) and rows (methods with their settings) of tables;
//!   [`tuned`]: what the common search chose.
//! - [`plan`]: from an experiment to runs; experiments share those that they have in common.
//! - [`experiment_run`]: runs what is missing, collects, writes everything down.
//! - [`record`], [`results`]: what is kept of a run, and `results.json`.
//! - [`cells`]: means, ranks and tests; [`tables`], [`figures`], [`verdict`], [`page`]: the same to read.
//! - [`published`]: the paper's own numbers.

pub mod assignment;
pub mod cells;
mod config_file;
pub mod entry;
mod error;
pub mod experiment;
pub mod experiment_run;
pub mod figures;
pub mod page;
mod page_setting;
pub mod plan;
pub mod published;
pub mod record;
pub mod results;
pub mod setting;
mod strange_inputs;
pub mod tables;
pub mod text;
pub mod tuned;
pub mod verdict;

pub use error::PaperError;
pub use experiment::{Experiment, Form};
pub use experiment_run::{ExperimentSpec, FinishedExperiment, run_experiment};
pub use plan::{FIRST_SEED, Plan, Selection};
pub use setting::Partition;
