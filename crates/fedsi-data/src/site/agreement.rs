//! What all sites have agreed on: who is which client, and what inputs and targets are.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::form::{check_form, check_scaling, features};
use super::message::{MOST_SITES, Message, Refusal, check_name};
use crate::error::{DataError, quoted};
use crate::federation::Task;
use crate::scale::Scaling;
use crate::table::{SummarySettings, TableEncoding};

/// What all sites have agreed on before training. The server makes it of their descriptions and sends it to each of them; it
/// knows the shape of inputs, the task and the classes from it without any data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    pub(super) version: u32,
    pub(super) sites: Vec<String>,
    pub(super) input_shape: Vec<usize>,
    pub(super) task: Task,
    pub(super) class_names: Option<Vec<String>>,
    pub(super) target_scaling: Option<Scaling>,
    pub(super) data: AgreedData,
}

/// What the data of all sites is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum AgreedData {
    /// A dataset that every site opens by its name in the config.
    Named {
        /// The name.
        dataset: String,
    },
    /// Arrays that are inputs as they are.
    Arrays {
        /// Whether they are images of bytes, which are scaled to [-1, 1].
        pixels: bool,
    },
    /// A table.
    Table {
        /// The settings by which it is encoded.
        settings: SummarySettings,
        /// The columns of the targets.
        targets: Vec<String>,
        /// How its columns become inputs.
        encoding: TableEncoding,
    },
}

impl Agreement {
    /// The number of clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.sites.len()
    }

    /// The names of the sites, in the order of client numbers.
    #[must_use]
    pub fn sites(&self) -> &[String] {
        &self.sites
    }

    /// The client number of a site. Costs comparing all names.
    #[must_use]
    pub fn client(&self, name: &str) -> Option<usize> {
        self.sites.iter().position(|site| site == name)
    }

    /// The shape of one input: `[channels, height, width]` for images, `[features]` for tables.
    #[must_use]
    pub fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    /// What is predicted.
    #[must_use]
    pub const fn task(&self) -> Task {
        self.task
    }

    /// The names of the classes, where they have any.
    #[must_use]
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// How regression targets are standardised, one column per output; `None` where they are as in the data.
    #[must_use]
    pub const fn target_scaling(&self) -> Option<&Scaling> {
        self.target_scaling.as_ref()
    }

    /// How inputs are standardised, one column per feature; `None` where they are not.
    #[must_use]
    pub fn input_scaling(&self) -> Option<Scaling> {
        match &self.data {
            AgreedData::Table { settings, encoding, .. } if settings.standardize => Some(encoding.scaling()),
            _ => None,
        }
    }

    /// How the columns of a table become inputs, where the data is one.
    #[must_use]
    pub const fn table_encoding(&self) -> Option<&TableEncoding> {
        match &self.data {
            AgreedData::Table { encoding, .. } => Some(encoding),
            AgreedData::Named { .. } | AgreedData::Arrays { .. } => None,
        }
    }

    /// What the data of all sites is.
    #[must_use]
    pub const fn data(&self) -> &AgreedData {
        &self.data
    }

    /// The message that the server sends: JSON. The same descriptions in the same order give the same bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes()
    }

    /// Reads and checks the message of a server.
    ///
    /// # Errors
    /// Bytes that are no agreement of this version, or one that cannot be: see [`DataError::Site`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DataError> {
        Self::read(bytes)
    }

    /// SHA-256 of the message, in hexadecimal digits: whoever has the same one has agreed on the same.
    #[must_use]
    pub fn digest(&self) -> String {
        self.sha256()
    }
}

impl Message for Agreement {
    const NAME: &'static str = "the agreement of the sites";

    fn version(&self) -> u32 {
        self.version
    }

    fn check(&self) -> Result<(), Refusal> {
        if !(1..=MOST_SITES).contains(&self.sites.len()) {
            return Err((format!("{} sites", self.sites.len()), format!("1 to {MOST_SITES}")));
        }
        let mut seen = HashSet::with_capacity(self.sites.len());
        for name in &self.sites {
            check_name(name)?;
            if !seen.insert(name) {
                return Err((format!("two sites named {}", quoted(name)), "a name of its own".to_owned()));
            }
        }
        check_form(&self.input_shape, self.task, self.class_names.as_deref())?;
        check_scaling(self.target_scaling.as_ref(), self.task)?;
        match &self.data {
            AgreedData::Named { .. } => Ok(()),
            AgreedData::Arrays { .. } if self.target_scaling.is_some() => {
                Err(("a scale of targets".to_owned(), "none: arrays are as they are".to_owned()))
            }
            AgreedData::Arrays { .. } => Ok(()),
            AgreedData::Table { settings, targets, encoding } => {
                self.check_table(settings, targets, encoding)
            }
        }
    }
}

impl Agreement {
    fn check_table(
        &self,
        settings: &SummarySettings,
        targets: &[String],
        encoding: &TableEncoding,
    ) -> Result<(), Refusal> {
        if !encoding.is_valid() || Some(encoding.width()) != features(&self.input_shape) {
            let found = format!("an encoding of {} inputs", encoding.width());
            return Err((found, format!("one that can be used, for inputs of shape {:?}", self.input_shape)));
        }
        let (columns, scaled) = match self.task {
            Task::Classification { .. } => (1, false),
            Task::Regression { outputs } => (outputs, settings.standardize),
        };
        let named = self.class_names.is_some() == matches!(self.task, Task::Classification { .. });
        if targets.len() != columns || self.target_scaling.is_some() != scaled || !named {
            let found = format!("{} columns of targets", targets.len());
            let expected = format!("{columns}, with the names of classes or, where standardised, a scale");
            return Err((found, expected));
        }
        Ok(())
    }
}
