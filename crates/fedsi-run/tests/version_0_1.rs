//! Runs that fedsi 0.1 wrote are opened, and say what they said then, to the bit.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};

use fedsi_fl::client::Predictions;
use fedsi_run::report_data::{REPORT_DATA_0_1, read_report_data};
use fedsi_run::saved::{AbstentionGoal, Predicted, SavedRun, Threshold};
use fedsi_run::{read_prediction_clients, read_predictions};

const METHODS: [&str; 5] = ["fedsi", "fedsi-fac", "fedper", "pfedbayes", "fedpop"];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/version_0_1")
}

fn run(method: &str) -> SavedRun {
    SavedRun::open(&fixture().join("comparison").join(format!("{method}-s1"))).unwrap()
}

#[test]
fn saved_models_predict_what_they_predicted() {
    for method in METHODS {
        let run = run(method);
        let bytes = std::fs::read(run.path().join("predictions.safetensors")).unwrap();
        let Predictions::Classes { classes, probabilities, .. } = read_predictions(&bytes).unwrap() else {
            panic!("{method}: expected classes");
        };
        let clients = read_prediction_clients(&bytes).unwrap();
        for client in run.clients() {
            let model = run.client(client.id).unwrap();
            let rows = fedsi_data::read_inputs(&fixture().join("test.csv"), &model.input_form(&run)).unwrap();
            let Predicted::Classes { probabilities: now, .. } = model.predict(&rows.inputs).unwrap() else {
                panic!("{method}: expected classes");
            };
            // The table lists the clients one after another, as the predictions do.
            for (row, _) in clients.iter().enumerate().filter(|(_, owner)| **owner == client.id) {
                let range = row * classes..(row + 1) * classes;
                assert_eq!(
                    now[range.clone()],
                    probabilities[range],
                    "{method}, client {}, row {row}",
                    client.id
                );
            }
        }
        let threshold = Threshold::find(&run, None, AbstentionGoal::Coverage(0.5), None).unwrap();
        assert_eq!(threshold.samples, clients.len(), "{method}");
    }
}

#[test]
fn a_new_client_can_join() {
    for method in METHODS {
        let run = run(method);
        let server = run.server().unwrap();
        let (inputs, targets) = (server.input_form(&run), server.target_form());
        let samples =
            fedsi_data::read_labelled(&fixture().join("train.csv"), None, &inputs, &targets).unwrap().samples;
        let (count, values) = (samples.count, samples.inputs.clone());
        let model = server.join(&run, samples).unwrap();
        assert_eq!(model.predict(&values).unwrap().len(), count, "{method}");
    }
}

#[test]
fn report_data_is_read() {
    for method in METHODS {
        let bytes = std::fs::read(run(method).path().join(REPORT_DATA_0_1)).unwrap();
        let data = read_report_data(&bytes).unwrap();
        assert_eq!(data.classes, ["high", "low", "mid"], "{method}");
        assert_eq!(data.train.iter().flatten().sum::<usize>(), 36, "{method}");
        assert_eq!(data.selection.is_some(), method.starts_with("fedsi"), "{method}");
    }
}
