//! Every fault and what happens: a test for each row of docs/faults.md.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_fl::config::VarianceAverage;
use fedsi_fl::coordinator::{Fault, RoundFaults, RoundRecord};
use fedsi_fl::methods::{METHODS, Participation};
use fedsi_fl::parameters::{Gaussian, SharedParameters};
use fedsi_fl::server::{
    Admission, Aggregation, Exclusion, LeftOut, RobustEstimator, RoundOutcome, Server, ServerError,
    ServerSettings,
};
use fedsi_fl::wire::{Upload, Variances};
use fedsi_fl::{Config, SimulationError};
use fedsi_random::Streams;
use support::{clouds, config, global_values, personal_models, simulation};

const ASKED: [usize; 4] = [0, 1, 2, 3];

fn upload(client: usize, value: f32) -> Upload {
    Upload { round: 1, client, samples: 10, loss: Some(0.5), shared: vec![value; 4], variances: None }
}

fn server_with(shared: SharedParameters, aggregation: Aggregation, admission: Admission) -> Server {
    let settings = ServerSettings {
        clients: 8,
        novel_clients: Vec::new(),
        participants: 4,
        participation: Participation::Sampled,
        streams: Streams::new(1),
        aggregation,
        admission,
        modes: fedsi_fl::methods::Modes::ONE,
        choices: None,
        narrowed: None,
        privacy: None,
    };
    Server::with_settings(settings, vec![shared]).unwrap()
}

fn server_of(shared: SharedParameters) -> Server {
    let admission = Admission { quorum: 0.5, patience: 3, outlier_factor: 100.0, compare: true };
    server_with(shared, Aggregation::mean(VarianceAverage::Variance, 1.0, 1), admission)
}

fn server() -> Server {
    server_of(SharedParameters::Point(vec![0.0; 4]))
}

/// A round of four in which something happens to client 1's message: what the server made of it.
fn with_fault(fault: Fault) -> (Server, RoundOutcome) {
    let mut server = server();
    let mut missing = Vec::new();
    let mut uploads = Vec::new();
    for client in ASKED {
        let arrival = if client == 1 {
            fault.apply(upload(1, 9.0))
        } else {
            RoundFaults::default().deliver(upload(client, 2.0))
        };
        uploads.extend(arrival.messages);
        missing.extend(arrival.left_out);
    }
    let completed = server.complete(&ASKED, &uploads, missing).unwrap();
    (server, completed)
}

/// Client 1 is named with this kind and these words, and its update moved nothing.
fn refused(fault: Fault, kind: Exclusion, words: &str) {
    let (server, completed) = with_fault(fault);
    let [LeftOut { client: 1, kind: found, reason }] = &completed.left_out[..] else {
        panic!("{fault:?}: left out {:?}", completed.left_out)
    };
    assert_eq!(*found, kind, "{fault:?}");
    assert!(reason.contains(words), "{fault:?}: no `{words}` in `{reason}`");
    assert_eq!((completed.used, completed.skipped), (vec![0, 2, 3], false), "{fault:?}");
    assert_eq!(server.shared()[0].values(), [2.0; 4], "{fault:?} reached the shared part");
}

#[test]
fn a_silent_client_is_left_out() {
    refused(Fault::Drop, Exclusion::Dropped, "did not answer");
}

#[test]
fn a_late_update_is_left_out() {
    refused(Fault::Straggle, Exclusion::Late, "past the deadline");
}

#[test]
fn a_value_that_is_no_number_is_refused() {
    refused(Fault::NonFinite, Exclusion::NotFinite, "value 2 of its update is NaN");
}

#[test]
fn an_update_of_the_wrong_shape_is_refused() {
    refused(Fault::WrongShape, Exclusion::WrongShape, "it sent 5 values, expected 4");
}

#[test]
fn an_absurdly_large_update_is_refused() {
    refused(Fault::Huge, Exclusion::TooLarge, "norm of 1.800e7, and the median one 4.000e0");
}

/// Training has all but ended: three clients hardly move, and one by as much as the test says.
#[test]
fn an_update_that_is_short_beside_the_servers_values_is_no_outlier() {
    let round = |moved: f32| {
        let mut server = server_of(SharedParameters::Point(vec![100.0; 4]));
        let values = [100.0 + 1e-4, 100.0 - 1e-4, 100.0 + moved, 100.0 + 1e-4];
        let uploads: Vec<Upload> =
            values.into_iter().enumerate().map(|(client, value)| upload(client, value)).collect();
        let outcome = server.complete(&ASKED, &uploads, vec![]).unwrap();
        (outcome.used, outcome.left_out)
    };
    // The norm of the server's values is 200, that of the median update some 2e-4.
    let (used, left_out) = round(9.0);
    assert!(used == ASKED && left_out.is_empty(), "9% of the server's norm: {left_out:?}");
    for moved in [11.0, 1e6] {
        let (used, left_out) = round(moved);
        assert_eq!(used, [0, 1, 3], "{moved}% of the server's norm");
        assert_eq!((left_out[0].client, left_out[0].kind), (2, Exclusion::TooLarge));
        assert!(left_out[0].reason.contains("and the median one 1.98"), "{}", left_out[0].reason);
    }
}

