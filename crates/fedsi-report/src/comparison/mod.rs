//! The page of a comparison.

mod verdict;

use std::path::{Path, PathBuf};

use askama::Template;
use fedsi_compare::comparison::{MethodResult, Trial, TuningProtocol};
use fedsi_compare::table::{Mark, Table};
use fedsi_compare::{Columns, Comparison};

use crate::ReportError;
use crate::format::counted;
use crate::method_runs::MethodRuns;
use crate::output::{PdfPlots, RenderedPage};
use crate::plots::ComparePlots;
use verdict::Verdict;

/// Lines about runs that failed or could not be read, listed one by one.
const MAX_LINES: usize = 50;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage<'a> {
    comparison: &'a Comparison,
    verdict: Verdict,
    table: Table,
    plots: &'a ComparePlots,
    failures: Vec<String>,
    unranked: Vec<String>,
    unread: Vec<String>,
    /// Runs that are not complete yet, a line a method.
    missing: Vec<String>,
    tuned: Vec<(&'a MethodResult, String)>,
}

/// Makes `report.html` and `plots/` in the folder of a comparison, from its runs there. Returns the page's path. Runs
/// whose files are missing or damaged are named on the page and left out of its plots.
///
/// # Errors
/// A page or plot that cannot be drawn or written.
pub fn write_comparison(folder: &Path, comparison: &Comparison) -> Result<PathBuf, ReportError> {
    write_with_pdf(folder, comparison, PdfPlots::Existing)
}

/// The same, with PDF plots where they are wanted.
pub(crate) fn write_with_pdf(
    folder: &Path,
    comparison: &Comparison,
    pdf: PdfPlots,
) -> Result<PathBuf, ReportError> {
    let method_runs: Vec<MethodRuns> =
        comparison.methods.iter().map(|method| MethodRuns::of(folder, method)).collect();
    crate::output::write(folder, &comparison_page(comparison, &method_runs)?, pdf)
}

/// The page, from what was read of each method's runs.
pub(crate) fn comparison_page(
    comparison: &Comparison,
    method_runs: &[MethodRuns],
) -> Result<RenderedPage, ReportError> {
    let plots = ComparePlots::of(comparison, method_runs)?;
    let tuned = comparison.methods.iter().filter(|method| !method.trials.is_empty());
    let page = ComparePage {
        comparison,
        verdict: Verdict::of(comparison),
        table: comparison.table(Columns::Usual),
        missing: truncated(comparison.missing_lines()),
        plots: &plots,
        failures: truncated(comparison.failures()),
        unranked: truncated(comparison.unranked()),
        unread: truncated(method_runs.iter().flat_map(|found| found.unread.iter().cloned()).collect()),
        tuned: tuned.map(|method| (method, values(&method.tuned))).collect(),
    };
    let text = page.render().map_err(|error| ReportError::Drawing(error.to_string()))?;
    Ok(RenderedPage { page: text, readers: fedsi_run::Readers::Umask, plots: plots.all().cloned().collect() })
}

fn truncated(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

/// `key = value`, in a line.
fn values(values: &std::collections::BTreeMap<String, f64>) -> String {
    let all: Vec<String> = values.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    all.join(", ")
}

impl ComparePage<'_> {
    fn title(&self) -> String {
        format!("{} on {}", counted(self.comparison.methods.len(), "method"), self.comparison.dataset)
    }

    /// What was run, in a line.
    fn about(&self) -> String {
        let found = self.comparison;
        let size = if found.is_own_data() { String::new() } else { format!("{} data, ", found.size) };
        format!(
            "{size}{}, {}; fedsi {}",
            counted(found.rounds, "round"),
            counted(found.seeds.len(), "seed"),
            found.version
        )
    }

    /// How many runs of how many are there, where some are missing.
    fn progress(&self) -> String {
        let there: usize = self.comparison.methods.iter().map(|method| method.runs.len()).sum();
        format!("{there} of {}", counted(there + self.comparison.missing.len(), "run"))
    }

    /// The class of a cell's mark in the page.
    const fn class(mark: &Mark) -> &'static str {
        match mark {
            Mark::None => "",
            Mark::Best => "best",
            Mark::Second => "second",
            Mark::Unranked => "unranked",
        }
    }

    /// Whether classes are predicted, not values.
    fn is_classes(&self) -> bool {
        self.comparison.metrics.first().is_none_or(|metric| metric.key == "accuracy")
    }

    fn trial_values(trial: &Trial) -> String {
        values(&trial.values)
    }

    fn trial_rounds(trial: &Trial, tuning: &TuningProtocol) -> usize {
        trial.rounds.unwrap_or(tuning.rounds)
    }

    fn trial_seed(trial: &Trial, tuning: &TuningProtocol) -> u64 {
        trial.seed.unwrap_or(tuning.seed)
    }

    fn trial_score(trial: &Trial) -> String {
        match (trial.held_out_nll, &trial.failure) {
            (Some(nll), _) => format!("{nll:.4}"),
            (None, Some(reason)) => format!("failed: {reason}"),
            (None, None) => "not scored".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped() {
        let text = r#"{"dataset": "<script>alert(1)</script>", "size": "small", "seeds": [1], "rounds": 2, "jobs": 1,
            "version": "0", "metrics": [], "methods": []}"#;
        let comparison: Comparison = serde_json::from_str(text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let page = std::fs::read_to_string(write_comparison(folder.path(), &comparison).unwrap()).unwrap();
        assert!(!page.contains("<script>alert") && page.contains("alert(1)"), "{page}");
        assert!(!page.contains("http://") && !page.contains("https://"), "it needs nothing from elsewhere");
        assert!(page.contains("Nothing was evaluated"));
    }
}
