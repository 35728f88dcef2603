//! pFedBayes, BPFed and FedPop round by round: what moves, what is held, what is kept and what predicts.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_data::{Federation as _, Split};
use fedsi_fl::client::{LocalData, PersonalModel};
use fedsi_fl::methods::METHODS;
use fedsi_fl::parameters::Parameters;
use fedsi_fl::{Config, Simulation};
use support::{CLASSES, clouds, config, global_values, models, simulation};

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

/// Standard deviations of a model's Gaussian.
fn deviation(model: &PersonalModel) -> Vec<f32> {
    let Parameters::Gaussian(gaussian) = model.parameters() else {
        panic!("no Gaussian: {}", model.parameters().kind())
    };
    gaussian.deviations()
}

fn heads(model: &PersonalModel) -> &[f32] {
    let Parameters::Samples(head) = model.parameters() else {
        panic!("no samples: {}", model.parameters().kind())
    };
    &head.samples
}

#[test]
fn distributions_start_as_published() {
    for method in ["pfedbayes", "bpfed"] {
        let simulation = simulation(config(method, 2), clouds(5));
        let means = global_values(&simulation);
        let square = means.iter().map(|&mean| f64::from(mean).powi(2)).sum::<f64>() / means.len() as f64;
        assert!(
            (0.07..0.13).contains(&square.sqrt()),
            "{method}: initial means around 0 with {}",
            square.sqrt()
        );
        let variance = simulation.server().shared()[0].variance().unwrap();
        // ln(1 + e^-3) = 0.0486
        assert!(variance.iter().all(|&v| (v.sqrt() - 0.048_587).abs() < 1e-5), "{method}");
    }
}

/// The server's distribution follows the clients' own more slowly than these learn; both have spreads of their own.
#[test]
fn pfedbayes_keeps_a_distribution_beside_the_global_one() {
    let simulation = trained(config("pfedbayes", 5), 4);
    let (global, models) = (global_values(&simulation), models(&simulation));
    let spread = simulation.server().shared()[0].variance().unwrap().to_vec();
    for model in &models {
        assert_ne!(model.parameters().values(), global, "client {}: its own means", model.client);
        assert_ne!(
            model.parameters().values(),
            models[(model.client + 1) % 5].parameters().values(),
            "client {}",
            model.client
        );
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
            let before = global_values(&simulation(config.clone(), clouds(5)));
            let models = models(&trained(config, 2));
            let gap = |(a, b): (&f32, &f32)| f64::from(a - b).powi(2);
            let squares: f64 =
                models.iter().flat_map(|m| m.parameters().values().iter().zip(&before)).map(gap).sum();
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
    let shared = &simulation.server().shared()[0];
    for model in &models {
        assert_eq!(
            model.parameters().values()[..BODY],
            *shared.values(),
            "client {}: the body's means",
            model.client
        );
        let spread: Vec<f32> = shared.variance().unwrap().iter().map(|v| v.sqrt()).collect();
        assert_eq!(deviation(model)[..BODY], spread, "client {}: the body's spreads", model.client);
    }
    assert_ne!(
        models[0].parameters().values()[BODY..],
        models[1].parameters().values()[BODY..],
        "heads are personal"
    );
    assert_ne!(deviation(&models[0])[BODY..], deviation(&models[1])[BODY..], "and so are their spreads");
}

/// However few steps a round has, the copy of the global distribution that is sent back has moved; with fewer inner steps
/// it moves more often, and elsewhere.
#[test]
fn pfedbayes_moves_the_global_distribution_less_often_than_its_own() {
    let after = |inner_steps, epochs| {
        let mut config = config("pfedbayes", 5);
        (config.pfedbayes.inner_steps, config.training.epochs) = (inner_steps, epochs);
        let mut simulation = simulation(config, clouds(5));
        let before = global_values(&simulation);
        simulation.round().unwrap();
        let moved = |(a, b): (&f32, &f32)| f64::from((a - b).abs());
        global_values(&simulation).iter().zip(&before).map(moved).sum::<f64>() / before.len() as f64
    };
    let (each, fifth) = (after(1, 3), after(5, 3));
    assert!(
        fifth > 0.0 && fifth < 0.5 * each,
        "moved by {each} with every step, by {fifth} with every fifth"
    );
    assert!(after(1000, 1) > 0.0, "at least once");
}

/// The chain at the end fills the store with samples under the final body, of every client.
#[test]
fn fedpops_last_chain_replaces_the_samples_of_the_rounds() {
    let mut config = config("fedpop", 1);
    (config.fedpop.samples, config.fedpop.final_steps, config.fedpop.step) = (12, 600, 1e-2);
    let mut simulation = simulation(config, clouds(5));
    simulation.round().unwrap();
    for model in models(&simulation) {
        let samples = heads(&model);
        assert_eq!(samples.len() / HEAD, 12, "client {}", model.client);
        assert_eq!(
            samples[11 * HEAD..],
            model.parameters().values()[BODY..],
            "the newest is where the chain is"
        );
        let step = |pair: &[f32]| (0..HEAD).map(|i| f64::from(pair[i] - pair[i + HEAD]).powi(2)).sum::<f64>();
        let gaps: Vec<f64> =
            samples.chunks(HEAD).collect::<Vec<_>>().windows(2).map(|two| step(&two.concat())).collect();
        let mean = gaps.iter().sum::<f64>() / (gaps.len() * HEAD) as f64;
        // Twenty-five steps apart: far more than the 1e-2 of one.
        assert!(mean > 5e-2, "client {}: samples are {mean} apart", model.client);
    }
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
                model.parameters().values()[BODY..],
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
    assert_eq!(heads(model)[11 * HEAD..], model.parameters().values()[BODY..]);
}

/// Predictions average over draws of what is known of its parameters: they differ from those of the means alone, are the same when
/// asked again, and do not depend on who is asked about beside a sample.
#[test]
fn predictions_average_over_what_is_known() {
    for method in ["pfedbayes", "bpfed", "fedpop"] {
        let simulation = trained(config(method, 5), 3);
        let (model, client) = (models(&simulation).remove(0), simulation.client());
        let samples = simulation.federation().samples(0, Split::Test);
        let averaged = client.probabilities(&model, &samples.inputs).unwrap();
        assert_eq!(averaged, client.probabilities(&model, &samples.inputs).unwrap(), "{method}: asked again");
        let one = client.probabilities(&model, &samples.inputs[6..12]).unwrap();
        let gap = |(a, b): (&f64, &f64)| (a - b).abs();
        let gaps = averaged[CLASSES..2 * CLASSES].iter().zip(&one).map(gap);
        assert!(gaps.fold(0.0, f64::max) < 1e-6, "{method}: a sample alone, but for rounding");
        let values = Parameters::Point(model.parameters().values().to_vec());
        let point = PersonalModel::single(model.client, values, vec![], model.draws);
        assert_ne!(averaged, client.probabilities(&point, &samples.inputs).unwrap(), "{method}");
        assert!(averaged.chunks(CLASSES).all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-6), "{method}");
        assert!(
            client.spread(&model, &samples.inputs).unwrap().iter().all(|&spread| spread > 0.0),
            "{method}"
        );
        assert!(
            client.spread(&point, &samples.inputs).unwrap().iter().all(|&spread| spread == 0.0),
            "{method}"
        );
    }
}

