//! The engine of a federation: what clients and the server do, from config to predictions. It reads configs, and writes no files.
//!
//! - [`config`]: the settings of a run.
//! - [`methods`]: each method a declaration of a few lines.
//! - [`registry`]: the methods, datasets and selection rules that a config can name, its defaults and checks.
//! - [`parameters`]: what is known of a network's parameters, one type everywhere.
//! - [`network`]: what a client needs of a network.
//! - [`wire`]: what travels, as bytes.
//! - [`client`]: what a node does. [`server`]: what the server does. Both know messages and nothing else of each other.
//! - [`executor`]: tasks and outcomes as data, and who carries them out.
//! - [`calibration`]: what the federation chooses on data set aside.
//! - [`client_store`]: what clients keep between rounds. [`scores`]: scores of predictions.
//! - [`site`]: a client's own site, on request bytes.
//! - [`coordinator`]: the server's end of a federation, round by round, wherever its clients are.
//! - [`simulation`]: a whole federation in one process: a coordinator beside its clients' data. [`cost`]: what it will cost, before it is built.
//! - [`memory`]: what this process can still have.
//!
//! Run folders, checkpoints and saved runs are in the crate `fedsi-run`.

pub mod calibration;
pub mod client;
pub mod client_store;
pub mod config;
pub mod coordinator;
pub mod cost;
mod error;
pub mod executor;
pub mod memory;
pub mod methods;
pub mod network;
pub mod parameters;
pub mod registry;
pub mod scores;
pub mod server;
pub mod simulation;
pub mod site;
pub mod wire;

pub use client::Client;
pub use client_store::{ClientStates, ClientStore, MemoryStore, SiteVersions, StoreError};
pub use config::{Config, ConfigError};
pub use coordinator::Coordinator;
pub use error::SimulationError;
pub use executor::Executor;
pub use parameters::Part;
pub use registry::{Checked, Registry, resolve};
pub use server::Server;
pub use simulation::Simulation;
pub use site::Site;
