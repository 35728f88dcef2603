//! A site describes its own data.

use super::description::{SiteData, SiteDescription, TableTarget};
use super::own_files::{divide, draws_rows, is_pixels, read_own};
use crate::error::DataError;
use crate::federation::{Federation, Split, Task};
use crate::pool::{PoolInputs, site_summary};
use crate::spec::{FilesSpec, PartitionSpec};

impl SiteDescription {
    /// Describes the files of a site: one table or array file, which is divided into training and test rows as the
    /// partition says (`test_fraction`, `group`, `time`), or one file for each, `data.files.train` and `test`. All rows are
    /// the site's own. `data.files.*` says which columns are what, as in one process.
    ///
    /// `client` is the number that the site has in the federation. Where test rows are drawn it decides which ones, as it does
    /// in one process; the description says so, and [`Agreement::of`](super::Agreement::of) checks it. Reads the files, and
    /// costs their memory.
    ///
    /// Two things a site cannot know of others, so that they may differ from one process: a group of `partition.group` that is
    /// at several sites may be trained on at one and tested at another, and dates such as 3/4/2024 in the column
    /// `partition.time` are read as the site's own rows suggest.
    ///
    /// # Errors
    /// A file that is missing or malformed; settings under which rows belong to several clients, or arrays would need a scale
    /// or classes from the rows of all sites; a name that cannot be shown; no row to train on.
    pub fn of_files(
        spec: &FilesSpec,
        partition: &PartitionSpec,
        seed: u64,
        client: usize,
        name: &str,
    ) -> Result<Self, DataError> {
        let pool = read_own(spec, partition)?;
        let rows = divide(&pool, partition, seed, client, name)?;
        let data = match &pool.inputs {
            PoolInputs::Array(_) => SiteData::Arrays {
                input_shape: pool.shape.clone(),
                task: pool.task,
                class_names: pool.class_names.clone(),
                pixels: is_pixels(&pool),
            },
            PoolInputs::Table(table) => {
                let mut columns = table.target_names();
                let target = match &pool.class_names {
                    Some(names) => TableTarget::Classes {
                        column: columns.pop().unwrap_or_default(),
                        names: names.clone(),
                        listed: !spec.classes.is_empty(),
                    },
                    None => TableTarget::Numbers { columns },
                };
                let summary = site_summary(table, &rows.train, &pool.targets);
                SiteData::Table { summary, target, shape: pool.shape.clone() }
            }
        };
        let client = draws_rows(spec, partition).then_some(client as u32);
        Self::checked(name, client, [rows.train.len(), rows.test.len()], data)
    }

    /// Describes arrays that the site's own code loaded, which are inputs as they are: how many training and test rows, the
    /// shape of one input, what is predicted, and the names of the classes where they have any. Where inputs or regression
    /// targets should be scaled, that code does it, by ranges that all sites know.
    ///
    /// # Errors
    /// A name that cannot be shown; no row to train on; a shape without features; names that are not one a class.
    pub fn of_arrays(
        name: &str,
        input_shape: &[usize],
        task: Task,
        class_names: Option<&[String]>,
        train_rows: usize,
        test_rows: usize,
    ) -> Result<Self, DataError> {
        let data = SiteData::Arrays {
            input_shape: input_shape.to_vec(),
            task,
            class_names: class_names.map(<[String]>::to_vec),
            pixels: false,
        };
        Self::checked(name, None, [train_rows, test_rows], data)
    }

    /// Describes a dataset that every site opens by its name in the config and divides alike, of which this site has one
    /// client's rows.
    ///
    /// # Errors
    /// A name that cannot be shown; a client without rows to train on.
    pub fn of_named(
        dataset: &str,
        federation: &dyn Federation,
        client: usize,
        name: &str,
    ) -> Result<Self, DataError> {
        let rows = [Split::Train, Split::Test].map(|split| federation.count(client, split));
        let data = SiteData::Named {
            dataset: dataset.to_owned(),
            input_shape: federation.input_shape().to_vec(),
            task: federation.task(),
            class_names: federation.class_names().map(<[String]>::to_vec),
            target_scaling: federation.target_scaling().cloned(),
        };
        Self::checked(name, Some(u32::try_from(client).unwrap_or(u32::MAX)), rows, data)
    }
}
