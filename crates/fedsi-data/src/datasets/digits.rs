//! The built-in digits. How they are drawn: [`crate::digits`].

use crate::dataset::{DataForm, Dataset, DatasetDefaults};
use crate::digits::{self, DrawnDigits};
use crate::error::DataError;
use crate::federation::{Federation, Task};
use crate::spec::{DataSpec, PartitionSpec, Size};

/// Hand-drawn digits, 28x28, drawn on demand for any number of clients.
#[derive(Debug)]
pub(super) struct Digits;

impl Dataset for Digits {
    fn name(&self) -> &'static str {
        "digits"
    }

    fn description(&self) -> &'static str {
        "hand-drawn digits, built in: drawn on demand for any number of clients"
    }

    fn form(&self) -> Option<DataForm<'_>> {
        let task = Task::Classification { classes: digits::CLASSES };
        Some(DataForm { input_shape: &digits::SHAPE, task })
    }

    fn defaults(&self, size: Size) -> DatasetDefaults {
        let partition = match size {
            Size::Small => PartitionSpec::labels(10, 20, 80),
            Size::Large => PartitionSpec::labels(10, 200, 100),
        };
        DatasetDefaults { weight_noise: 0.1, ..DatasetDefaults::new(partition) }
    }

    fn open(
        &self,
        _data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        Ok(Box::new(DrawnDigits::open(partition, seed)?))
    }

    fn reads_dir(&self) -> bool {
        false
    }

    fn not_fetchable(&self) -> &'static str {
        "it is built in, and drawn on demand"
    }
}
