//! Checks against the real datasets, where the environment variable `FEDSI_DATA_DIR` names a folder that holds them.

use std::path::PathBuf;

use fedsi_data::{DataSpec, DatasetName, PartitionSpec, Size, Split, check, open};

#[expect(clippy::print_stderr, reason = "whoever reads the log must know that nothing was checked")]
fn data_dir() -> Option<PathBuf> {
    let dir = std::env::var_os("FEDSI_DATA_DIR").map(PathBuf::from);
    if dir.is_none() {
        eprintln!("FEDSI_DATA_DIR is not set: nothing was checked");
    }
    dir
}

#[test]
fn the_papers_partitions_can_be_had() {
    let Some(dir) = data_dir() else { return };
    for dataset in [DatasetName::Mnist, DatasetName::FashionMnist, DatasetName::Cifar10] {
        for size in [Size::Small, Size::Large] {
            let data = DataSpec { dir: dir.clone(), ..DataSpec::defaults(dataset, size) };
            let partition = PartitionSpec::defaults(dataset, size);
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
fn the_folder_is_recognised() {
    let Some(dir) = data_dir() else { return };
    let reports = check(&dir);
    assert!(!reports.is_empty());
    for report in reports {
        eprintln!("{report}");
        assert!(report.problems.is_empty());
        if report.dataset != DatasetName::Cifar10 {
            assert_eq!(report.official, Some(true));
        }
    }
}
