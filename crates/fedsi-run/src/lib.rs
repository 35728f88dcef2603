//! A simulation with its files: what it writes while it runs, and what can be done with that afterwards.
//!
//! - [`run`]: a run from its first round to its last file, and one that goes on after it was stopped.
//! - [`RunFolder`]: the folder that one run, and no other, writes into.
//! - [`checkpoint`]: what it takes to go on with a run; [`DiskStore`]: clients' states where they are many.
//! - [`Summary`]: `summary.json`, which says that a run is complete.
//! - [`saved`]: a complete run, opened to predict.
//! - [`settings`]: which settings decide a run's results, and whether two configs agree in them.
//! - [`report_data`]: what a report shows beyond scores.
//! - [`read_predictions`], [`read_model`], [`write_tensors`], [`write_whole`]: single files.

pub mod checkpoint;
mod disk_store;
mod error;
mod files;
mod folder;
mod model_file;
mod naming;
mod predictions_file;
pub mod report_data;
pub mod run;
pub mod saved;
pub mod settings;
mod summary;
mod tensor_file;

pub use disk_store::DiskStore;
pub use error::RunError;
pub use files::{WriteError, write_whole};
pub use folder::{FolderError, RunFolder};
pub use model_file::{ModelFileError, model_bytes, read_model};
pub use naming::{data_label, dataset_name};
pub use predictions_file::{read_prediction_clients, read_predictions};
pub use run::{Completed, Observer};
pub use summary::{ClientScores, Seconds, Summary};
pub use tensor_file::{NamedTensor, TensorFileError, tensor_bytes, write_tensors};
