//! Hand-made good and bad files, and damage done to good ones.

mod arrays;
mod damage;
mod hostile;
mod images;
mod inputs;
mod parquet_files;
mod real_tables;
mod tables;

use std::path::Path;

use super::*;
use crate::error::DataError;
use crate::federation::{Federation, Split, Targets, Task};
use crate::scale::Scaling;
use crate::spec::{DataSpec, FilesSpec, PartitionKind, PartitionSpec, Size, TaskKind};

fn complaint<T>(result: Result<T, DataError>) -> String {
    let text = result.err().expect("an error was expected").to_string();
    assert!(!text.contains('\n'), "more than one line: {text}");
    text
}

fn files(dir: &Path, train: &str) -> FilesSpec {
    FilesSpec { train: dir.join(train), ..FilesSpec::default() }
}

fn open_spec(files: FilesSpec, kind: PartitionKind) -> Result<Box<dyn Federation>, DataError> {
    let data = DataSpec { files, ..DataSpec::defaults("files", Size::Small) };
    let defaults = PartitionSpec::iid(10);
    let partition = PartitionSpec { kind, clients: 2, test_fraction: 0.25, ..defaults };
    crate::open(&data, &partition, 1)
}

/// What a network takes that was trained on numbers in files.
fn form<'a>(files: &'a FilesSpec, shape: &'a [usize], scaling: Option<&'a Scaling>) -> InputForm<'a> {
    InputForm { files: Some(files), shape, columns: None, encoding: None, pixels: false, scaling }
}

/// Whether standardised values are those of consecutive whole numbers.
fn evenly_spaced(values: &[f32], std: f64) {
    assert_eq!(values.len(), 60);
    for pair in values.windows(2) {
        let step = f64::from(pair[1] - pair[0]) * std;
        assert!((step - 1.0).abs() < 1e-4, "{pair:?} are {step} apart");
    }
}
