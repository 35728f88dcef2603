//! What models are shown: their clients' own test samples, and inputs that are not like them.

use std::fmt;

use fedsi_data::{Corruption, DataError, DataSpec, Datasets, Federation, Size, Split, Strength, Targets};
use fedsi_run::report_data::inputs_of_unseen_classes;
use fedsi_run::saved::SavedRun;
use serde::{Serialize, Serializer};

use crate::args::OodArguments;
use crate::output::BadInput;

/// Which inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InputSet {
    /// The client's own test samples.
    Own,
    /// Test samples of another dataset.
    Other(String),
    /// Other clients' test samples of classes that the client never saw.
    UnseenClasses,
    /// The client's own test samples, changed.
    Corrupted(Corruption, Strength),
}

impl fmt::Display for InputSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own test samples"),
            Self::Other(name) => write!(f, "{name}"),
            Self::UnseenClasses => f.write_str("unseen classes"),
            Self::Corrupted(kind, strength) => write!(f, "{kind} {}", strength.number()),
        }
    }
}

impl Serialize for InputSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Inputs for a model.
pub(super) struct Shown {
    pub(super) set: InputSet,
    pub(super) inputs: Vec<f32>,
    /// What they are, where it is a class that the client knows.
    pub(super) labels: Option<Vec<u32>>,
}

/// A dataset whose inputs have the shape of the run's.
pub(super) struct OtherDataset {
    name: String,
    federation: Box<dyn Federation>,
}

/// The datasets that were asked for or, where none was, all others of the same shape that are there: the built-in digits
/// are made, and those in the data folder read.
pub(super) fn other_datasets(
    run: &SavedRun,
    arguments: &OodArguments,
    federation: &dyn Federation,
) -> anyhow::Result<Vec<OtherDataset>> {
    let (known, config) = (Datasets::builtin(), run.config());
    let own = config.dataset().name();
    let shape = federation.input_shape();
    let fits = |name: &str| {
        known.find(name).ok().and_then(|dataset| dataset.form()).is_some_and(|form| form.input_shape == shape)
    };
    let all: Vec<&str> = known.names().filter(|name| *name != own && fits(name)).collect();
    for name in &arguments.against {
        let dataset = known.find(name).map_err(|error| BadInput(format!("--against: {error}")))?;
        let reason = if name == own {
            "it is the run's own dataset".to_owned()
        } else if !fits(name) {
            let found = dataset
                .form()
                .map_or("of no fixed shape".to_owned(), |form| format!("{:?}", form.input_shape));
            format!("its inputs are {found}, and those of the run {shape:?}")
        } else {
            continue;
        };
        let others = if all.is_empty() {
            "there is no other dataset of this shape".to_owned()
        } else {
            format!("choose among {}", all.join(", "))
        };
        return Err(BadInput(format!("--against {name}: {reason}; {others}")).into());
    }
    let wanted: Vec<&str> = if arguments.against.is_empty() {
        all
    } else {
        arguments.against.iter().map(String::as_str).collect()
    };
    let mut opened = Vec::new();
    for name in wanted {
        let dataset = known.find(name).map_err(|error| BadInput(error.to_string()))?;
        let dir = arguments.data_dir.clone().unwrap_or_else(|| config.data.dir.clone());
        let data = DataSpec { dir, ..DataSpec::defaults(name, Size::Small) };
        match dataset.open(&data, &dataset.defaults(Size::Small).partition, config.seed) {
            Ok(federation) => opened.push(OtherDataset { name: name.to_owned(), federation }),
            Err(DataError::MissingDataset { .. }) if arguments.against.is_empty() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(opened)
}

/// What a client's model is shown, at most so many of each: its own test samples first. Nothing where it has none.
pub(super) fn shown(
    federation: &dyn Federation,
    client: usize,
    others: &[OtherDataset],
    most: usize,
    seed: u64,
) -> Vec<Shown> {
    let own = federation.samples(client, Split::Test);
    let own = own.select(&spaced(own.count, most));
    let Targets::Classes(labels) = own.targets else { return Vec::new() };
    if labels.is_empty() {
        return Vec::new();
    }
    let mut all =
        vec![Shown { set: InputSet::Own, inputs: own.inputs.clone(), labels: Some(labels.clone()) }];
    for OtherDataset { name, federation } in others {
        let samples = federation.samples(client % federation.clients().max(1), Split::Test);
        let inputs = samples.select(&spaced(samples.count, most)).inputs;
        all.push(Shown { set: InputSet::Other(name.clone()), inputs, labels: None });
    }
    let inputs = inputs_of_unseen_classes(federation, client, most);
    all.push(Shown { set: InputSet::UnseenClasses, inputs, labels: None });
    // Strengths are of pixels from -1 to 1: other values have other ranges.
    if let [channels, height, width] = *federation.input_shape()
        && federation.has_pixels()
    {
        for kind in Corruption::ALL {
            for strength in Strength::ALL {
                let mut inputs = own.inputs.clone();
                kind.apply(strength, &mut inputs, [channels, height, width], seed, client);
                let set = InputSet::Corrupted(kind, strength);
                all.push(Shown { set, inputs, labels: Some(labels.clone()) });
            }
        }
    }
    all.retain(|shown| !shown.inputs.is_empty());
    all
}

/// Evenly spaced positions, at most so many.
fn spaced(count: usize, most: usize) -> Vec<usize> {
    let taken = count.min(most);
    (0..taken).map(|step| step * count / taken).collect()
}
