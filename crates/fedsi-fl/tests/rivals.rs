//! pFedBayes, BPFed and FedPop round by round: what moves, what is held, what is kept and what predicts.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Mutex;

use fedsi_data::{Federation as _, Split};
use fedsi_fl::belief::{Belief, PersonalModel};
use fedsi_fl::methods::METHODS;
use fedsi_fl::simulation::Evaluated;
use fedsi_fl::work::LocalData;
use fedsi_fl::{Config, Simulation};
use support::{CLASSES, clouds, config, simulation};

/// The body's length in the tests' network: 6 x 8 + 8; and the head's.
const BODY: usize = 56;
const HEAD: usize = 8 * CLASSES + CLASSES;

fn trained(config: Config, rounds: usize) -> Simulation {
    let mut simulation = simulation(config, clouds(5));
    for _ in 0..rounds {
        simulation.round().unwrap();
    }
    simulation
}

/// Every client's model at the end, with what it believes.
fn models(simulation: &Simulation) -> Vec<PersonalModel> {
    let models = Mutex::new(Vec::new());
    let save = |evaluated: &Evaluated| {
        models.lock().unwrap().push(evaluated.model.clone());
        Ok(())
    };
    simulation.evaluate(save, |_| Ok(())).unwrap();
    let mut models = models.into_inner().unwrap();
    models.sort_by_key(|model| model.client);
    models
}

fn deviation(model: &PersonalModel) -> &[f32] {
    let Belief::MeanField { deviation } = &model.belief else { panic!("no mean-field: {:?}", model.belief) };
    deviation
}

fn heads(model: &PersonalModel) -> &[f32] {
    let Belief::Samples { heads } = &model.belief else { panic!("no samples: {:?}", model.belief) };
    heads
}

#[test]
fn distributions_start_as_published() {
    for method in ["pfedbayes", "bpfed"] {
        let simulation = simulation(config(method, 2), clouds(5));
        let means = simulation.global_parameters();
        let square = means.iter().map(|&mean| f64::from(mean).powi(2)).sum::<f64>() / means.len() as f64;
        assert!(
            (0.07..0.13).contains(&square.sqrt()),
            "{method}: initial means around 0 with {}",
            square.sqrt()
        );
        let variance = simulation.server().shared().variance.as_ref().unwrap();
        // ln(1 + e^-3) = 0.0486
        assert!(variance.iter().all(|&v| (v.sqrt() - 0.048_587).abs() < 1e-5), "{method}");
    }
}

/// The server's distribution follows the clients' own more slowly than these learn; both have spreads of their own.
#[test]
fn pfedbayes_keeps_a_distribution_beside_the_global_one() {
    let simulation = trained(config("pfedbayes", 5), 4);
    let (global, models) = (simulation.global_parameters(), models(&simulation));
    let spread = simulation.server().shared().variance.clone().unwrap();
    for model in &models {
        assert_ne!(model.parameters, global, "client {}: its own means", model.client);
        assert_ne!(model.parameters, models[(model.client + 1) % 5].parameters, "client {}", model.client);
        let own: Vec<f32> = deviation(model).iter().map(|s| s * s).collect();
        assert_ne!(own, spread, "client {}: its own spreads", model.client);
    }
}

/// Held firmly to where it starts, a distribution stays there; free, it narrows or widens as the data says.
#[test]
fn the_divergence_holds_distributions_to_their_references() {
    for (method, set) in [
        ("pfedbayes", (|config: &mut Config, zeta| config.pfedbayes.zeta = zeta) as fn(&mut Config, f64)),
        ("bpfed", |config, zeta| config.bpfed.zeta = zeta),
    ] {
        let moved = |zeta| {
            let mut config = config(method, 5);
            set(&mut config, zeta);
            let before = simulation(config.clone(), clouds(5)).global_parameters();
            let models = models(&trained(config, 2));
            let gap = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
            let squares: f64 = models.iter().flat_map(|m| m.parameters.iter().zip(&before)).map(gap).sum();
            (squares / (5.0 * before.len() as f64)).sqrt()
        };
        let (free, held) = (moved(0.0), moved(1e6));
        assert!(held < 0.7 * free, "{method}: moved by {free} when free, by {held} when held");
    }
}

