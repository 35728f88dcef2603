//! What a saved run's models make of other inputs, asked from a program.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use fedsi_fl::config::Overrides;
use fedsi_run::ood::{
    InputSet, Measured, OodError, OodMeasurement, OodSettings, OtherDatasets, measure_ood, open_run_data,
};
use fedsi_run::saved::SavedRun;
use fedsi_run::{OpenData, RunFolder, run};
use toml::Value;

/// A quick run on the built-in digits.
fn digits(folder: &Path) -> SavedRun {
    let keys =
        [("rounds", 1), ("partition.clients", 2), ("federation.participants", 2), ("training.epochs", 1)];
    let keys = keys.map(|(key, value)| (key.to_owned(), Value::Integer(value)));
    let layer = Overrides::from_assignments("a test", keys.into()).unwrap();
    let config = fedsi_fl::resolve(&[layer]).unwrap().check().unwrap();
    let claimed = RunFolder::claim(folder, false, &config).unwrap();
    run::run_on(&config, OpenData::open(&config).unwrap(), claimed, &mut (), |_, _| ()).unwrap();
    SavedRun::open(folder).unwrap()
}

#[test]
fn sets_are_measured_and_read_back() {
    let scratch = tempfile::tempdir().unwrap();
    let run = digits(&scratch.path().join("r"));
    let data = open_run_data(&run, None).unwrap();
    let ask = |datasets: &[&str], samples: usize, corrupted: bool| -> Result<OodMeasurement, OodError> {
        let datasets = OtherDatasets::Named(datasets.iter().map(|&name| name.to_owned()).collect());
        let settings =
            OodSettings { datasets, data_dir: Some(scratch.path().to_owned()), samples, corrupted };
        measure_ood(&run, data.federation.as_ref(), &settings)
    };
    let plain = ask(&[], 10, false).unwrap();
    assert_eq!((plain.clients, plain.left_out), (2, 0));
    let names: Vec<&InputSet> = plain.sets.iter().map(|set| &set.inputs).collect();
    assert_eq!(names, [&InputSet::Own, &InputSet::UnseenClasses]);
    assert_eq!(plain.sets[0].samples, 20);
    assert!(plain.sets[0].accuracy.is_some() && plain.sets[0].auroc_entropy.is_none());

    // The corrupted sets come after the others and change nothing of them.
    let all = ask(&[], 10, true).unwrap();
    assert_eq!(all.sets.len(), 27);
    assert_eq!(all.sets[..2], plain.sets[..]);
    assert!(matches!(all.sets[2].inputs, InputSet::Corrupted(..)));

    let text = serde_json::to_string(&all.sets).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Measured>>(&text).unwrap(), all.sets);

    let refused = |datasets: &[&str], samples: usize| ask(datasets, samples, false).unwrap_err();
    assert!(matches!(refused(&[], 0), OodError::NoSamples));
    assert!(matches!(refused(&["minst"], 5), OodError::UnknownDataset(_)));
    let error = refused(&["digits"], 5).to_string();
    assert!(error.contains("digits cannot be shown") && error.contains("own dataset"), "{error}");
    assert!(matches!(refused(&["mnist"], 5), OodError::Data(fedsi_data::DataError::MissingDataset { .. })));
}
