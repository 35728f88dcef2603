//! A saved run says what the run said.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../fedsi-fl/tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use fedsi_data::{Federation, PartitionKind, Size, Split, TaskKind};
use fedsi_fl::client::LocalData;
use fedsi_fl::client::Predictions;
use fedsi_fl::methods::{METHODS, Uncertainty};
use fedsi_fl::{Checked, Config, Simulation};
use fedsi_run::saved::{AbstentionGoal, Predicted, SavedError, SavedRun, Threshold};
use fedsi_run::{OpenData, RunFolder, read_predictions, run};
use support::{clouds, config};

/// A finished run in `folder`.
fn finished(config: &Checked, federation: Arc<dyn Federation>, folder: &Path) -> SavedRun {
    let claimed = RunFolder::claim(folder, false, config).unwrap();
    run::run_on(config, OpenData::of(federation), claimed, &mut (), |_, _| ()).unwrap();
    SavedRun::open(folder).unwrap()
}

/// The run's own predictions against those of its saved models.
fn assert_alike(saved: &SavedRun, federation: &dyn Federation) {
    let method = &saved.config().method;
    let kept =
        read_predictions(&std::fs::read(saved.path().join("predictions.safetensors")).unwrap()).unwrap();
    let (mut probabilities, mut means, mut variances) = (Vec::new(), Vec::new(), Vec::new());
    for client in saved.clients() {
        let test = federation.samples(client.id, Split::Test);
        match saved.client(client.id).unwrap().predict(&test.inputs).unwrap() {
            Predicted::Classes { probabilities: more, variance, .. } => {
                assert_eq!(variance.len(), test.count);
                let certain = variance.iter().all(|&value| value == 0.0);
                let point =
                    (saved.config().method().declare)(saved.config()).uncertainty == Uncertainty::None;
                assert_eq!(certain, point, "{method}: {variance:?}");
                probabilities.extend(more);
            }
            Predicted::Values { mean, variance, .. } => {
                means.extend(mean);
                variances.extend(variance);
            }
        }
    }
    match kept {
        Predictions::Classes { probabilities: kept, .. } => {
            assert!(kept == probabilities, "{method}: other bits");
        }
        Predictions::Values { mean, variance, .. } => {
            assert!(mean == means, "{method}: other means");
            assert!(variance == variances, "{method}: other variances");
        }
    }
}

/// Every method's saved models predict the same bits, and its saved server welcomes a client as the federation did.
#[test]
fn classes_are_predicted_again_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    for method in METHODS {
        let mut config = config(method.name, 3);
        config.rounds = 3;
        // Draws that depend on the seed.
        config.fedsi.predictive = fedsi_bayes::Predictive::MonteCarlo;
        let config = config.check().unwrap();
        let saved = finished(&config, clouds(5), &folder.path().join(method.name));
        assert_alike(&saved, clouds(5).as_ref());

        let mut simulation = Simulation::new(&config, clouds(5)).unwrap();
        (0..3).for_each(|_| drop(simulation.round().unwrap()));
        let data = clouds(6).samples(5, Split::Train);
        let welcome = saved.server().unwrap().join(&saved, data.clone()).unwrap();
        let again = simulation.join(5, &LocalData::all(data)).unwrap();
        assert_eq!(welcome.model(), &again, "{}", method.name);
    }
}

