//! What the methods share, keep and tune, seen from outside.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_bayes::Rules;
use fedsi_fl::Part;
use fedsi_fl::config::TunedPart;
use fedsi_fl::methods::METHODS;
use support::{clouds, config, global_values, personal_models, simulation};

const ROUNDS: usize = 3;

/// The body's length in the tests' network: 6 x 8 + 8.
const BODY: usize = 56;

fn untuned(method: &str, participants: usize) -> fedsi_fl::Config {
    let mut config = config(method, participants);
    config.tuning.epochs = 0;
    config
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for method in METHODS {
        let of = |threads| {
            let mut config = config(method.name, 3);
            config.threads = threads;
            personal_models(config, clouds(5), ROUNDS)
        };
        let one = of(1);
        for threads in [2, 3, 8] {
            assert_eq!(of(threads), one, "{} on {threads} threads", method.name);
        }
    }
}

#[test]
fn seeds_matter() {
    let of = |seed| {
        let mut config = config("fedavg", 3);
        config.seed = seed;
        personal_models(config, clouds(5), ROUNDS)
    };
    assert_eq!(of(4), of(4));
    assert_ne!(of(4), of(5));
}

/// A federation of one is no federation: averaging one client's network changes nothing.
#[test]
fn with_one_client_fedavg_is_local_training() {
    assert_eq!(
        personal_models(config("fedavg", 1), clouds(1), ROUNDS),
        personal_models(config("local", 1), clouds(1), ROUNDS)
    );
}

#[test]
fn what_is_shared_is_alike_and_what_is_personal_is_not() {
    for method in METHODS {
        let models = personal_models(untuned(method.name, 5), clouds(5), ROUNDS);
        let body_alike = models.windows(2).all(|pair| pair[0][..BODY] == pair[1][..BODY]);
        let head_alike = models.windows(2).all(|pair| pair[0][BODY..] == pair[1][BODY..]);
        let expected = match method.name {
            "local" | "pfedbayes" => (false, false),
            "fedavg" | "fedavg-ft" | "fedbabu" | "fedsi" | "fedsi-fac" => (true, true), // untuned
            "fedper" | "fedrep" | "bpfed" | "fedpop" => (true, false),
            "lg-fedavg" => (false, true),
            other => unreachable!("say here what {other} shares"),
        };
        assert_eq!((body_alike, head_alike), expected, "{}: (body, head) alike", method.name);
    }
}

#[test]
fn tuning_moves_just_what_it_should() {
    for (method, moves) in [
        ("fedavg-ft", Part::All),
        ("fedrep", Part::Head),
        ("fedbabu", Part::Head),
        ("fedsi", Part::Head),
        ("fedsi-fac", Part::Head),
    ] {
        let before = personal_models(untuned(method, 5), clouds(5), ROUNDS);
        let after = personal_models(config(method, 5), clouds(5), ROUNDS);
        let body = before[0][..BODY] != after[0][..BODY];
        let head = before[0][BODY..] != after[0][BODY..];
        assert_eq!((body, head), (moves == Part::All, true), "{method}: (body, head) moved");
    }
    let mut all = config("fedbabu", 5);
    all.fedbabu.tune = fedsi_fl::config::Tuned::All;
    let models = personal_models(all, clouds(5), ROUNDS);
    assert_ne!(models[0][..BODY], models[1][..BODY], "fedbabu.tune = all tunes the body");
}

