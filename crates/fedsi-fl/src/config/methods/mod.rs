//! Settings of single methods, a file for each.

mod bpfed;
mod fedbabu;
mod fedpop;
mod fedsi;
mod lg_fedavg;
mod mean_field;
mod pfedbayes;

pub use bpfed::BpfedConfig;
pub use fedbabu::FedbabuConfig;
pub use fedpop::FedpopConfig;
pub use fedsi::{
    FedsiConfig, FinalPrior, ModesSetting, NamedModes, NamedPrior, PosteriorName, PriorScale, VarianceAverage,
};
pub use lg_fedavg::LgFedavgConfig;
pub use mean_field::MeanFieldConfig;
pub use pfedbayes::PfedbayesConfig;