/// Two targets of a table in units of their own, and the noise that a client's residuals told.
#[test]
fn values_are_predicted_again_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t.csv");
    let mut text = "a,b,far,near\n".to_owned();
    for row in 0..90 {
        let (a, b) = (f64::from(row % 9), f64::from(row * 7 % 11));
        writeln!(text, "{a},{b},{},{}", 1e6 + 1e3 * (a - b), 0.01 * (a * b + f64::from(row % 5))).unwrap();
    }
    std::fs::write(&table, text).unwrap();
    for method in METHODS {
        let mut config = Config { rounds: 2, ..config(method.name, 2) };
        config.data = fedsi_data::DataSpec::defaults("files", Size::Small);
        config.data.files.train = table.clone();
        (config.data.files.target, config.data.files.task) = ("far, near".into(), TaskKind::Regression);
        (config.partition.kind, config.partition.clients) = (PartitionKind::Iid, 3);
        let config = config.check().unwrap();
        let federation: Arc<dyn Federation> =
            Arc::from(fedsi_data::open(&config.data, &config.partition, config.seed).unwrap());
        let saved = finished(&config, Arc::clone(&federation), &folder.path().join(method.name));
        assert_alike(&saved, federation.as_ref());
        let risk = Threshold::find(&saved, Some(0), AbstentionGoal::Risk(0.1), federation.target_scaling());
        assert!(matches!(risk, Err(SavedError::NoRisk)), "{risk:?}");
        let half = Threshold::find(&saved, None, AbstentionGoal::Coverage(0.5), federation.target_scaling())
            .unwrap();
        assert!(half.coverage >= 0.5 && half.risk.is_none(), "{half:?}");

        // The table again as inputs: found by name, scaled as in training, all rows answered.
        let server = saved.server().unwrap();
        let samples =
            fedsi_data::read_labelled(&table, None, &server.input_form(&saved), &server.target_form())
                .unwrap()
                .samples;
        let model = server.join(&saved, samples.clone()).unwrap();
        let rows = fedsi_data::read_inputs(&table, &model.input_form(&saved)).unwrap();
        assert_eq!(rows.inputs, samples.inputs);
        assert_eq!(model.predict(&rows.inputs).unwrap().len(), 90, "{}", method.name);
    }
}

/// The threshold of a client is found on its own test samples.
#[test]
fn a_threshold_keeps_its_promise_where_it_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { rounds: 3, ..config("fedsi", 3) }.check().unwrap();
    let saved = finished(&config, clouds(5), &folder.path().join("r"));
    for client in [None, Some(2)] {
        let found = Threshold::find(&saved, client, AbstentionGoal::Coverage(0.8), None).unwrap();
        let clients: Vec<usize> = client.map_or((0..5).collect(), |client| vec![client]);
        let (mut answered, mut wrong, mut count) = (0, 0, 0);
        for client in clients {
            let test = clouds(5).samples(client, Split::Test);
            let answers = saved.client(client).unwrap().predict(&test.inputs).unwrap();
            let abstains = found.abstains(&answers.uncertainty(None));
            let Predicted::Classes { probabilities, classes, .. } = answers else { panic!("classes") };
            let fedsi_data::Targets::Classes(labels) = test.targets else { panic!("classes") };
            for ((row, label), abstains) in probabilities.chunks(classes).zip(labels).zip(abstains) {
                count += 1;
                answered += usize::from(!abstains);
                wrong += usize::from(!abstains && fedsi_run::saved::most_probable(row).0 != label as usize);
            }
        }
        assert_eq!((found.samples, found.coverage), (count, answered as f64 / count as f64));
        assert!((found.risk.unwrap() - wrong as f64 / answered as f64).abs() < 1e-12, "{found:?}");
        assert!(found.coverage >= 0.8);
    }
}

#[test]
fn damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config { rounds: 1, ..config("fedsi", 3) }.check().unwrap();
    let saved = finished(&config, clouds(3), &folder.path().join("r"));
    let path = saved.path().join("clients/1.safetensors");
    let whole = std::fs::read(&path).unwrap();
    for end in [0, 7, 8, 100, whole.len() - 1] {
        std::fs::write(&path, &whole[..end]).unwrap();
        let error = saved.client(1).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains("1.safetensors"), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    std::fs::copy(saved.path().join("checkpoint/server.safetensors"), &path).unwrap();
    assert!(saved.client(1).is_err(), "the server's file is no client's");
    assert!(saved.find("3").unwrap_err().to_string().contains("the run has 3 clients, 0 to 2"));
    std::fs::write(saved.path().join("summary.json"), "{").unwrap();
    assert!(matches!(SavedRun::open(saved.path()), Err(SavedError::Damaged { .. })));
}
