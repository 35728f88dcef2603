//! A simulation with its files: what it writes while it runs, and what can be done with that afterwards.
//!
//! - [`run`]: a run from its first round to its last file, and one that goes on after it was stopped.
//! - [`RunFolder`]: the folder that one run, and no other, writes into.
//! - [`Origin`]: what a run is made from; a run whose data changed does not continue.
//! - [`checkpoint`]: what it takes to go on with a run; [`DiskStore`]: clients' states where they are many.
//! - [`Summary`]: `summary.json`, which says that a run is complete.
//! - [`saved`]: a complete run, opened to predict; [`list_runs`]: the runs below a folder.
//! - [`federation`]: the two ends of a federation whose clients are at sites of their own.
//! - [`settings`]: which settings decide a run's results, and whether two configs agree in them.
//! - [`ood`]: what the models of a complete run make of inputs unlike their training data.
//! - [`report_data`]: what a report shows beyond scores.
//! - [`read_predictions`], [`read_model`], [`write_tensors`], [`write_whole`]: single files.

pub mod checkpoint;
mod class_scores;
pub mod crash_points;
mod device;
mod disk_store;
mod error;
mod evaluated_client;
mod evaluation_log;
pub mod federation;
mod federation_error;
mod files;
mod folder;
mod listing;
mod lock;
mod model_file;
mod naming;
pub mod ood;
mod open_data;
mod origin;
mod personal_file;
mod predictions_file;
mod predictions_table;
pub mod report_data;
mod rounds;
pub mod run;
pub mod saved;
mod score_details;
pub mod settings;
mod summary;
mod tensor_file;

pub use class_scores::{ClassScores, MAX_AUROC_CLASSES, MAX_CLASSES};
pub use device::ComputeDevice;
pub use disk_store::DiskStore;
pub use error::RunError;
pub use files::{Readers, WriteError, create_folder, for_owner_only, remove_file, write_for, write_whole};
pub use folder::{FolderError, RUN_PLOTS, RunFolder, remove_temporary};
pub use listing::{Listed, State, list_runs};
pub use lock::FolderLock;
pub use model_file::{ModelFileError, model_bytes, read_model};
pub use naming::{class_columns, data_label, dataset_name, own_data_title, target_suffixes};
pub use open_data::OpenData;
pub use origin::{Origin, OriginError, StatesError, run_id};
pub use predictions_file::{prediction_tensors, read_prediction_clients, read_predictions};
pub use predictions_table::{PREDICTIONS_TABLE, read_strangeness_column, six_digits};
pub use run::{Completed, Observer};
pub use saved::conformal_found;
pub use score_details::{MAX_CONFUSION_CLASSES, ResampledUnit, ScoreDetails};
pub use summary::{ClientCoverage, ClientScores, Seconds, Summary};
pub use tensor_file::{NamedTensor, TensorFileError, tensor_bytes, write_tensors};
