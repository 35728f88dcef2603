//! LG-FedAvg's first stage, in which it is FedAvg.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_fl::client::LocalData;
use fedsi_fl::wire::Download;
use fedsi_fl::{Config, Simulation};
use support::{clouds, config, global_values, models, simulation};

const ROUNDS: usize = 6;
const STAGE: usize = 3;

/// The body's length in the tests' network: 6 x 8 + 8.
const BODY: usize = 56;

fn warm(participants: usize) -> Config {
    let mut config = config("lg-fedavg", participants);
    (config.rounds, config.lg_fedavg.warm_start) = (ROUNDS, 0.5);
    config
}

fn after(config: Config, rounds: usize) -> Simulation {
    let mut simulation = simulation(config, clouds(5));
    for _ in 0..rounds {
        simulation.round().unwrap();
    }
    simulation
}

#[test]
fn the_first_stage_is_fedavg() {
    for rounds in 0..=STAGE {
        let fedavg = global_values(&after(config("fedavg", 3), rounds));
        let warm = after(warm(3), rounds);
        assert_eq!(global_values(&warm), fedavg, "after {rounds} rounds");
        for model in models(&warm) {
            assert_eq!(model.parameters().values(), fedavg, "after {rounds} rounds, client {}", model.client);
        }
    }
}

/// Whoever was drawn since has a body of its own, the others the one that the first stage led to; all the newest head.
#[test]
fn then_heads_are_shared_and_bodies_kept() {
    let common = global_values(&after(warm(1), STAGE));
    let mut run = after(warm(1), STAGE);
    let mut drawn: Vec<usize> = (STAGE..ROUNDS).flat_map(|_| run.round().unwrap().participants).collect();
    drawn.sort_unstable();
    let global = global_values(&run);
    assert_eq!(global[..BODY], common[..BODY], "the server's body is that of the first stage");
    assert_ne!(global[BODY..], common[BODY..], "its head is newer");
    for model in models(&run) {
        let values = model.parameters().values();
        let own = drawn.binary_search(&model.client).is_ok();
        assert_eq!(values[..BODY] != common[..BODY], own, "client {}, drawn: {drawn:?}", model.client);
        assert_eq!(values[BODY..], global[BODY..], "client {}", model.client);
    }
}

/// In the second stage the head travels, and the whole network once to each client.
#[test]
fn traffic_is_what_travels() {
    let mut run = simulation(warm(5), clouds(5));
    let bytes: Vec<_> = (0..ROUNDS).map(|_| run.round().unwrap().bytes).collect();
    let all = simulation(config("fedavg", 5), clouds(5)).round().unwrap().bytes;
    let head = simulation(config("lg-fedavg", 5), clouds(5)).round().unwrap().bytes;
    let near = |found: u64, expected: u64| found.abs_diff(expected) < 5 * 16;
    for (round, found) in (1..).zip(bytes) {
        let (up, down) = match round {
            ..=STAGE => (all.up, all.down),
            _ if round == STAGE + 1 => (head.up, all.down),
            _ => (head.up, head.down),
        };
        assert!(near(found.up, up) && near(found.down, down), "round {round}: {found:?}, not {up}, {down}");
    }
}

/// A snapshot of either stage, and of the border between them, goes on to the same bits.
#[test]
fn a_resumed_run_gives_the_same_bits() {
    let whole = after(warm(3), ROUNDS);
    for at in 1..ROUNDS {
        let snapshot = after(warm(3), at).snapshot().unwrap();
        let mut resumed = simulation(warm(3), clouds(5));
        resumed.restore(snapshot).unwrap();
        for _ in at..ROUNDS {
            resumed.round().unwrap();
        }
        assert_eq!(global_values(&resumed), global_values(&whole), "from round {at}");
        assert_eq!(models(&resumed), models(&whole), "from round {at}");
    }
}

/// A client without a body of its own needs the whole network, and says so.
#[test]
fn a_head_alone_is_refused_by_who_has_no_body() {
    let run = after(warm(3), STAGE + 1);
    let (client, federation) = (run.client(), clouds(6));
    let data = LocalData::all(fedsi_data::Federation::samples(&*federation, 5, fedsi_data::Split::Train));
    let head: Download = run.server().training_download();
    let error = client.train(5, &head, None, &data).unwrap_err().to_string();
    assert!(error.contains("expected 83 values, found 27 values"), "{error}");
    let first = run.server().first_download().unwrap();
    let trained = client.train(5, &first, None, &data).unwrap();
    let kept = trained.kept.parameters().unwrap();
    assert_eq!((trained.upload.shared.len(), kept.values().len()), (27, BODY));
    assert!(client.train(5, &head, Some(kept), &data).is_ok());
    // Who joins at the end starts from the first stage's body.
    assert!(run.join(5, &data).is_ok());
}

/// A share too small for a round is a cold start.
#[test]
fn a_short_run_has_no_first_stage() {
    let mut short = warm(3);
    (short.rounds, short.lg_fedavg.warm_start) = (1, 0.9);
    let mut cold = short.clone();
    cold.lg_fedavg.warm_start = 0.0;
    assert_eq!(models(&after(short, 1)), models(&after(cold, 1)));
}
