//! Laplace posteriors of networks that somebody else trained: what `fedsi.Laplace` is made of.

mod convert;
mod file;
mod fitted;
mod problem;

use fedsi_bayes::{RuleName, Rules};
use pyo3::prelude::*;

use crate::errors::Kind;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<problem::LaplaceProblem>()?;
    module.add_class::<problem::LaplaceSelection>()?;
    module.add_class::<fitted::LaplaceFit>()?;
    module.add_function(wrap_pyfunction!(selection_rules, module)?)?;
    module.add_function(wrap_pyfunction!(rule_has_own_size, module)?)?;
    module.add_function(wrap_pyfunction!(available_memory, module)?)
}

/// The selection rules: how each is written, and what it takes.
#[pyfunction]
fn selection_rules() -> Vec<(String, String)> {
    let rules = Rules::builtin();
    rules.list().map(|(usage, summary)| (usage.to_owned(), summary.to_owned())).collect()
}

/// Whether a rule says by itself how many parameters it takes.
#[pyfunction]
fn rule_has_own_size(name: &str) -> PyResult<bool> {
    let rule = Rules::builtin().find(&RuleName::from(name)).map_err(|error| Kind::Input.error(error))?;
    Ok(rule.has_own_size())
}

/// Bytes of memory that can still be had, where the system tells.
#[pyfunction]
fn available_memory() -> Option<u64> {
    fedsi_fl::memory::available()
}
