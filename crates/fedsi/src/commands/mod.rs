//! One file a command.

pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod config;
pub(crate) mod data;
mod data_export;
pub(crate) mod laplace;
pub(crate) mod list;
pub(crate) mod methods;
pub(crate) mod ood;
pub(crate) mod paper;
pub(crate) mod predict;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod score;
