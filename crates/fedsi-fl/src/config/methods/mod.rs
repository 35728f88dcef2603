//! Settings of single methods, a file for each.

mod bpfed;
mod fedbabu;
mod fedpop;
mod fedsi;
mod mean_field;
mod pfedbayes;

pub use bpfed::BpfedConfig;
pub use fedbabu::FedbabuConfig;
pub use fedpop::FedpopConfig;
pub use fedsi::{FedsiConfig, FinalPrior, NamedPrior, VarianceAverage};
pub use mean_field::MeanFieldConfig;
pub use pfedbayes::PfedbayesConfig;
