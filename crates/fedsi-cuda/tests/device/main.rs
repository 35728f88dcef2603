//! The crate on a real GPU, beside the CPU. Where there is none, tests say that they were skipped.

#![allow(clippy::unwrap_used)]

mod gpu;
mod runs;
mod steps;
