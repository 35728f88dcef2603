//! What a site says of its data before training: never a row.

use serde::{Deserialize, Serialize};

use super::form::{check_classes, check_form, check_scaling, features};
use super::message::{MOST_SITES, Message, Refusal, VERSION, check_name};
use crate::error::DataError;
use crate::federation::Task;
use crate::scale::Scaling;
use crate::table::SiteSummary;

/// What a site says of its data before training, so that all sites can agree on an encoding. It holds no row: what it tells
/// is listed in `docs/privacy.md`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteDescription {
    pub(super) version: u32,
    /// What the site is called, in tables and files: as no other site is.
    pub name: String,
    /// The client number by which its rows were divided into training and test rows; none where that does not depend on it.
    pub client: Option<u32>,
    /// Rows that it trains on, at least one.
    pub train_rows: u64,
    /// Rows that it is tested on.
    pub test_rows: u64,
    /// What its data is.
    pub data: SiteData,
}

/// What a site's data is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SiteData {
    /// A dataset that every site opens by its name in the config and divides alike: nothing is to be agreed on.
    Named {
        /// The name, as in `data.dataset`.
        dataset: String,
        /// The shape of one input.
        input_shape: Vec<usize>,
        /// What is predicted.
        task: Task,
        /// The names of the classes, where they have any.
        class_names: Option<Vec<String>>,
        /// How regression targets are standardised.
        target_scaling: Option<Scaling>,
    },
    /// Arrays that are inputs as they are, from files or from the site's own code.
    Arrays {
        /// The shape of one input.
        input_shape: Vec<usize>,
        /// What is predicted.
        task: Task,
        /// The names of the classes, where they have any.
        class_names: Option<Vec<String>>,
        /// Whether they are images of bytes, which are scaled to [-1, 1].
        pixels: bool,
    },
    /// A table.
    Table {
        /// Counts, means, medians and categories of its training rows, and the moments of regression targets.
        summary: SiteSummary,
        /// What is predicted.
        target: TableTarget,
        /// The shape of one input that was asked for, `[]` for as many features as the columns become.
        shape: Vec<usize>,
    },
}

/// What is predicted from a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TableTarget {
    /// One of several classes.
    Classes {
        /// The column.
        column: String,
        /// Their names, in their order: those that the config lists, or else those that any row of the site has.
        names: Vec<String>,
        /// Whether the config lists them: then the site's rows tell nothing by them.
        listed: bool,
    },
    /// Numbers.
    Numbers {
        /// The columns.
        columns: Vec<String>,
    },
}

impl SiteDescription {
    /// A description that is checked.
    pub(super) fn checked(
        name: &str,
        client: Option<u32>,
        rows: [usize; 2],
        data: SiteData,
    ) -> Result<Self, DataError> {
        let [train_rows, test_rows] = rows.map(|rows| rows as u64);
        let new = Self { version: VERSION, name: name.to_owned(), client, train_rows, test_rows, data };
        new.check().map_err(|refusal| new.refused(refusal))?;
        Ok(new)
    }

    pub(super) fn refused(&self, (found, expected): Refusal) -> DataError {
        DataError::site(&self.name, found, expected, "correct its data or settings, and describe it again")
    }

    /// The message that the site sends: JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes()
    }

    /// Reads and checks the message of a site.
    ///
    /// # Errors
    /// Bytes that are no description of this version, or one that no site can have: see [`DataError::Site`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DataError> {
        Self::read(bytes)
    }

    /// SHA-256 of the message, in hexadecimal digits. A site that keeps it notices when its files have changed since.
    #[must_use]
    pub fn digest(&self) -> String {
        self.sha256()
    }
}

impl Message for SiteDescription {
    const NAME: &'static str = "a site's description";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), Refusal> {
        check_name(&self.name)?;
        let most = u64::from(u32::MAX);
        if self.train_rows == 0 || self.train_rows > most || self.test_rows > most {
            let found = format!("{} training rows and {} test rows", self.train_rows, self.test_rows);
            return Err((found, format!("1 to {most} training rows, at most {most} test rows")));
        }
        if let Some(client) = self.client.filter(|&client| client as usize >= MOST_SITES) {
            return Err((format!("client number {client}"), format!("0 to {}", MOST_SITES - 1)));
        }
        match &self.data {
            SiteData::Named { dataset, input_shape, task, class_names, target_scaling } => {
                if dataset.is_empty() {
                    return Err(("no name of a dataset".to_owned(), "one".to_owned()));
                }
                check_scaling(target_scaling.as_ref(), *task)?;
                check_form(input_shape, *task, class_names.as_deref())
            }
            SiteData::Arrays { input_shape, task, class_names, .. } => {
                check_form(input_shape, *task, class_names.as_deref())
            }
            SiteData::Table { summary, target, shape } => self.check_table(summary, target, shape),
        }
    }
}

impl SiteDescription {
    fn check_table(
        &self,
        summary: &SiteSummary,
        target: &TableTarget,
        shape: &[usize],
    ) -> Result<(), Refusal> {
        if let Err(DataError::Summary { found, expected }) = summary.check() {
            return Err((found, expected));
        }
        if summary.rows != self.train_rows {
            let found = format!("a summary of {} rows", summary.rows);
            return Err((found, format!("one of its {} training rows", self.train_rows)));
        }
        if summary.columns.is_empty() {
            return Err(("no column".to_owned(), "at least one that may be an input".to_owned()));
        }
        if !shape.is_empty() && features(shape).is_none() {
            return Err((format!("inputs of shape {shape:?}"), "[], or a shape with features".to_owned()));
        }
        let targets = match target {
            TableTarget::Classes { names, .. } => {
                check_classes(names)?;
                0
            }
            TableTarget::Numbers { columns } => columns.len().max(1),
        };
        // Every training row has a target.
        if summary.targets.len() != targets || summary.targets.iter().any(|own| own.count != summary.rows) {
            let found = format!("moments of {} targets", summary.targets.len());
            return Err((found, format!("of {targets}, over all training rows")));
        }
        Ok(())
    }
}
