//! The page of a comparison.

use std::path::{Path, PathBuf};

use askama::Template;
use fedsi_compare::Comparison;
use fedsi_compare::comparison::MethodResult;
use fedsi_compare::table::{Mark, Table};

use crate::ReportError;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage<'a> {
    comparison: &'a Comparison,
    table: Table,
    failures: Vec<String>,
    tuned: Vec<(&'a MethodResult, String)>,
}

/// Makes `report.html` in the folder of a comparison. Returns the page's path.
///
/// # Errors
/// A page that cannot be drawn or written.
pub fn write_comparison(folder: &Path, comparison: &Comparison) -> Result<PathBuf, ReportError> {
    let values = |method: &MethodResult| {
        let values = method.tuned.iter().map(|(key, value)| format!("{key} = {value}"));
        values.collect::<Vec<_>>().join(", ")
    };
    let tuned = comparison.methods.iter().filter(|method| !method.tuned.is_empty());
    let page = ComparePage {
        comparison,
        table: comparison.table(),
        failures: comparison.failures(),
        tuned: tuned.map(|method| (method, values(method))).collect(),
    };
    let text = page.render().map_err(|error| ReportError::Drawing(error.to_string()))?;
    let target = folder.join("report.html");
    fedsi_fl::write_whole(&target, text.as_bytes())?;
    Ok(target)
}

impl ComparePage<'_> {
    /// The class of a cell's mark in the page.
    const fn class(mark: &Mark) -> &'static str {
        match mark {
            Mark::None => "",
            Mark::Best => "best",
            Mark::Second => "second",
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
    }
}
