//! A hundred thousand damaged models, predictions and checkpoints: read or refused on one line, without a panic, and
//! without memory that the bytes cannot back.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../fedsi-fl/tests/support/mod.rs"]
mod support;

use fedsi_run::checkpoint::Checkpoint;
use fedsi_run::read_predictions;
use support::damage::{CASES, hostile_cases};
use support::{clouds, config, models, simulation};

fn hostile(name: &str, good: &[u8], read: impl Fn(&[u8]) -> Result<(), String>) {
    hostile_cases(CASES, name, good, read);
}

#[test]
fn checkpoints_with_a_right_checksum() {
    for method in ["fedsi", "bpfed", "fedpop"] {
        let mut run = simulation(config(method, 3), clouds(3));
        run.round().unwrap();
        let checkpoint = Checkpoint {
            snapshot: run.snapshot().unwrap(),
            settings: "settings".to_owned(),
            origin: fedsi_run::Origin::default(),
            metrics: "{}\n".to_owned(),
            progress: fedsi_run::checkpoint::Progress::default(),
        };
        let sealed = checkpoint.encode().unwrap();
        // The header, and then a body whose checksum is made to fit: what a hostile file would have.
        hostile(method, &sealed, |bytes| {
            Checkpoint::decode(bytes).map(drop).map_err(|error| error.to_string())
        });
        hostile(method, &sealed[fedsi_run::checkpoint::BODY..], |body| {
            let found = Checkpoint::decode(&fedsi_run::checkpoint::sealed(body))
                .map_err(|error| error.to_string())?;
            let mut other = simulation(config(method, 3), clouds(3));
            other.restore(found.snapshot).map_err(|error| error.to_string())
        });
    }
}

#[test]
fn models_and_predictions() {
    for method in ["fedsi", "bpfed", "fedpop"] {
        let mut run = simulation(config(method, 3), clouds(3));
        run.round().unwrap();
        let model = models(&run).remove(0);
        let bytes = fedsi_run::model_bytes(run.client(), &model).unwrap();
        hostile(method, &bytes, |bytes| {
            fedsi_run::read_model(run.client(), bytes).map(drop).map_err(|error| error.to_string())
        });
    }
    let tensors = [
        fedsi_run::NamedTensor::f64("mean", vec![4, 2], &[1.0; 8]),
        fedsi_run::NamedTensor::f64("variance", vec![4, 2], &[1.0; 8]),
        fedsi_run::NamedTensor::f64("targets", vec![4, 2], &[1.0; 8]),
        fedsi_run::NamedTensor::i64("client", [0, 0, 1, 1].into_iter()),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    fedsi_run::write_tensors(file.path(), &tensors, None).unwrap();
    hostile("predictions", &std::fs::read(file.path()).unwrap(), |bytes| {
        read_predictions(bytes).map(drop).map_err(|error| error.to_string())
    });
}