/// `tuning.part` gives every method the same epochs of adaptation, or says why it cannot.
#[test]
fn every_method_can_be_given_the_same_tuning() {
    for method in METHODS {
        let before = personal_models(untuned(method.name, 5), clouds(5), ROUNDS);
        for (part, moves) in [(TunedPart::Head, (false, true)), (TunedPart::All, (true, true))] {
            let mut config = config(method.name, 5);
            config.tuning.part = part;
            if method.name == "fedpop" && part == TunedPart::All {
                let message = config.check().unwrap_err().to_string();
                assert!(message.contains("`tuning.part`") && message.contains("samples"), "{message}");
                continue;
            }
            let after = personal_models(config, clouds(5), ROUNDS);
            let body = before[0][..BODY] != after[0][..BODY];
            let head = before[0][BODY..] != after[0][BODY..];
            assert_eq!((body, head), moves, "{}, {part:?}: (body, head) moved", method.name);
        }
    }
    let (mut fedavg, tuned) = (config("fedavg", 5), config("fedavg-ft", 5));
    fedavg.tuning.part = TunedPart::All;
    assert_eq!(
        personal_models(fedavg, clouds(5), ROUNDS),
        personal_models(tuned, clouds(5), ROUNDS),
        "FedAvg-FT is FedAvg, tuned"
    );
}

#[test]
fn fedbabu_never_moves_the_common_head_while_training() {
    let mut simulation = simulation(config("fedbabu", 5), clouds(5));
    let before = global_values(&simulation);
    for _ in 0..ROUNDS {
        simulation.round().unwrap();
    }
    let after = global_values(&simulation);
    assert_eq!(before[BODY..], after[BODY..], "the head");
    assert_ne!(before[..BODY], after[..BODY], "the body");
}

#[test]
fn a_client_never_drawn_starts_from_its_initial_personal_part() {
    // One participant of five for one round: four clients were never drawn.
    let config = untuned("fedper", 1);
    let mut run = simulation(config.clone(), clouds(5));
    let initial = global_values(&run);
    let drawn = run.round().unwrap().participants[0];
    let models = personal_models(config, clouds(5), 1);
    for (client, model) in models.iter().enumerate() {
        assert_eq!(model[BODY..] == initial[BODY..], client != drawn, "client {client}, drawn {drawn}");
        assert_ne!(model[..BODY], initial[..BODY], "client {client} has the newest body");
    }
}

#[test]
fn local_trains_everyone_and_sends_nothing() {
    let mut simulation = simulation(config("local", 2), clouds(5));
    let record = simulation.round().unwrap();
    assert_eq!(record.participants, [0, 1, 2, 3, 4]);
    assert_eq!((record.bytes.up, record.bytes.down), (0, 0));
}

#[test]
fn traffic_follows_what_is_shared() {
    let bytes = |method| simulation(config(method, 4), clouds(5)).round().unwrap().bytes;
    let (all, body, head) = (bytes("fedavg"), bytes("fedper"), bytes("lg-fedavg"));
    assert!(all.up > body.up && body.up > head.up, "{all:?} {body:?} {head:?}");
    // 56 body parameters, 4 bytes each, 4 participants; the rest is the envelope.
    assert!(body.down >= 4 * 4 * 56 && body.down < 4 * (4 * 56 + 300), "{body:?}");
}

/// What `fedsi methods` says beforehand is what is counted.
#[test]
fn traffic_is_known_beforehand() {
    for method in METHODS {
        let config = config(method.name, 4);
        let mut simulation = simulation(config.clone(), clouds(5));
        let expected = (method.declare)(&config)
            .traffic(simulation.client().network().layout(), &Rules::builtin())
            .unwrap();
        let workers = if method.name == "local" { 0 } else { 4 };
        let found = simulation.round().unwrap().bytes;
        // Numbers in an envelope have more or fewer digits.
        let near = |found: u64, each: u64| found.abs_diff(workers * each) <= workers * 32;
        assert!(near(found.up, expected.up), "{}: {found:?} up, expected 4 x {expected:?}", method.name);
        assert!(near(found.down, expected.down), "{}: {found:?} down, expected {expected:?}", method.name);
    }
}

#[test]
fn training_helps() {
    for method in METHODS {
        let mut simulation = simulation(config(method.name, 5), clouds(5));
        let first = simulation.round().unwrap().train_loss.unwrap();
        let last = (0..20).map(|_| simulation.round().unwrap().train_loss.unwrap()).last().unwrap();
        assert!(last < 0.6 * first, "{}: the loss went from {first} to {last}", method.name);
    }
}
