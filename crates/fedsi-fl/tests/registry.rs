//! Methods and datasets from outside these crates, checks by what a method declares, and configs of older versions.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::sync::Arc;

use fedsi_data::{
    DataError, DataForm, DataSpec, Dataset, DatasetDefaults, Datasets, Federation, PartitionSpec, Size,
    TaskKind,
};
use fedsi_fl::config::{Overrides, Setting, WeightingName, commented};
use fedsi_fl::methods::{Method, Objective, Participation, Phase, Prior, Procedure, Uncertainty, find};
use fedsi_fl::{Config, Part, Registry, Simulation, resolve};

const STRENGTH: Setting<f64> = Setting::new("strength", 0.25).checked(|x| *x >= 0.0, "0 or above");
const PASSES: Setting<u64> = Setting::new("passes", 1);
const FROZEN: Setting<bool> = Setting::new("frozen", false);

/// A method of another crate: `FedPer` with weight noise and epochs of its own.
const OWN: Method = Method {
    name: "own",
    title: "Own",
    declare: |config| {
        let settings = &config.method_settings;
        let part = if settings.get(&FROZEN) { Part::Head } else { Part::All };
        let epochs = usize::try_from(settings.get(&PASSES)).unwrap_or(usize::MAX);
        let objective = Objective::Point { prior: Prior::Flat, weight_noise: settings.get(&STRENGTH) };
        Procedure {
            shared: Part::Body,
            kept: Part::Head,
            participation: Participation::Sampled,
            local: vec![Phase::train(part, epochs, config).with_objective(objective)],
            personalise: vec![],
            uncertainty: Uncertainty::None,
            ..Procedure::default()
        }
    },
    defaults: |config, dataset| config.rounds = dataset.rounds / 2,
    settings: &[&STRENGTH, &PASSES, &FROZEN],
    ..Method::EMPTY
};

/// A dataset of another crate: the digits under another name.
#[derive(Debug)]
struct OwnDigits;

impl Dataset for OwnDigits {
    fn name(&self) -> &'static str {
        "own-digits"
    }
    fn description(&self) -> &'static str {
        "digits of a test"
    }
    fn form(&self) -> Option<DataForm<'_>> {
        None
    }
    fn task_kind(&self, _data: &DataSpec) -> TaskKind {
        TaskKind::Classification
    }
    fn defaults(&self, _size: Size) -> DatasetDefaults {
        DatasetDefaults {
            rounds: 4,
            weight_noise: 0.2,
            ..DatasetDefaults::new(PartitionSpec::labels(3, 2, 2))
        }
    }
    fn open(
        &self,
        data: &DataSpec,
        partition: &PartitionSpec,
        seed: u64,
    ) -> Result<Box<dyn Federation>, DataError> {
        Datasets::builtin().find("digits")?.open(data, partition, seed)
    }
}

fn registry() -> Registry {
    Registry::builtin().with_method(OWN).with_dataset(Arc::new(OwnDigits))
}

fn read(registry: &Registry, text: &str) -> Result<Config, String> {
    let layer = Overrides::from_text("test.toml", text).unwrap();
    registry.resolve(&[layer]).map_err(|error| error.to_string())
}

fn refused(registry: &Registry, text: &str) -> String {
    let message = read(registry, text)
        .and_then(|config| config.check_with(registry).map(drop).map_err(|error| error.to_string()))
        .unwrap_err();
    assert!(!message.contains('\n'), "more than one line: {message}");
    message
}

#[test]
fn a_method_and_a_dataset_from_outside_run() {
    let registry = registry();
    let text = "method = 'own'\ndata.dataset = 'own-digits'\nmethod_settings.passes = 2";
    let config = read(&registry, text).unwrap();
    assert_eq!(
        (config.rounds, config.partition.clients),
        (2, 3),
        "the dataset's defaults, then the method's"
    );
    let written = commented(&config).unwrap();
    assert_eq!(read(&registry, &written).unwrap(), config, "{written}");
    let checked = config.check_with(&registry).unwrap();
    assert_eq!((checked.method().title, checked.dataset().name()), ("Own", "own-digits"));
    let phase = checked.procedure().local[0];
    assert_eq!(
        (phase.epochs, phase.objective),
        (2, Objective::Point { prior: Prior::Flat, weight_noise: 0.25 })
    );
    let data = Arc::from(checked.open_data().unwrap());
    let mut simulation = Simulation::new(&checked, data).unwrap();
    assert!(simulation.round().unwrap().train_loss.is_some_and(f64::is_finite));
    let fedsi = registry.defaults("fedsi", "own-digits", Size::Small).unwrap();
    assert_eq!(fedsi.training.weight_noise, 0.2, "a built-in method asks the dataset");
}

