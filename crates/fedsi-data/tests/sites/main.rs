//! Sites with files of their own: what they tell, what they agree on, and the samples that each of them then has.
// Helpers of tests fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::panic)]

mod arrays;
mod contradictions;
mod hospitals;
mod messages;
mod random_tables;
mod same_samples;
