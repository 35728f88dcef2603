//! Readers of files that may hold anything: what a header promises is compared with what the file holds before
//! memory is set aside for it, and everything else is checked before it becomes part of a pool.

pub(crate) mod arrays;
pub(crate) mod cifar;
mod files;
pub(crate) mod idx;
mod inputs;
mod labelled;
mod new_rows;
mod npy;
mod numbered_classes;
mod picture;
mod tensors;

pub(crate) use files::{input_files, open_files};
pub use inputs::{ArrayNumbers, InputForm, InputRows, array_inputs, read_inputs};
pub use labelled::{LabelledRows, TargetForm, read_labelled};
pub use new_rows::InputTable;
pub use npy::npy_numbers;

#[cfg(test)]
mod tests;
