//! The definitions against the golden values that come with the design, where they are at hand.

use std::path::Path;

use fedsi_metrics::{Bins, Predictions};
use serde_json::Value;

fn close(name: &str, found: f64, expected: &Value) {
    // A missing value is NaN here, and close to nothing.
    let expected = expected.as_f64().unwrap_or(f64::NAN);
    assert!((found - expected).abs() <= 1e-12, "{name}: {found} is not {expected}");
}

#[test]
fn golden_metrics() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden/metrics.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: there is no {}", path.display());
        return;
    };
    let golden: Value = serde_json::from_str(&text).unwrap();
    let rows = golden["probabilities"].as_array().unwrap();
    let classes = rows[0].as_array().unwrap().len();
    let probabilities: Vec<f64> =
        rows.iter().flat_map(|row| row.as_array().unwrap()).map(|p| p.as_f64().unwrap()).collect();
    let labels: Vec<u32> = golden["labels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| u32::try_from(l.as_u64().unwrap()).unwrap())
        .collect();
    let predictions = Predictions::new(&probabilities, &labels, classes).unwrap();

    let calibrations = golden["calibration"].as_array().unwrap();
    assert!(!calibrations.is_empty());
    for calibration in calibrations {
        let bins = Bins::new(usize::try_from(calibration["bins"].as_u64().unwrap()).unwrap()).unwrap();
        let scores = predictions.scores(bins).unwrap();
        close("accuracy", scores.accuracy, &golden["accuracy"]);
        close("brier", scores.brier, &golden["brier"]);
        close("nll", scores.nll, &golden["nll"]);
        close("ece", scores.ece, &calibration["ece"]);
        close("mce", scores.mce, &calibration["mce"]);

        // Rows of the golden table: bin, count, confidence, accuracy; only bins with samples.
        let table = predictions.reliability(bins);
        let filled: Vec<_> = table.bins().enumerate().filter(|(_, bin)| !bin.is_empty()).collect();
        let expected = calibration["table"].as_array().unwrap();
        assert_eq!(filled.len(), expected.len());
        for ((index, bin), row) in filled.iter().zip(expected) {
            assert_eq!(*index as u64, row[0].as_u64().unwrap());
            assert_eq!(bin.count as u64, row[1].as_u64().unwrap());
            close("confidence", bin.confidence, &row[2]);
            close("accuracy of a bin", bin.accuracy, &row[3]);
        }
    }
}
