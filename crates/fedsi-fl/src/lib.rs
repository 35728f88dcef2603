//! Federated learning, one way: config, data, rounds, metrics, report.
//!
//! - [`config`]: what a run is told, checked once.
//! - [`methods`]: each method a declaration of a few lines.
//! - [`work`] and [`executor`]: the local work of clients as data, and who carries it out.
//! - [`infer`]: a client's posterior after its training.
//! - [`message`], [`server`] and [`aggregate`]: what travels, and how it becomes one.
//! - [`admission`] and [`exclusion`]: what the server believes, and who is left out and why.
//! - [`faults`]: clients that fail, simulated. [`robust`]: averages that a few of them cannot move.
//! - [`privacy`]: noise that hides any one client, and an account of what is told all the same.
//! - [`calibrate`]: the prior variance of personal posteriors, chosen on data set aside.
//! - [`belief`]: a client's own model, and what it believes of its parameters.
//! - [`predictor`] and [`predict`]: from there to predictions and their scores.
//! - [`simulation`]: a whole federation in one process, round by round.
//! - [`run`]: a simulation with its files; [`checkpoint`]: what it takes to go on with one; [`exhibits`]: what its report
//!   shows beyond scores.
//! - [`saved`]: a finished run, opened to predict.

pub mod admission;
pub mod aggregate;
pub mod belief;
pub mod calibrate;
pub mod checkpoint;
pub mod config;
mod error;
pub mod exclusion;
pub mod executor;
pub mod exhibits;
pub mod faults;
mod files;
mod folder;
mod host;
pub mod infer;
pub mod message;
pub mod methods;
mod model_file;
mod part;
mod personal;
pub mod predict;
pub mod predictor;
pub mod privacy;
pub mod record;
pub mod robust;
pub mod run;
pub mod saved;
pub mod server;
pub mod simulation;
mod state;
pub mod work;

pub use config::{Checked, Config, ConfigError};
pub use error::RunError;
pub use files::{Values, read_prediction_clients, read_predictions, write_tensors, write_whole};
pub use folder::{RunFolder, data_label};
pub use model_file::{model_bytes, read_model};
pub use part::Part;
pub use personal::{Personal, PersonalStore};
pub use run::Observer;
pub use simulation::Simulation;
pub use state::State;
