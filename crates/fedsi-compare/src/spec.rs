//! What is to be compared.

use std::path::PathBuf;

use fedsi_fl::methods::Method;
use toml::Table;

use crate::external::ExternalMethod;
use crate::plan::Settings;

/// How much a search for every method's settings tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TuneSpec {
    /// Rounds of a trial, where not a quarter of a run's.
    pub rounds: Option<usize>,
    /// The best trials that are made again for all rounds of a run, the settings before the search beside them; 2 where nothing
    /// is said, 0 for none.
    pub finalists: Option<usize>,
    /// How many seeds every setting is tried on, from the settings' own on; 1 where nothing is said.
    pub seeds: Option<usize>,
}

/// What is to be compared, and where.
pub struct CompareSpec<'a> {
    /// The methods, from [`methods`](crate::plan::methods).
    pub methods: Vec<&'static Method>,
    /// How many seeds, from the settings' own on.
    pub seeds: usize,
    /// Other tools' predictions of the same test rows.
    pub with: Vec<ExternalMethod>,
    /// The columns that tables are to have; all where empty.
    pub columns: Vec<String>,
    /// The name of the method that the others are tested against; `fedsi` where it is compared, else the first.
    pub reference: Option<&'a str>,
    /// How to tune first; none: not at all.
    pub tune: Option<TuneSpec>,
    /// Runs side by side; 0: as many as cores and memory allow.
    pub jobs: usize,
    /// The folder; `runs/compare-DATASET-SIZE` where none is given.
    pub out: Option<PathBuf>,
    /// Whether finished runs with other settings are replaced.
    pub force: bool,
    /// The user's settings.
    pub settings: &'a Settings<'a>,
    /// The same as they were given, for `compare.toml`.
    pub given: Table,
}
