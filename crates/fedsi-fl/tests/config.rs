//! Configs: layers, typos, ranges, text.
#![allow(clippy::unwrap_used, clippy::panic)]

use fedsi_data::{Datasets, PartitionKind, Size};
use fedsi_fl::config::{Overrides, assignment, commented, schema};
use fedsi_fl::{Config, ConfigError, resolve};

fn read(text: &str) -> Result<Config, ConfigError> {
    resolve(&[Overrides::from_text("test.toml", text)?])
}

fn refused(text: &str) -> String {
    let error = match read(text) {
        Ok(config) => config.check().map(|_| ()).unwrap_err(),
        Err(error) => error,
    };
    let message = error.to_string();
    assert!(!message.contains('\n'), "more than one line: {message}");
    message
}

#[test]
fn nothing_said_means_the_defaults() {
    let config = read("").unwrap();
    assert_eq!(config, Config::defaults("fedsi", "digits", Size::Small).unwrap());
    config.check().unwrap();
}

#[test]
fn defaults_follow_the_dataset() {
    let of = |dataset: &str| read(&format!("data.dataset = '{dataset}'")).unwrap();
    assert_eq!((of("mnist").rounds, of("digits").rounds), (800, 60));
    let cifar = of("cifar-10");
    assert_eq!((cifar.partition.clients, cifar.federation.participants), (20, 10));
    let large = read("data = { dataset = 'mnist', size = 'large' }").unwrap();
    assert_eq!((large.partition.train, large.partition.test), (900, 300));
}

#[test]
fn participants_follow_the_number_of_clients() {
    assert_eq!(read("partition.clients = 4").unwrap().federation.participants, 4);
    assert_eq!(read("partition.clients = 400").unwrap().federation.participants, 10);
    let natural = read("data = { dataset = 'files', files.client = 'site' }").unwrap();
    assert_eq!(natural.partition.kind, PartitionKind::Natural, "a client column means natural clients");
    assert_eq!(natural.participants_of(7).unwrap(), 7);
    assert_eq!(natural.participants_of(70).unwrap(), 10);
}

#[test]
fn later_layers_win() {
    let file = Overrides::from_text("file", "rounds = 7\n[training]\nepochs = 2").unwrap();
    let flags =
        Overrides::from_assignments("the command line", vec![assignment("training.epochs=5").unwrap()])
            .unwrap();
    let config = resolve(&[file, flags]).unwrap();
    assert_eq!((config.rounds, config.training.epochs, config.training.batch_size), (7, 5, 50));
}

#[test]
fn a_set_value_needs_no_quotes() {
    let set = |text: &str| {
        resolve(&[Overrides::from_assignments("the command line", vec![assignment(text).unwrap()]).unwrap()])
            .unwrap()
    };
    assert_eq!(set("partition.kind=dirichlet").partition.kind, PartitionKind::Dirichlet);
    assert_eq!(set("training.learning_rate=0.5").training.learning_rate, 0.5);
    assert_eq!(set("model.body=['flatten', { linear = 3 }]").model.body.len(), 2);
    assert!(assignment("rounds").unwrap_err().to_string().contains("KEY=VALUE"));
}

#[test]
fn typos_are_answered_with_the_nearest_key() {
    assert!(refused("rouns = 3").contains("unknown key `rouns` in test.toml (did you mean `rounds`?)"));
    assert!(
        refused("[training]\nepoch = 3")
            .contains("`training.epoch` in test.toml (did you mean `training.epochs`?)")
    );
    assert!(refused("method = 'fedrop'").contains("did you mean `fedrep`?"));
    assert!(refused("data.dataset = 'minst'").contains("did you mean `mnist`?"));
    assert!(refused("[trainings]\nepochs = 3").contains("did you mean `training`?"));
    assert!(refused("batch = 3").contains("did you mean `training.batch_size`?"));
    assert!(refused("participants = 3").contains("did you mean `federation.participants`?"));
    assert!(refused("training.shape = 3").contains("did you mean `data.files.shape`?"));
    assert!(!refused("zzz = 3").contains("did you mean"));
}