#[test]
fn a_single_absurd_value_is_refused_whatever_the_others_sent() {
    let mut server = server();
    let mut wild = upload(0, 1.0);
    wild.shared[3] = -3e30;
    let completed = server.complete(&[0, 1], &[wild, upload(1, 2.0)], vec![]).unwrap();
    let out = &completed.left_out[0];
    assert_eq!((out.client, out.kind), (0, Exclusion::TooLarge));
    assert!(out.reason.contains("value 3"), "{}", out.reason);
    assert_eq!(server.shared()[0].values(), [2.0; 4]);
}

#[test]
fn an_update_of_another_round_is_refused() {
    refused(Fault::Stale, Exclusion::Stale, "its update is for round 0");
}

#[test]
fn of_two_updates_of_one_client_the_first_counts() {
    let (server, completed) = with_fault(Fault::Duplicate);
    assert_eq!(completed.used, ASKED, "the first one is used");
    let out = &completed.left_out[..];
    assert!(matches!(out, [LeftOut { client: 1, kind: Exclusion::Duplicate, .. }]), "{out:?}");
    assert_eq!(server.shared()[0].values(), [(3.0 * 2.0 + 9.0) / 4.0; 4], "and counts once");
}

/// A second message may replace a first that could not be used.
#[test]
fn a_repeated_update_is_used_where_the_first_was_damaged() {
    let mut server = server();
    let damaged = Upload { shared: vec![1.0], ..upload(0, 1.0) };
    let completed = server.complete(&[0], &[damaged, upload(0, 3.0)], vec![]).unwrap();
    assert_eq!((completed.used, completed.left_out[0].kind), (vec![0], Exclusion::WrongShape));
    assert_eq!(server.shared()[0].values(), [3.0; 4]);
}

#[test]
fn a_variance_that_is_none_is_refused() {
    refused(Fault::BadVariance, Exclusion::BadVariance, "were not requested");
    let mut server = server_of(SharedParameters::Gaussian(Gaussian::uniform(vec![0.0; 4], 1.0)));
    let with = |client, values| Upload {
        variances: Some(Variances { selected: None, values }),
        ..upload(client, 2.0)
    };
    let mut uploads = vec![with(0, vec![0.5; 4])];
    uploads.extend(Fault::BadVariance.apply(with(1, vec![0.5; 4])).messages);
    uploads.extend([with(2, vec![0.5, 0.5, 1.1e4, 0.5]), with(3, vec![0.5; 4])]);
    let completed = server.complete(&ASKED, &uploads, vec![]).unwrap();
    let [negative, wide] = &completed.left_out[..] else { panic!("{:?}", completed.left_out) };
    assert_eq!((negative.client, negative.kind), (1, Exclusion::BadVariance));
    assert!(negative.reason.contains("parameter 0 is -1"), "{}", negative.reason);
    assert_eq!((wide.client, wide.kind), (2, Exclusion::TooLarge));
    assert!(wide.reason.contains("parameter 2 is 11000, and was 1"), "{}", wide.reason);
    assert_eq!(server.shared()[0].variance(), Some(&[0.5; 4][..]));
}

#[test]
fn absurd_numbers_of_samples_are_refused() {
    refused(Fault::BadSamples, Exclusion::BadSamples, "18446744073709551615 training samples");
    let mut server = server();
    let empty = Upload { samples: 0, ..upload(0, 9.0) };
    let completed = server.complete(&[0, 1], &[empty, upload(1, 2.0)], vec![]).unwrap();
    assert_eq!(completed.left_out[0].kind, Exclusion::BadSamples);
}

#[test]
fn a_truncated_message_is_unreadable() {
    refused(Fault::Truncated, Exclusion::Unreadable, "not a fedsi message");
}

#[test]
fn a_client_that_was_not_asked_is_refused() {
    let mut server = server();
    let completed = server.complete(&[0, 2], &[upload(0, 2.0), upload(1, 9.0)], vec![]).unwrap();
    assert_eq!((completed.left_out[0].client, completed.left_out[0].kind), (1, Exclusion::Uninvited));
    assert_eq!(server.shared()[0].values(), [2.0; 4]);
}

