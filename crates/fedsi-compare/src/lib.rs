//! Methods compared on one dataset over the same seeds: plan, tune, run, sum up.
//!
//! - [`plan`]: which runs, with which settings, and which of them are done.
//! - [`tune`]: learning rates chosen by the same small grid for every method, on training data held out.
//! - [`RunBatch`]: runs that are planned below a folder, made where they are not there.
//! - [`pool`]: runs side by side, within the cores and the memory at hand.
//! - [`standing`]: which methods were scored on the same clients, so that they can be ranked.
//! - [`statistics`]: means, deviations, ranks, and paired differences from a reference with intervals and tests.
//! - [`comparison`]: what was found, as `compare.json`.
//! - [`table`]: the same for a terminal, a README, a paper, a spreadsheet.
//! - [`external`]: predictions of other tools, as one more method.
//!
//! A comparison's folder holds `compare.toml` (what is compared), a folder a run as `fedsi run` writes it, `tune/`
//! (trials), `with/` (other tools' predictions), and at the end `report.html` and `compare.json`. A killed comparison is resumed: finished runs
//! and trials are reused, half a run is made again, and the results are the same bits.

mod bootstrap;
mod client_sums;
mod compare;
pub mod comparison;
mod error;
pub mod external;
mod external_runs;
mod folder;
mod marker;
mod memory;
mod metric;
mod partial;
pub mod plan;
pub mod pool;
mod runs;
mod spec;
pub mod standing;
pub mod statistics;
mod summarise;
pub mod table;
pub mod tune;

pub use compare::{FinishedComparison, compare};
pub use comparison::Comparison;
pub use error::CompareError;
pub use external::{ExternalMethod, ExternalPredictions, ExternalValues};
pub use folder::CompareFolder;
pub use plan::methods;
pub use pool::CompareObserver;
pub use runs::{AfterRun, Outcomes, RunBatch, RunOutcome, RunReport};
pub use spec::{CompareSpec, TuneSpec};
pub use summarise::SummaryStatistics;
pub use table::{Columns, Format, check_columns};