#[test]
fn bpfed_shares_the_bodys_distribution_and_keeps_the_heads() {
    let simulation = trained(config("bpfed", 5), 3);
    let models = models(&simulation);
    let shared = simulation.server().shared();
    for model in &models {
        assert_eq!(model.parameters[..BODY], shared.values, "client {}: the body's means", model.client);
        let spread: Vec<f32> = shared.variance.as_ref().unwrap().iter().map(|v| v.sqrt()).collect();
        assert_eq!(deviation(model)[..BODY], spread, "client {}: the body's spreads", model.client);
    }
    assert_ne!(models[0].parameters[BODY..], models[1].parameters[BODY..], "heads are personal");
    assert_ne!(deviation(&models[0])[BODY..], deviation(&models[1])[BODY..], "and so are their spreads");
}

/// Five a round, the newest thirty; from the prior where a client was never drawn.
#[test]
fn fedpop_keeps_the_newest_samples_and_draws_from_the_prior_where_it_has_none() {
    let mut config = config("fedpop", 1);
    config.fedpop.samples = 12;
    let mut simulation = simulation(config, clouds(5));
    let drawn = simulation.round().unwrap().participants[0];
    for model in models(&simulation) {
        let count = heads(&model).len() / HEAD;
        if model.client == drawn {
            assert_eq!(count, 5, "ten steps, five discarded");
            assert_eq!(
                heads(&model)[4 * HEAD..],
                model.parameters[BODY..],
                "the newest is where the chain is"
            );
        } else {
            assert_eq!(count, 12);
            let variance =
                heads(&model).iter().map(|z| f64::from(*z).powi(2)).sum::<f64>() / (12 * HEAD) as f64;
            assert!((0.7..1.4).contains(&variance), "client {}: prior variance {variance}", model.client);
        }
    }
    for _ in 0..30 {
        simulation.round().unwrap();
    }
    let model = &models(&simulation)[drawn];
    assert_eq!(heads(model).len() / HEAD, 12, "no more than the config says");
    assert_eq!(heads(model)[11 * HEAD..], model.parameters[BODY..]);
}

/// Predictions average over draws of what a model believes: they differ from those of the means alone, are the same when
/// asked again, and do not depend on who is asked about beside a sample.
#[test]
fn predictions_average_over_what_is_believed() {
    for method in ["pfedbayes", "bpfed", "fedpop"] {
        let simulation = trained(config(method, 5), 3);
        let (model, predictor) = (models(&simulation).remove(0), simulation.predictor());
        let samples = simulation.federation().samples(0, Split::Test);
        let averaged = predictor.probabilities(&model, &samples.inputs);
        assert_eq!(averaged, predictor.probabilities(&model, &samples.inputs), "{method}: asked again");
        let one = predictor.probabilities(&model, &samples.inputs[6..12]);
        let gap = |(a, b): (&f64, &f64)| (a - b).abs();
        let gaps = averaged[CLASSES..2 * CLASSES].iter().zip(&one).map(gap);
        assert!(gaps.fold(0.0, f64::max) < 1e-6, "{method}: a sample alone, but for rounding");
        let point = PersonalModel { belief: Belief::Point, ..model.clone() };
        assert_ne!(averaged, predictor.probabilities(&point, &samples.inputs), "{method}");
        assert!(averaged.chunks(CLASSES).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-6), "{method}");
        assert!(predictor.spread(&model, &samples.inputs).iter().all(|&spread| spread > 0.0), "{method}");
        assert!(predictor.spread(&point, &samples.inputs).iter().all(|&spread| spread == 0.0), "{method}");
    }
}

/// A client that joins later learns what others have kept, in the way they did.
#[test]
fn newcomers_have_beliefs_of_their_own() {
    for method in METHODS {
        let simulation = trained(config(method.name, 5), 3);
        let data = LocalData::all(clouds(9).samples(8, Split::Train));
        let model = simulation.welcome(8, &data).unwrap();
        match method.name {
            "pfedbayes" | "bpfed" => {
                let initial = config(method.name, 5).mean_field.initial_deviation as f32;
                assert!(deviation(&model)[BODY..].iter().any(|&s| s != initial), "{}", method.name);
            }
            "fedpop" => assert_eq!(heads(&model).len() / HEAD, 30),
            _ => {}
        }
    }
}
