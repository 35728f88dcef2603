//! Mean-field variational inference: every parameter an independent normal, means and spreads trained together.
//!
//! What is minimised over the distribution q is `E_q[mean loss] + weight KL(q || p)`, the negative evidence lower bound a
//! sample where weight is one over the number of samples. The expectation is one draw a step, reparameterised; the
//! divergence and its gradient are closed.

mod distribution;
mod train;

pub use distribution::MeanField;
pub use train::VariationalTrainer;