#[test]
fn below_the_quorum_the_server_keeps_what_it_has_and_goes_on() {
    let mut config = config("fedavg", 5);
    (config.faults.drop, config.federation.patience) = (1.0, 2);
    let mut simulation = simulation(config, clouds(5));
    let before = global_values(&simulation);
    for round in 1..=2 {
        let record = simulation.round().unwrap();
        assert_eq!((record.round, record.skipped, record.left_out.len()), (round, true, 5));
        assert_eq!((record.train_loss, record.bytes.up), (None, 0));
        assert_eq!(global_values(&simulation), before);
    }
    let error = simulation.round().unwrap_err();
    assert!(
        matches!(error, SimulationError::Server(ServerError::Quorum { round: 3, usable: 0, .. })),
        "{error}"
    );
    assert!(!error.is_bad_input());
}

#[test]
fn divergence_is_not_waited_for() {
    let mut server = server();
    let nan: Vec<Upload> = ASKED.iter().map(|&client| upload(client, f32::NAN)).collect();
    let before = server.state().clone();
    assert!(matches!(server.complete(&ASKED, &nan, vec![]), Err(ServerError::Quorum { .. })));
    assert_eq!(*server.state(), before);
}

/// The shares of the issue, and a federation small enough to run every method.
fn troubled(method: &str) -> Config {
    let mut config = config(method, 6);
    (config.faults.drop, config.faults.straggle, config.faults.corrupt) = (0.3, 0.1, 0.2);
    config.federation.quorum = 0.3;
    config.rounds = 8;
    config
}

fn rounds(config: Config) -> (Vec<RoundRecord>, Vec<f32>) {
    let count = config.rounds;
    let mut simulation = simulation(config, clouds(8));
    let records = (0..count).map(|_| simulation.round().unwrap()).collect();
    (records, global_values(&simulation))
}

#[test]
fn every_method_survives_faults_and_names_them() {
    for method in METHODS {
        let (records, parameters) = rounds(troubled(method.name));
        assert!(parameters.iter().all(|value| value.is_finite()), "{}", method.name);
        let kinds: std::collections::BTreeSet<Exclusion> =
            records.iter().flat_map(|record| &record.left_out).map(|out| out.kind).collect();
        assert!(kinds.contains(&Exclusion::Dropped), "{}: {kinds:?}", method.name);
        let damaged = kinds.iter().any(|kind| ![Exclusion::Dropped, Exclusion::Late].contains(kind));
        assert_eq!(
            damaged && kinds.contains(&Exclusion::Late),
            method.name != "local",
            "{}: {kinds:?}",
            method.name
        );
        for record in &records {
            assert!(record.left_out.iter().all(|out| record.participants.contains(&out.client)));
        }
    }
}

#[test]
fn results_with_faults_do_not_depend_on_threads() {
    for method in ["fedsi", "fedrep", "pfedbayes"] {
        let of = |threads| {
            let config = Config { threads, ..troubled(method) };
            let left_out: Vec<_> =
                rounds(config.clone()).0.into_iter().map(|record| record.left_out).collect();
            (left_out, personal_models(config, clouds(8), 6))
        };
        let one = of(1);
        assert!([2, 5].iter().all(|&threads| of(threads) == one), "{method}");
    }
}

/// A run that stops in the midst of trouble goes on as it would have, skipped rounds included.
#[test]
fn a_snapshot_between_faults_goes_on_alike() {
    for method in ["fedper", "pfedbayes"] {
        let mut config = troubled(method);
        (config.faults.drop, config.federation.quorum) = (0.5, 0.5); // half of the rounds are skipped
        let mut whole = simulation(config.clone(), clouds(8));
        let skipped: Vec<bool> = (0..8).map(|_| whole.round().unwrap().skipped).collect();
        assert!(skipped.contains(&true) && skipped.contains(&false), "{method}: {skipped:?}");
        for stop in 1..8 {
            let mut first = simulation(config.clone(), clouds(8));
            (0..stop).for_each(|_| drop(first.round().unwrap()));
            let mut second = simulation(config.clone(), clouds(8));
            second.restore(first.snapshot().unwrap()).unwrap();
            (stop..8).for_each(|_| drop(second.round().unwrap()));
            assert_eq!(second.server().state(), whole.server().state(), "{method} after round {stop}");
            assert_eq!(second.snapshot().unwrap(), whole.snapshot().unwrap(), "{method} after round {stop}");
        }
    }
}