#[test]
fn values_of_the_wrong_type_name_their_key() {
    assert_eq!(
        refused("[calibration]\ntemperature = \"hot\""),
        "`calibration.temperature`: found \"hot\", expected a number above 0 or \"auto\""
    );
    assert_eq!(
        refused("[fedsi]\nmodes = 1.5"),
        "`fedsi.modes`: found 1.5, expected a whole number from 1 to 64 or \"auto\""
    );
    assert!(refused("rounds = 'many'").contains("`rounds`"));
    assert!(refused("training.learning_rate = 'fast'").contains("`training.learning_rate`"));
    assert_eq!(refused("rounds = -1"), "`rounds`: found -1, expected a whole number, 0 or more");
    assert_eq!(
        refused("data.size = 'medium'"),
        "`data.size`: unknown name `medium`, expected `small` or `large`"
    );
    assert!(refused("partition.kind = 'idd'").contains("`partition.kind`"));
    assert!(refused("model.body = [{ liner = 3 }]").contains("`model.body"));
    assert!(refused("training = 3").contains("`training`"));
    assert!(refused("rounds = 3 3").contains("line 1"));
}

#[test]
fn values_out_of_range_say_what_would_do() {
    for (text, key) in [
        ("rounds = 0", "rounds"),
        ("threads = 100000", "threads"),
        ("training.epochs = 0", "training.epochs"),
        ("training.batch_size = 0", "training.batch_size"),
        ("training.learning_rate = 0.0", "training.learning_rate"),
        ("training.learning_rate = -1.0", "training.learning_rate"),
        ("training.learning_rate = nan", "training.learning_rate"),
        ("training.learning_rate = inf", "training.learning_rate"),
        ("training.momentum = 1.0", "training.momentum"),
        ("tuning.learning_rate = nan", "tuning.learning_rate"),
        ("tuning.part = 'body'", "tuning.part"),
        ("method = 'fedpop'\ntuning.part = 'all'", "tuning.part"),
        ("lg_fedavg.warm_start = 1.0", "lg_fedavg.warm_start"),
        ("pfedbayes.inner_steps = 0", "pfedbayes.inner_steps"),
        ("fedpop.final_steps = 10", "fedpop.final_steps"),
        ("federation.quorum = 0.0", "federation.quorum"),
        ("federation.quorum = 1.5", "federation.quorum"),
        ("federation.participants = 11", "federation.participants"),
        ("federation.novel_clients = [10]", "federation.novel_clients"),
        ("federation.novel_clients = '2, 2'", "federation.novel_clients"),
        ("federation.novel_clients = '2, b'", "federation.novel_clients"),
        ("federation.novel_clients = [-1]", "federation.novel_clients"),
        ("federation.novel_clients = '0,1,2,3,4,5,6,7,8,9'", "federation.novel_clients"),
        ("federation = { novel_clients = [1], participants = 10 }", "federation.participants"),
        ("partition.unequal = true", "partition.unequal"),
        ("partition.pooled = true\nfederation.participants = 2", "federation.participants"),
        ("partition.pooled = true\nfederation.novel_clients = [0]", "federation.novel_clients"),
        ("partition.pooled_client = true\nfederation.participants = 2", "federation.participants"),
        ("partition.pooled_client = true\nfederation.novel_clients = [0]", "federation.novel_clients"),
        ("partition = { pooled_client = true, pooled = true }", "partition.pooled_client"),
        ("federation.trim = 0.5", "federation.trim"),
        ("federation.clip = -1.0", "federation.clip"),
        ("federation.outlier_factor = 0.5", "federation.outlier_factor"),
        ("federation.outlier_factor = nan", "federation.outlier_factor"),
        ("federation = { aggregate = 'median', weighting = 'samples' }", "federation.weighting"),
        ("faults.drop = 1.1", "faults.drop"),
        ("faults.straggle = -0.1", "faults.straggle"),
        ("faults.corrupt = nan", "faults.corrupt"),
        ("faults = { drop = 0.5, straggle = 0.3, corrupt = 0.3 }", "faults.corrupt"),
        ("privacy.noise = 0.001", "privacy.noise"),
        ("privacy.noise = inf", "privacy.noise"),
        ("privacy.noise = 1.0", "privacy.clip"),
        ("privacy.clip = -1.0", "privacy.clip"),
        ("privacy.delta = 0.0", "privacy.delta"),
        ("privacy.delta = 1.0", "privacy.delta"),
        ("validation.fraction = 1.0", "validation.fraction"),
        ("model.observation_noise = -1.0", "model.observation_noise"),
        ("partition.clients = 0", "partition.clients"),
        ("partition.concentration = 0.0", "partition.concentration"),
        ("partition.test_fraction = 1.0", "partition.test_fraction"),
        ("partition.labels_per_client = 0", "partition.labels_per_client"),
        ("partition.shards_per_client = 0", "partition.shards_per_client"),
        ("model.body = [{ linear = 100 }]", "model.body"),
    ] {
        let message = refused(text);
        assert!(message.contains(&format!("`{key}`")), "{text}: {message}");
    }
}

