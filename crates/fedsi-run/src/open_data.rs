//! A run's data, open.

use std::sync::Arc;

use fedsi_data::{DataDigest, Federation, input_files, partition_digest};
use fedsi_fl::Checked;

use crate::RunError;

/// Data that is open, and what identifies it. Copies share one federation.
#[derive(Clone)]
pub struct OpenData {
    /// The clients and their samples.
    pub federation: Arc<dyn Federation>,
    /// What identifies them.
    pub digest: DataDigest,
}

impl OpenData {
    /// Opens the data of a config. Costs what opening costs, and reading its files twice more.
    ///
    /// # Errors
    /// Data that cannot be opened, or that changed meanwhile.
    pub fn open(config: &Checked) -> Result<Self, RunError> {
        let files = || input_files(config.dataset().as_ref(), &config.data, &config.partition);
        // A file that cannot be read for its digest is named by what opens it, with more to say.
        let before = files();
        let federation: Arc<dyn Federation> = Arc::from(config.open_data()?);
        let mut digest = DataDigest { files: before?, partition: String::new() };
        if let Some(change) = digest.changed_file(&files()?) {
            return Err(RunError::DataChangedWhileRead { change });
        }
        digest.partition = partition_digest(federation.as_ref());
        Ok(Self { federation, digest })
    }

    /// Data that comes from no files.
    #[must_use]
    pub fn of(federation: Arc<dyn Federation>) -> Self {
        let partition = partition_digest(federation.as_ref());
        Self { federation, digest: DataDigest { files: Vec::new(), partition } }
    }
}
