//! The registry, and facts that every built-in dataset must agree with.

use super::*;
use crate::dataset::{DataForm, DatasetDefaults};
use crate::spec::{Size, TaskKind};

#[test]
fn every_dataset_says_its_facts() {
    let datasets = Datasets::builtin();
    assert_eq!(
        datasets.names().collect::<Vec<_>>(),
        ["digits", "mnist", "fashion-mnist", "cifar-10", "files"]
    );
    for dataset in datasets.iter() {
        let name = dataset.name();
        assert_eq!(datasets.find(name).unwrap().name(), name);
        assert_eq!(dataset.files().is_empty(), dataset.mirrors().is_empty(), "{name}");
        assert!(dataset.files().iter().all(|file| file.sha256.len() == 64), "{name}");
        for size in [Size::Small, Size::Large] {
            let defaults = dataset.defaults(size);
            assert!(defaults.rounds > 0 && defaults.partition.clients > 0, "{name}");
            assert!(!defaults.body.is_empty() && defaults.subnetwork > 0.0, "{name}");
        }
        if let Some(DataForm { task: Task::Classification { classes }, .. }) = dataset.form() {
            assert!([0, classes].contains(&dataset.class_names().len()), "{name}");
        }
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest() {
    let error = Datasets::builtin().find("minst").unwrap_err();
    assert_eq!(error.nearest.as_deref(), Some("mnist"));
    assert_eq!(
        error.to_string(),
        "unknown dataset `minst` (did you mean `mnist`?); known: digits, mnist, fashion-mnist, cifar-10, files"
    );
    assert_eq!(Datasets::builtin().find("zzz").unwrap_err().nearest, None);
}

/// A dataset of another crate: the digits under another name, with other defaults.
#[derive(Debug)]
struct Own;

impl Dataset for Own {
    fn name(&self) -> &str {
        "own"
    }
    fn description(&self) -> &str {
        "a test's"
    }
    fn form(&self) -> Option<DataForm<'_>> {
        None
    }
    fn defaults(&self, _size: Size) -> DatasetDefaults {
        DatasetDefaults::new(PartitionSpec::labels(3, 2, 1))
    }
    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        digits::Digits.open(data, partition, seed)
    }
}

/// A dataset's task is a part of its form; without a form the setting of the user's files says it.
#[test]
fn the_kind_of_task_follows_from_the_form() {
    let mut data = DataSpec::defaults("own", Size::Small);
    data.files.task = TaskKind::Regression;
    for dataset in Datasets::builtin().with(Arc::new(Own)).iter() {
        let expected = match dataset.form().map(|form| form.task) {
            Some(Task::Classification { .. }) => TaskKind::Classification,
            Some(Task::Regression { .. }) | None => TaskKind::Regression,
        };
        assert_eq!(dataset.task_kind(&data), expected, "{}", dataset.name());
    }
}

#[test]
fn a_dataset_written_elsewhere_is_opened_by_its_name() {
    let datasets = Datasets::builtin().with(Arc::new(Own)).with(Arc::new(Own));
    assert_eq!(datasets.names().count(), 6, "the same name twice is one dataset");
    let data = DataSpec::defaults("own", Size::Small);
    let partition = datasets.find("own").unwrap().defaults(Size::Small).partition;
    assert_eq!(datasets.open(&data, &partition, 1).unwrap().clients(), 3);
    let error = Datasets::builtin().open(&data, &partition, 1).map(|_| ()).unwrap_err();
    assert!(matches!(error, DataError::Unknown(_)), "{error}");
}