/// Noise is worked out for a plain mean of clipped updates and nothing else.
#[test]
fn privacy_is_refused_where_it_would_not_hold() {
    let private = "method = 'fedrep'\nprivacy = { noise = 1.0, clip = 1.0 }\n";
    assert!(read(private).unwrap().check().is_ok());
    for (text, key) in [
        ("federation.aggregate = 'median'", "federation.aggregate"),
        ("federation.aggregate = 'trimmed-mean'", "federation.aggregate"),
        ("federation.weighting = 'samples'", "federation.weighting"),
        ("federation.clip = 2.0", "federation.clip"),
        ("validation.fraction = 0.2", "validation.fraction"),
        ("data.dataset = 'files'", "data.files.standardize"),
        ("data = { dataset = 'files', files = { standardize = false } }", "data.files.classes"),
    ] {
        let message = refused(&format!("{private}{text}"));
        assert!(message.contains(&format!("`{key}`")) && message.contains("privacy"), "{text}: {message}");
    }
    for files in ["classes = ['no', 'yes']", "task = 'regression'"] {
        let text =
            format!("{private}data = {{ dataset = 'files', files = {{ standardize = false, {files} }} }}");
        assert!(read(&text).unwrap().check().is_ok(), "{files}");
    }
    let message = refused("privacy = { noise = 1.0, clip = 1.0 }"); // fedsi looks for a prior variance
    assert!(message.contains("fedsi.prior_variance=1") && message.contains("give a number"), "{message}");
    let fixed = "privacy = { noise = 1.0, clip = 1.0 }\nfedsi.prior_variance = 1.0";
    assert!(read(fixed).unwrap().check().is_ok());
}

#[test]
fn participants_by_default_are_those_that_can_be_drawn() {
    let participants = |text: &str| {
        let config = read(text).unwrap().check().unwrap();
        (config.federation.participants, config.federation.novel_clients.clone())
    };
    assert_eq!(participants(""), (10, vec![]));
    assert_eq!(participants("federation.novel_clients = [9]"), (9, vec![9]));
    assert_eq!(participants("federation.novel_clients = '9, 0'"), (8, vec![9, 0]));
    assert_eq!(participants("federation.novel_clients = 4"), (9, vec![4]));
    assert_eq!(participants("federation.novel_clients = ''"), (10, vec![]));
    assert_eq!(participants("federation.novel_clients = [1]\npartition.clients = 20"), (10, vec![1]));
    assert_eq!(participants("federation = { novel_clients = [1], participants = 3 }"), (3, vec![1]));
    assert_eq!(participants("partition.pooled = true"), (1, vec![]));
    assert_eq!(participants("partition.pooled_client = true"), (1, vec![]));
}

#[test]
fn shares_of_faults_may_add_up_to_everyone() {
    assert!(read("faults = { drop = 0.7, straggle = 0.2, corrupt = 0.1 }").unwrap().check().is_ok());
}

#[test]
fn a_written_config_reads_back_the_same() {
    for dataset in Datasets::builtin().names() {
        for size in [Size::Small, Size::Large] {
            let config = Config::defaults("fedrep", dataset, size).unwrap();
            let text = commented(&config).unwrap();
            assert_eq!(read(&text).unwrap(), config, "{dataset} {size}:\n{text}");
        }
    }
}

#[test]
fn every_key_is_explained() {
    let text = commented(&Config::defaults("fedavg", "digits", Size::Small).unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        if line.contains(" = ") && !line.starts_with('#') || line.starts_with('[') {
            assert!(index > 0 && lines[index - 1].starts_with('#'), "no comment above: {line}");
        }
        assert!(line.starts_with('#') == line.starts_with("# "), "an odd comment: {line}");
    }
}

/// The schema that editors use is kept in the project; this test keeps it true.
#[test]
fn the_schema_in_docs_is_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/config.schema.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("FEDSI_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == text,
        "docs/config.schema.json is out of date: run the tests with FEDSI_UPDATE_SNAPSHOTS=1"
    );
}
