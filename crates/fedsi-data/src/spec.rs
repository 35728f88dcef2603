//! The settings of the data: which dataset, and who gets which samples.
//!
//! The doc comments of the fields are the comments of the default `config.toml` and the descriptions of its
//! JSON schema.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The name of a dataset. [`Datasets::find`](crate::Datasets::find) says whether there is one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DatasetName(String);

impl DatasetName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for DatasetName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Any text, the built-in names among it: an editor completes those and accepts others.
impl JsonSchema for DatasetName {
    fn schema_name() -> Cow<'static, str> {
        "DatasetName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// How many samples a client has: the two settings of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// Few training samples, many test samples.
    Small,
    /// Many training samples.
    Large,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Small => "small",
            Self::Large => "large",
        })
    }
}

/// What is predicted from a row of your own files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// One of several classes.
    Classification,
    /// One or more numbers.
    Regression,
}

/// The training data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataSpec {
    /// The dataset: digits (built in), mnist, fashion-mnist, cifar-10, files (your own), or one that the program adds.
    pub dataset: DatasetName,
    /// How much data a client has: small or large. It chooses the defaults of `[partition]`.
    pub size: Size,
    /// The folder that holds mnist/, fashion-mnist/ and cifar-10/, as `fedsi data fetch` fills it.
    pub dir: PathBuf,
    /// Your own files, used when dataset = "files".
    pub files: FilesSpec,
}

impl DataSpec {
    /// The defaults for a dataset: everything under `data/`, and no files.
    #[must_use]
    pub fn defaults(dataset: &str, size: Size) -> Self {
        Self { dataset: dataset.into(), size, dir: PathBuf::from("data"), files: FilesSpec::default() }
    }
}

/// Your own files: tables (.csv, .parquet), NPY arrays (.npy) or safetensors arrays (.safetensors).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// What the dataset is called in reports. "": as the training file is.
    pub name: String,
    /// The file of training rows: .csv (with a header), .parquet, .npy (the inputs) or .safetensors.
    pub train: PathBuf,
    /// The file of test rows, in the same format. "": each client's test rows are cut from train.
    pub test: PathBuf,
    /// The name of the inputs' array in a .safetensors file.
    pub inputs: String,
    /// What to predict: a table's column (regression: several, with commas between), a safetensors array, or for
    /// .npy the name of the file beside the inputs, where {split} stands for train or test.
    pub target: String,
    /// Whose row it is: a table's column, a safetensors array, or a .npy file beside the inputs. "": not known.
    pub client: String,
    /// The column of a table by which its rows are known in predictions and on pages; it is no input. "": none.
    pub id: String,
    /// The only columns of a table that are inputs, all of them whatever they hold: a list, or names with commas between.
    /// `[]`: every column that is nothing else.
    #[serde(deserialize_with = "names")]
    #[schemars(schema_with = "names_schema")]
    pub columns: Vec<String>,
    /// Columns of a table that are no inputs: a list, or names with commas between.
    #[serde(deserialize_with = "names")]
    #[schemars(schema_with = "names_schema")]
    pub ignore: Vec<String>,
    /// classification or regression.
    pub task: TaskKind,
    /// classification: the names of the classes, in their order (of arrays: of class 0, 1 and so on). `[]`: as all rows
    /// have them. A list, or names with commas between.
    #[serde(deserialize_with = "names")]
    #[schemars(schema_with = "names_schema")]
    pub classes: Vec<String>,
    /// The shape of one input: `[channels, height, width]` or `[features]`. `[]`: as the array has it, a table flat.
    pub shape: Vec<usize>,
    /// Whether inputs (and regression targets) are brought to mean 0 and standard deviation 1 over all
    /// training rows. Arrays of bytes are images and are always scaled to [-1, 1] instead.
    pub standardize: bool,
    /// Whether a table may hold nothing but numbers. false: categories, dates and missing values are encoded, cells that
    /// cannot be read count as missing, rows without a target are left out. true: the first such cell is an error.
    pub strict: bool,
}

/// A list of names, or one text with commas between them.
fn names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of names, or names with commas between")]
    enum Names {
        Text(String),
        List(Vec<String>),
    }
    Ok(match Names::deserialize(deserializer)? {
        Names::List(names) => names,
        Names::Text(text) => {
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
    })
}

fn names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "string" }] })
}

impl Default for FilesSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            train: PathBuf::new(),
            test: PathBuf::new(),
            inputs: "inputs".to_owned(),
            target: "target".to_owned(),
            client: String::new(),
            id: String::new(),
            columns: Vec::new(),
            ignore: Vec::new(),
            task: TaskKind::Classification,
            classes: Vec::new(),
            shape: Vec::new(),
            standardize: true,
            strict: false,
        }
    }
}