#[test]
fn settings_of_a_method_are_checked_as_it_declares_them() {
    let registry = registry();
    for (text, expected) in [
        ("strength = -1", "`method_settings.strength`: found -1, expected 0 or above"),
        ("strength = 'much'", "`method_settings.strength`: found \"much\", expected a finite number"),
        ("passes = -1", "`method_settings.passes`: found -1, expected a whole number, 0 or more"),
        ("frozen = 1", "`method_settings.frozen`: found 1, expected true or false"),
        (
            "strenght = 1",
            "unknown key `method_settings.strenght` in test.toml (did you mean `method_settings.strength`?)",
        ),
    ] {
        assert_eq!(refused(&registry, &format!("method = 'own'\nmethod_settings.{text}")), expected);
    }
    let message = refused(&registry, "method = 'fedavg'\nmethod_settings.strength = 1");
    assert!(message.contains("unknown key `method_settings"), "fedavg declares none: {message}");
}

#[test]
fn names_from_outside_are_unknown_without_a_registry_that_has_them() {
    let builtin = Registry::builtin();
    assert!(refused(&builtin, "method = 'own'").contains("unknown method `own`"));
    let message = refused(&builtin, "data.dataset = 'own-digits'");
    assert!(message.starts_with("`data.dataset`: unknown dataset `own-digits`"), "{message}");
}

/// A new method with a posterior whose prior variance is chosen by clients' losses: what counts is what it declares.
#[test]
fn privacy_is_refused_by_what_a_method_does() {
    let leaky = Method { name: "leaky", ..*find("fedsi").unwrap() };
    let registry = Registry::builtin().with_method(leaky);
    let private = "method = 'leaky'\nprivacy = { noise = 1.0, clip = 1.0 }\n";
    let message = refused(&registry, private);
    assert!(message.contains("`privacy.noise`") && message.contains("fedsi.prior_variance"), "{message}");
    let fixed = read(&registry, &format!("{private}fedsi.prior_variance = 1.0")).unwrap();
    assert!(fixed.check_with(&registry).is_ok());
}

#[test]
fn weight_noise_is_for_methods_that_train_points() {
    let builtin = Registry::builtin();
    for method in ["pfedbayes", "bpfed", "fedpop"] {
        let message = refused(&builtin, &format!("method = '{method}'\ntraining.weight_noise = 0.1"));
        assert!(message.contains("`training.weight_noise`") && message.contains(method), "{message}");
    }
    for method in ["local", "fedavg", "fedrep", "fedbabu", "fedsi"] {
        let config = read(&builtin, &format!("method = '{method}'\ntraining.weight_noise = 0.5")).unwrap();
        let noisy = |phase: &Phase| matches!(phase.objective, Objective::Point { weight_noise, .. } if weight_noise == 0.5);
        assert!(config.check().unwrap().procedure().local.iter().all(noisy), "{method}");
    }
    let default =
        |method: &str| builtin.defaults(method, "mnist", Size::Small).unwrap().training.weight_noise;
    assert_eq!((default("fedsi"), default("fedsi-fac"), default("fedavg")), (0.3, 0.3, 0.0));
}

#[test]
fn a_renamed_key_is_answered_with_its_new_name() {
    for (old, new) in [
        ("federation.largest = 10", "federation.outlier_factor"),
        ("fedsi.every = 3", "fedsi.posterior_interval"),
        ("fedsi.spread = 'variance'", "fedsi.variance_average"),
        ("fedsi.noise = 0.1", "training.weight_noise"),
        ("model.noise = 0.1", "model.observation_noise"),
        ("training.rate = 0.1", "training.learning_rate"),
        ("training.batch = 3", "training.batch_size"),
        ("tuning.rate = 0.1", "tuning.learning_rate"),
    ] {
        let key = old.split(' ').next().unwrap();
        let message = refused(&Registry::builtin(), old);
        assert_eq!(message, format!("`{key}` is now `{new}`; use the new name in test.toml"));
    }
}

/// `saved_0_1/config.toml` was written by fedsi 0.1: `fedsi run --rounds 2`.
#[test]
fn the_config_of_a_run_of_0_1_is_read() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/saved_0_1/config.toml"));
    let config = resolve(&[Overrides::from_saved(path).unwrap()]).unwrap();
    let mut expected = Config::defaults("fedsi", "digits", Size::Small).unwrap();
    (expected.rounds, expected.threads, expected.data.dir) = (2, 1, "/data".into());
    // What has other defaults since, or had no key.
    expected.federation.weighting = WeightingName::Uniform;
    (expected.lg_fedavg.warm_start, expected.pfedbayes.inner_steps) = (0.0, 1);
    (expected.fedpop.final_steps, expected.fedpop.step) = (0, 1e-4);
    (expected.training.learning_rate, expected.training.convolution_noise) = (1e-3, 1.0);
    expected.fedsi.modes = fedsi_fl::config::ModesSetting::Fixed(1);
    (expected.data.files.name, expected.data.files.strict) = ("files".to_owned(), true);
    assert_eq!(config, expected, "what 0.1 did");
    let refused = resolve(&[Overrides::from_file(path).unwrap()]).unwrap_err().to_string();
    assert!(refused.contains("is now `"), "as a config that a person gives it is refused: {refused}");
}

#[test]
fn a_saved_config_of_this_version_keeps_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "# Written by fedsi 0.2.0.\n[training]\nrate = 0.1\n").unwrap();
    let refused = resolve(&[Overrides::from_saved(&path).unwrap()]).unwrap_err().to_string();
    assert!(refused.contains("`training.rate`") && refused.contains("`training.learning_rate`"), "{refused}");
}
