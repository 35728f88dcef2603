//! Tables as people have them: what their columns hold, and how those become a network's inputs.
//!
//! Each site describes its own training rows by a [`SiteSummary`]: counts, means, medians, lists of categories that at
//! least three of its rows have, never a row. [`TableEncoding::agree`] makes one encoding of them, the same at every site. A simulation takes the same way,
//! client by client, so that a real federation encodes its tables as the simulation of it does.

mod agree;
mod cell;
mod column_kind;
mod csv_file;
mod encoding;
mod giveaway;
mod identifier;
mod inspect;
mod moments;
mod parquet;
mod ranges;
mod rows;
mod sheet;
mod site;
mod summary;

pub use column_kind::ColumnKind;
pub use encoding::{ColumnEncoding, LeftOut, TableEncoding};
pub use moments::Moments;
pub use ranges::{ColumnRange, OutsideValue, outside, ranges_of};
pub use site::{ColumnSummary, SiteSummary, SummarySettings};
pub use summary::{BadCell, DataSummary, UsedColumn};

pub(crate) use agree::MergedSummaries;
#[cfg(test)]
pub(crate) use cell::day_text;
pub(crate) use cell::{is_missing, is_missing_target, number, with_point};
pub(crate) use csv_file::{column, read_csv};
pub(crate) use giveaway::Outcome;
pub(crate) use inspect::{Inspected, inspect};
pub(crate) use ranges::ranges;
pub(crate) use rows::{TableRows, TableTargets, is_table, read_sheet, read_tables};
pub(crate) use sheet::Sheet;

#[cfg(test)]
mod tests;
