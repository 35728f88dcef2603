//! `ood.json`: what `fedsi ood` found of a run's models, where it was asked for.

use std::path::Path;

use serde::Deserialize;

/// What the file says it is.
const FORMAT: &str = "fedsi-ood-1";

/// How models tell inputs that are not like their training data from their clients' own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct OodReport {
    format: String,
    /// The clients' own test samples first.
    pub(crate) sets: Vec<OodSet>,
}

/// One set of inputs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct OodSet {
    /// What they are.
    pub(crate) inputs: String,
    pub(crate) samples: usize,
    #[serde(default)]
    pub(crate) accuracy: Option<f64>,
    #[serde(default)]
    pub(crate) auroc_strangeness: Option<f64>,
    #[serde(default)]
    pub(crate) auroc_entropy: Option<f64>,
}

impl OodReport {
    /// The run's, where there is one that can be read: it is no part of a complete run, so a damaged one is left out.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read(folder.join("ood.json")).ok()?;
        let found: Self = serde_json::from_slice(&text).ok()?;
        (found.format == FORMAT).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_where_it_is_there_and_sound() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(OodReport::read(folder.path()), None);
        let write = |text: &str| std::fs::write(folder.path().join("ood.json"), text).unwrap();
        write(
            r#"{"format": "fedsi-ood-1", "version": "0", "sets": [{"inputs": "unseen classes", "samples": 3,
            "accuracy": null, "auroc_strangeness": 0.9, "auroc_entropy": 0.7, "entropy": 0.1}]}"#,
        );
        let found = OodReport::read(folder.path()).unwrap();
        assert_eq!((found.sets[0].samples, found.sets[0].auroc_strangeness), (3, Some(0.9)));
        write(r#"{"format": "another", "sets": []}"#);
        assert_eq!(OodReport::read(folder.path()), None);
        write("{");
        assert_eq!(OodReport::read(folder.path()), None);
    }
}