/// A silent client keeps its old personal part; one that was late or damaged keeps what it learned.
#[test]
fn what_a_client_learned_is_its_own() {
    let of = |set: fn(&mut Config)| {
        let mut config = config("fedper", 5);
        config.federation.quorum = 0.1;
        set(&mut config);
        personal_models(config, clouds(5), 1)
    };
    let (fresh, clean) = (of(|config| config.faults.drop = 1.0), of(|_| ()));
    let head = 56..;
    for (set, works) in [
        ((|config| config.faults.drop = 1.0) as fn(&mut Config), false),
        (|config| config.faults.straggle = 1.0, true),
        (|config| config.faults.corrupt = 1.0, true),
    ] {
        for (client, model) in of(set).iter().enumerate() {
            let expected = if works { &clean[client] } else { &fresh[client] };
            assert_eq!(model[head.clone()], expected[head.clone()], "client {client}, works: {works}");
        }
    }
    assert_ne!(fresh[0][head.clone()], clean[0][head]);
}

/// Bytes are what was sent: nothing by the silent, all of it by the late, twice as much by those that repeat themselves.
#[test]
fn traffic_is_what_was_sent() {
    let bytes = |fault: Fault| fault.apply(upload(1, 9.0)).bytes;
    let one = upload(1, 9.0).encoded_len() as u64;
    assert_eq!([Fault::Drop, Fault::Straggle, Fault::Duplicate].map(bytes), [0, one, 2 * one]);
    assert_eq!((bytes(Fault::Truncated), bytes(Fault::Stale)), (one / 2, one));
    let of = |drop| {
        let mut config = config("fedavg", 5);
        (config.faults.drop, config.federation.quorum) = (drop, 0.1);
        simulation(config, clouds(5)).round().unwrap()
    };
    let (clean, faulty) = (of(0.0), of(0.5));
    let share = 1.0 - faulty.left_out.len() as f64 / 5.0;
    assert!(
        share < 1.0 && (faulty.bytes.up as f64 / clean.bytes.up as f64 - share).abs() < 0.02,
        "{faulty:?}"
    );
    assert_eq!(faulty.bytes.down, clean.bytes.down, "the server wrote to all of them");
}

/// A minority that sends anything at all, within the bound on norms, cannot lead a median or trimmed mean astray.
#[test]
fn robust_averages_stand_a_lying_minority() {
    for aggregate in ["median", "trimmed-mean"] {
        let mut config = config("fedavg", 5);
        config.federation.aggregate = serde_json::from_value(aggregate.into()).unwrap();
        config.federation.trim = 0.2;
        let mut honest = simulation(config, clouds(5));
        let losses: Vec<f64> = (0..6).map(|_| honest.round().unwrap().train_loss.unwrap()).collect();
        assert!(losses[5] < 0.7 * losses[0], "{aggregate} does not learn: {losses:?}");
    }
    let admission = Admission { quorum: 0.5, patience: 3, outlier_factor: 0.0, compare: true };
    let mean = Aggregation::mean(VarianceAverage::Variance, 1.0, 1);
    let aggregation = Aggregation { estimator: RobustEstimator::Median, ..mean };
    let mut server = server_with(SharedParameters::Point(vec![0.0; 4]), aggregation, admission);
    let uploads = [upload(0, 1.0), upload(1, 1e15), upload(2, 1.5), upload(3, 2.0)];
    assert!(server.complete(&ASKED, &uploads, vec![]).unwrap().left_out.is_empty());
    assert_eq!(server.shared()[0].values(), [1.75; 4]);
}

/// The guard against absurd updates changes nothing where nobody sends one, and neither does the draw of faults.
#[test]
fn without_trouble_nothing_changes() {
    for method in METHODS {
        let of = |largest| {
            let mut config = config(method.name, 4);
            config.federation.outlier_factor = largest;
            rounds(Config { rounds: 3, ..config })
        };
        let (records, with) = of(100.0);
        assert_eq!(with, of(0.0).1, "{}", method.name);
        assert!(records.iter().all(|record| record.left_out.is_empty()), "{}", method.name);
    }
}

#[test]
fn faults_follow_from_the_seed_and_not_from_the_method() {
    let of = |seed| {
        let faults = troubled("fedsi").faults;
        RoundFaults::draw(&faults, &Streams::new(seed), 3, &[0, 1, 2, 3, 4, 5, 6, 7], true)
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

/// The table in docs names tests that exist.
#[test]
fn every_row_of_the_table_is_a_test() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let page = std::fs::read_to_string(format!("{root}../../docs/faults.md")).unwrap();
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && line.contains(".rs::")).collect();
    assert!(rows.len() >= 18, "{} rows", rows.len());
    for row in rows {
        let named = row.rsplit('`').nth(1).and_then(|named| named.split_once("::"));
        let (file, name) = named.unwrap_or_else(|| panic!("no test in: {row}"));
        let text = std::fs::read_to_string(format!("{root}tests/{file}")).unwrap();
        assert!(text.contains(&format!("\nfn {name}() {{")), "{file} has no {name}");
    }
}
