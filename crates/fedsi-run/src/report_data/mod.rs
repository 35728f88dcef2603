//! What a report shows beyond scores: kept with the run, so that its page can be remade without the data.
//!
//! `report_data.safetensors` holds who has how many samples of which class, the test samples a model was least sure of or
//! confidently wrong about, how sure models are about classes they never saw, and where subnetworks sit. Nothing here
//! is read by a later round: a run without this file is complete. Ids, and the cells of samples that are rows of a table, are in
//! the metadata.
//!
//! | tensor | what |
//! |---|---|
//! | `partition.train`, `partition.test` (I64) | clients x classes; one column for a regression |
//! | `samples.client`, `.index`, `.label`, `.kind` (I64) | a test sample each: whose, which, its class, why it is here |
//! | `samples.probabilities` (F32) | samples x classes |
//! | `samples.strangeness` (F32) | how strange each is to the model, NaN where it does not know; not in files of 0.1 |
//! | `samples.images` (U8) | samples x channels x height x width, for inputs that are images |
//! | `foreign.client` (I64), `foreign.entropy` (F32) | a prediction each on a class the client never saw |
//! | `samples.row` (I64) | its row within the data, where samples are rows of something; not in files of 0.1 |
//! | `selection.map` (F64) | share of the first layer's weights at each pixel that have a distribution |

mod collect;
mod file;
mod samples;

pub use collect::inputs_of_unseen_classes;
pub(crate) use collect::{ReportCollector, unseen_inputs};
pub use file::{REPORT_DATA, REPORT_DATA_0_1, read_report_data, write_report_data};
pub(crate) use samples::SamplePicker;

/// Clients of whom the partition and predictions on foreign classes are kept: what a page can show.
pub const MOST_CLIENTS: usize = 1_000;

/// With more clients than this, samples are kept of the whole federation and not of each client.
pub const MAX_CLIENTS_WITH_SAMPLES: usize = 40;

/// Samples of each kind kept of a client, and of the federation.
pub const SAMPLES_OF_A_KIND: usize = 6;

/// What a report shows of a run beyond its scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportData {
    /// The classes' names, or their numbers; empty for a regression.
    pub classes: Vec<String>,
    /// Of the first [`MOST_CLIENTS`] clients, training samples of each class (regression: in all); of fewer clients where
    /// there are thousands of classes.
    pub train: Vec<Vec<usize>>,
    /// Test samples, likewise.
    pub test: Vec<Vec<usize>>,
    /// Channels, height and width of kept images, where inputs are images; large ones are made smaller.
    pub image: Option<[usize; 3]>,
    /// The names of the columns that samples' cells are of, where the data is a table.
    pub columns: Vec<String>,
    /// Test samples with the highest entropy, or wrong with the highest confidence, by client and kind.
    pub samples: Vec<Sample>,
    /// How sure models are about what they never saw, by client; empty where every client saw every class.
    pub foreign: Vec<ForeignEntropies>,
    /// Where subnetworks sit, for methods that choose one.
    pub selection: Option<Selection>,
}

/// Why a sample is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Its prediction has a high entropy.
    LeastCertain,
    /// Its prediction is wrong, with a high confidence.
    ConfidentlyWrong,
}

/// A test sample and what its client's model says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Whose.
    pub client: usize,
    /// Its place among the client's test samples.
    pub index: usize,
    /// Why it is shown.
    pub kind: SampleKind,
    /// Its class.
    pub label: usize,
    /// The probability of each class.
    pub probabilities: Vec<f32>,
    /// How strange its input is to the model; none where the model does not know, or was not saved.
    pub strangeness: Option<f32>,
    /// Its pixels, 0 to 255, channel after channel; empty where inputs are no images.
    pub pixels: Vec<u8>,
    /// What the data calls it, where it has a column of ids.
    pub id: Option<String>,
    /// Its row within the data, counted from 0, where samples are rows of something.
    pub row: Option<usize>,
    /// Its cells as the table has them, one for each of the report data's columns; empty where the data is no table.
    pub cells: Vec<String>,
}

/// Entropies of one client's predictions on other clients' samples of classes it never saw, in nats.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignEntropies {
    /// Whose model.
    pub client: usize,
    /// One a sample.
    pub entropies: Vec<f32>,
}

/// Where the subnetworks of personal models sit.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Clients that have one.
    pub clients: usize,
    /// Tensors that could be chosen from, in the network's order.
    pub tensors: Vec<TensorSelection>,
    /// The first layer over the pixels it looks at, for inputs that are images.
    pub map: Option<SelectionMap>,
}

/// How much of a tensor has a distribution.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TensorSelection {
    /// PyTorch's name: `0.weight`, ...
    pub tensor: String,
    /// Parameters chosen, mean over clients.
    pub chosen: f64,
    /// Parameters that could be.
    pub of: usize,
}

/// The share of the first layer's weights at each place that have a distribution, over all clients.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionMap {
    /// Rows: of the image, or of the kernel where the first layer is a convolution.
    pub height: usize,
    /// Columns.
    pub width: usize,
    /// Row-major, 0 to 1.
    pub shares: Vec<f64>,
}