/// Which of (body, head) a client that joins late has from the server unchanged.
fn unchanged(method: &str) -> (bool, bool) {
    match method {
        // Nothing is kept by fedavg: a late client tunes all of it.
        "local" | "pfedbayes" | "fedavg" | "fedavg-ft" => (false, false),
        "fedbabu" | "fedsi" | "fedsi-fac" | "fedper" | "fedrep" | "bpfed" | "fedpop" => (true, false),
        "lg-fedavg" => (false, true),
        other => unreachable!("say here what a late client of {other} trains"),
    }
}

/// A client that joins late has the server's shared part, trains what its method keeps or tunes, has the method's kind of
/// posterior, and predicts its own samples well above chance.
#[test]
fn late_clients_have_models_of_their_method() {
    let mut poor = Vec::new();
    for method in METHODS {
        let name = method.name;
        let mut config = config(name, 5);
        // `local` has nothing but its tuning to learn from.
        (config.tuning.epochs, config.tuning.learning_rate) = (60, 0.02);
        let initial = config.mean_field.initial_deviation as f32;
        let simulation = trained(config, 10);
        let samples = clouds(9).samples(8, Split::Train);
        let model = simulation.join(8, &LocalData::all(samples.clone())).unwrap();
        let (values, global) = (model.parameters().values(), global_values(&simulation));
        assert!(values.iter().all(|value| value.is_finite()), "{name}");
        let same = (values[..BODY] == global[..BODY], values[BODY..] == global[BODY..]);
        assert_eq!(same, unchanged(name), "{name}: (body, head) as the server has them");

        match (name, model.parameters()) {
            ("pfedbayes" | "bpfed", Parameters::Gaussian(gaussian)) => {
                let deviation = gaussian.deviations();
                assert!(deviation.iter().all(|&s| s > 0.0), "{name}");
                assert!(deviation[BODY..].iter().any(|&s| s != initial), "{name}: deviations were trained");
            }
            ("fedpop", Parameters::Samples(head)) => assert_eq!(head.samples.len() / HEAD, 30),
            ("fedsi" | "fedsi-fac", Parameters::Laplace(laplace)) => {
                let posterior = laplace.fit.posterior();
                let expected = if name == "fedsi" { 3 } else { BODY };
                assert_eq!(posterior.selected().len(), expected, "{name}: 5% of the body, or all of it");
                for (variance, prior) in posterior.marginal_variances().iter().zip(posterior.prior_variance())
                {
                    assert!(
                        *variance > 0.0 && variance <= prior,
                        "{name}: {variance} from a prior of {prior}"
                    );
                }
            }
            (
                "local" | "fedavg" | "fedavg-ft" | "fedbabu" | "fedper" | "fedrep" | "lg-fedavg",
                Parameters::Point(_),
            ) => {}
            (_, other) => panic!("{name}: another kind of posterior: {}", other.kind()),
        }

        let rows = simulation.client().probabilities(&model, &samples.inputs).unwrap();
        assert_eq!(rows.len(), samples.count * CLASSES, "{name}");
        for row in rows.chunks(CLASSES) {
            assert!(row.iter().all(|p| (0.0..=1.0).contains(p)), "{name}: {row:?}");
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{name}: {row:?}");
        }
        let fedsi_data::Targets::Classes(labels) = &samples.targets else { panic!("classes") };
        let predictions = fedsi_metrics::Predictions::new(&rows, labels, CLASSES).unwrap();
        let accuracy = predictions.accuracy().unwrap();
        if accuracy < 0.6 {
            poor.push((name, accuracy));
        }
    }
    assert!(poor.is_empty(), "accuracies near chance, a third: {poor:?}");
}
