//! The command line from end to end, as a person or a script meets it. Nothing here needs a network or a download.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod changed;
mod commands;
mod compare;
mod faults;
mod fetch;
mod folders;
mod laplace;
mod limits;
mod ood;
mod own_data;
mod predict;
mod repeatable;
mod report;
mod resume;
mod run;
mod support;
mod unscored;
mod version_0_1;
