//! What models are shown: their clients' own test samples, and inputs that are not like them.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use fedsi_data::{Corruption, DataError, DataSpec, Datasets, Federation, Size, Split, Strength, Targets};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{OodError, OodSettings, OtherDatasets};
use crate::report_data::inputs_of_unseen_classes;
use crate::saved::SavedRun;

/// Which inputs. Its text is its name in files, and gives it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSet {
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

/// Any text is a set: what is no other is a dataset's name.
impl FromStr for InputSet {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let corrupted =
            |kind: Corruption| Strength::ALL.into_iter().map(move |strength| Self::Corrupted(kind, strength));
        let mut named = [Self::Own, Self::UnseenClasses]
            .into_iter()
            .chain(Corruption::ALL.into_iter().flat_map(corrupted));
        Ok(named.find(|set| set.to_string() == text).unwrap_or_else(|| Self::Other(text.to_owned())))
    }
}

impl<'de> Deserialize<'de> for InputSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
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

/// The datasets that were asked for, opened.
pub(super) fn other_datasets(
    run: &SavedRun,
    settings: &OodSettings,
    federation: &dyn Federation,
) -> Result<Vec<OtherDataset>, OodError> {
    let (known, config) = (Datasets::builtin(), run.config());
    let own = config.dataset().name();
    let shape = federation.input_shape();
    let fits = |name: &str| {
        known.find(name).ok().and_then(|dataset| dataset.form()).is_some_and(|form| form.input_shape == shape)
    };
    let all: Vec<&str> = known.names().filter(|name| *name != own && fits(name)).collect();
    let wanted: Vec<&str> = match &settings.datasets {
        OtherDatasets::Available => all.clone(),
        OtherDatasets::Named(names) => names.iter().map(String::as_str).collect(),
    };
    for &name in &wanted {
        let dataset = known.find(name).map_err(OodError::UnknownDataset)?;
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
        return Err(OodError::OtherDataset { name: name.to_owned(), reason: format!("{reason}; {others}") });
    }
    let mut opened = Vec::new();
    for name in wanted {
        let dataset = known.find(name).map_err(OodError::UnknownDataset)?;
        let dir = settings.data_dir.clone().unwrap_or_else(|| config.data.dir.clone());
        let data = DataSpec { dir, ..DataSpec::defaults(name, Size::Small) };
        match dataset.open(&data, &dataset.defaults(Size::Small).partition, config.seed) {
            Ok(federation) => opened.push(OtherDataset { name: name.to_owned(), federation }),
            Err(DataError::MissingDataset { .. }) if settings.datasets == OtherDatasets::Available => {}
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
    settings: &OodSettings,
    seed: u64,
) -> Vec<Shown> {
    let most = settings.samples;
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
        && settings.corrupted
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_its_text() {
        let corrupted = Corruption::ALL.into_iter().flat_map(|kind| {
            Strength::ALL.into_iter().map(move |strength| InputSet::Corrupted(kind, strength))
        });
        let named = [InputSet::Own, InputSet::UnseenClasses, InputSet::Other("fashion-mnist".to_owned())];
        for set in named.into_iter().chain(corrupted) {
            let text = serde_json::to_string(&set).unwrap();
            assert_eq!(text, format!("\"{set}\""));
            assert_eq!(serde_json::from_str::<InputSet>(&text).unwrap(), set, "{text}");
        }
        // No strength: a dataset's name.
        assert_eq!("blur 6".parse(), Ok(InputSet::Other("blur 6".to_owned())));
    }

    #[test]
    fn positions_are_spaced_over_all() {
        assert_eq!(spaced(10, 4), [0, 2, 5, 7]);
        assert_eq!(spaced(3, 5), [0, 1, 2]);
        assert_eq!(spaced(0, 5), [0; 0]);
    }
}