/// How the samples are divided among the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartitionKind {
    /// Each client holds a few of the classes (the paper's setting).
    Labels,
    /// Each client holds a random share of everything.
    Iid,
    /// Each client's mix of classes is drawn from a Dirichlet distribution.
    Dirichlet,
    /// Samples sorted by class, cut into shards; each client holds a few shards.
    Shards,
    /// A column of the data says whose row it is.
    Natural,
    /// A CSV file says which sample belongs to whom.
    File,
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Labels => "labels",
            Self::Iid => "iid",
            Self::Dirichlet => "dirichlet",
            Self::Shards => "shards",
            Self::Natural => "natural",
            Self::File => "file",
        })
    }
}

/// Who gets which samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartitionSpec {
    /// labels, iid, dirichlet, shards, natural (data.files.client names the column) or file.
    pub kind: PartitionKind,
    /// The number of clients, at least 1. natural and file take it from the data instead.
    pub clients: usize,
    /// labels: how many classes a client holds, 1 up to the number of classes.
    pub labels_per_client: usize,
    /// Training samples per class and client; iid, dirichlet and shards give a client
    /// `labels_per_client` times as many in all. 0: all rows are used, and `test_fraction` says how many are for testing.
    /// With a test file it must be 0: no row of that file is trained on.
    pub train: usize,
    /// Test samples per class and client, counted as train is.
    pub test: usize,
    /// dirichlet: the concentration, above 0. Small: few classes per client; large: all alike.
    pub concentration: f64,
    /// dirichlet: whether clients differ in size too. false: each client's mix of classes is drawn, and all have as many
    /// rows. true: for every class the clients' shares of it are drawn; as many rows as before are dealt in all, as evenly
    /// over classes as the data allows, and each client's are cut in the proportion train : test. Shares are drawn again (up
    /// to 1000 times) until every client has at least 10 training and 10 test rows.
    pub unequal: bool,
    /// shards: how many shards a client holds, at least 1.
    pub shards_per_client: usize,
    /// The share of each client's rows kept for testing, 0 up to but not including 1, where train = 0, or the
    /// partition is natural or file, and no test file or split column says otherwise.
    pub test_fraction: f64,
    /// file: a CSV with the columns index (from 0, training rows first), client, and optionally split
    /// (train or test).
    pub path: PathBuf,
    /// A column of a table, such as a patient's number: rows with the same value there are all trained on or all tested,
    /// and where rows are dealt to clients, at one client. "": each row stands by itself.
    pub group: String,
    /// A column of dates or numbers of a table: each client is tested on its newest rows, `test_fraction` of them, and rows
    /// as old as the newest one trained on are trained on too. "": test rows are drawn at random.
    pub time: String,
    /// Whether all clients' training rows, as they would otherwise be divided, become those of one client, and all their test
    /// rows its test rows: a model trained on everybody's data in one place, a ceiling for comparisons and no federated
    /// learning. Takes one participant and no novel clients.
    pub pooled: bool,
    /// Whether one more client, called pooled, has all clients' training rows, and trains alone: all others are novel, and each
    /// begins with what was learned in one place. With a method that tunes, a ceiling for comparisons of personal models; no
    /// federated learning. Takes one participant, and no pooled = true beside it.
    pub pooled_client: bool,
}

impl PartitionSpec {
    /// The paper's partition: each client holds 5 classes, with so many training and test samples of each.
    #[must_use]
    pub fn labels(clients: usize, train: usize, test: usize) -> Self {
        Self {
            kind: PartitionKind::Labels,
            clients,
            labels_per_client: 5,
            train,
            test,
            concentration: 0.5,
            unequal: false,
            shards_per_client: 2,
            test_fraction: 0.2,
            path: PathBuf::new(),
            group: String::new(),
            time: String::new(),
            pooled: false,
            pooled_client: false,
        }
    }

    /// All rows divided at random among so many clients, a fifth of each client's for testing.
    #[must_use]
    pub fn iid(clients: usize) -> Self {
        Self { kind: PartitionKind::Iid, ..Self::labels(clients, 0, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_text_and_in_files() {
        let name = DatasetName::from("cifar-10");
        assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{name}\""));
        for kind in [PartitionKind::Labels, PartitionKind::Iid, PartitionKind::File] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
    }

    #[test]
    fn settings_survive_toml_and_unknown_keys_do_not() {
        let spec = DataSpec::defaults("cifar-10", Size::Small);
        let text = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<DataSpec>(&text).unwrap(), spec);
        assert!(toml::from_str::<DataSpec>(&format!("colour = 1\n{text}")).is_err());

        let spec = PartitionSpec::iid(10);
        let text = toml::to_string(&spec).unwrap();
        assert_eq!(toml::from_str::<PartitionSpec>(&text).unwrap(), spec);
    }
}
