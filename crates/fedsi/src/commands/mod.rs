//! One file a command.

pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod laplace;
pub(crate) mod methods;
pub(crate) mod ood;
pub(crate) mod predict;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod run;
