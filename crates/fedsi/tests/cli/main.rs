//! The command line from end to end, as a person or a script meets it. Nothing here needs a network or a download.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_input;
mod calibrate;
mod changed;
mod commands;
mod compare;
mod compare_external;
mod device;
mod faults;
mod fetch;
mod folders;
mod laplace;
mod limits;
mod list;
mod ood;
mod own_data;
mod paper;
mod partitions;
mod predict;
mod predict_table;
mod repeatable;
mod report;
mod resume;
mod run;
mod score;
mod support;
mod tables;
mod unscored;
mod version_0_1;
