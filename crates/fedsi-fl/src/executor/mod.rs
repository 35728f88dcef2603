//! Who carries out the work of clients: tasks and results that are data.
//!
//! An [`Executor`] may use the cores of this machine ([`CpuExecutor`]), other processes, a GPU or distant sites; the
//! results are the same bits on machines of a kind.

mod cache;
mod cpu;
mod encode;
mod remote;
mod request;
mod task;
mod worker;

use std::ops::ControlFlow;

use thiserror::Error;

pub(crate) use cache::CACHE_BYTES;
pub use cpu::CpuExecutor;
pub use remote::{Exchange, RemoteExecutor};
pub use request::{Request, Response};
pub use task::{Evaluated, EvaluationData, Outcome, Task, TaskResult, Work};
pub use worker::Worker;

/// Carries out clients' tasks.
pub trait Executor: Send + Sync {
    /// Carries out tasks until there are no more, or `each` asks to stop, and hands every outcome to `each` as soon as
    /// it is there, in any order. Tasks are taken from `tasks` when a worker is free, not before, so
    /// that memory follows what is at work and not the number of tasks.
    ///
    /// # Errors
    /// Workers that cannot go on. What a client cannot do is part of its outcome.
    fn run(
        &self,
        tasks: &mut (dyn Iterator<Item = Task> + Send),
        each: &mut dyn FnMut(Outcome) -> ControlFlow<()>,
    ) -> Result<(), ExecutorError>;
}

/// Why an executor cannot work. Each message is one line.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// Threads cannot be started.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// Why.
        reason: String,
    },
    /// Requests cannot be sent to clients' sites, or the exchange was stopped.
    #[error("the exchange with clients' sites failed: {0}")]
    Exchange(Box<dyn std::error::Error + Send + Sync>),
    /// A worker was lost.
    #[error("a worker was lost: {0}")]
    Worker(Box<dyn std::error::Error + Send + Sync>),
}
