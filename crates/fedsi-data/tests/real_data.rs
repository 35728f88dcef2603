//! Checks against the real datasets, in the folder that the environment variable `FEDSI_DATA_DIR` names. Without it each
//! test prints that it was skipped.

use std::io::Write as _;
use std::path::PathBuf;

use fedsi_data::{DataSpec, Datasets, Size, Split, check, open};

/// The folder of the datasets; `None` after saying that the test was skipped.
fn data_dir_or_skip(test: &str) -> Option<PathBuf> {
    let dir = std::env::var_os("FEDSI_DATA_DIR").map(PathBuf::from);
    if dir.is_none() {
        // Past the harness, which hides what a passing test prints by `eprintln!`.
        let line =
            format!("skipped: {test}: FEDSI_DATA_DIR names no folder with datasets, nothing was checked\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    dir
}

#[test]
fn the_papers_partitions_can_be_had_if_the_data_is_there() {
    let Some(dir) = data_dir_or_skip("the_papers_partitions_can_be_had") else { return };
    for dataset in ["mnist", "fashion-mnist", "cifar-10"] {
        for size in [Size::Small, Size::Large] {
            let data = DataSpec { dir: dir.clone(), ..DataSpec::defaults(dataset, size) };
            let partition = Datasets::builtin().find(dataset).unwrap().defaults(size).partition;
            let federation = open(&data, &partition, 1).unwrap();
            assert_eq!(federation.clients(), partition.clients);
            let samples = federation.samples(1, Split::Test);
            assert_eq!(samples.count, 5 * partition.test);
            assert!(samples.inputs.iter().all(|value| (-1.0..=1.0).contains(value)));
            assert_eq!(federation.label_counts(1, Split::Train)[5..], vec![partition.train; 5]);
        }
    }
}

#[test]
fn the_folder_is_recognised_if_the_data_is_there() {
    let Some(dir) = data_dir_or_skip("the_folder_is_recognised") else { return };
    let reports = check(&dir);
    assert!(!reports.is_empty());
    for report in reports {
        assert!(report.problems.is_empty(), "{report}");
        if report.dataset != "cifar-10" {
            assert_eq!(report.official, Some(true), "{report}");
        }
    }
}
