//! FedSI round by round: prior, subnetwork, aggregation, personal posteriors, clients that join later.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::Arc;

use fedsi_bayes::Predictive;
use fedsi_data::{Federation as _, Split};
use fedsi_fl::client::{LocalData, PersonalModel, Predictions};
use fedsi_fl::config::{FinalPrior, NamedPrior, PriorScale, Profile, VarianceAverage, WeightingName};
use fedsi_fl::methods::Uncertainty;
use fedsi_fl::parameters::Parameters;
use fedsi_fl::simulation::EvaluationRequest;
use fedsi_fl::{Config, Simulation};
use support::{Clouds, clouds, config, evaluations, global_values, models, simulation};

/// A config whose prior variance is given, so that no data is set aside to choose it by.
fn given_prior(method: &str, participants: usize) -> Config {
    let mut config = config(method, participants);
    config.fedsi.prior_variance = FinalPrior::Fixed(1.0);
    config
}

fn trained(config: Config, rounds: usize) -> Simulation {
    let mut simulation = simulation(config, clouds(5));
    for _ in 0..rounds {
        simulation.round().unwrap();
    }
    simulation
}

/// The prior variance of a model's posterior.
fn prior_variance(model: &PersonalModel) -> f64 {
    let Parameters::Laplace(laplace) = model.parameters() else {
        panic!("no posterior: {}", model.parameters().kind())
    };
    laplace.fit.posterior().prior_variance()[0]
}

/// Posteriors are large: they reach the caller only where models are asked for, and their summaries always.
#[test]
fn models_are_handed_over_only_where_they_are_wanted() {
    let simulation = trained(config("fedsi", 5), 1);
    let mut summaries = Vec::new();
    let request = EvaluationRequest { first: 0, models: false, further_inputs: &|_| Vec::new() };
    simulation
        .evaluate(&request, |client| {
            assert!(client.model.is_none(), "kept in memory");
            summaries.push((client.client, client.posterior, client.predictions));
            Ok(())
        })
        .unwrap();
    summaries.sort_by_key(|(client, ..)| *client);
    let with: Vec<_> = evaluations(&simulation)
        .into_iter()
        .map(|client| (client.client, client.posterior, client.predictions))
        .collect();
    assert!(with.iter().all(|(_, posterior, _)| posterior.is_some()));
    assert_eq!(summaries, with);
}

/// Under a prior that says nothing, without noise, FedSI trains FedBABU's body.
#[test]
fn with_a_flat_prior_the_means_are_fedbabus() {
    let mut flat = given_prior("fedsi", 3);
    (flat.fedsi.alpha, flat.training.weight_noise) = (1e30, 0.0);
    // FedBABU weighs by samples where nothing is said.
    flat.federation.weighting = WeightingName::Samples;
    // A posterior variance sent by one participant would be a prior for the next round: one round is enough.
    let (fedsi, fedbabu) = (trained(flat, 1), trained(config("fedbabu", 3), 1));
    assert_eq!(fedsi.server().shared()[0].values(), fedbabu.server().shared()[0].values());
}

#[test]
fn a_narrow_prior_holds_the_body_where_it_was() {
    let moved = |alpha: f64| {
        let mut config = config("fedsi", 5);
        (config.fedsi.alpha, config.training.weight_noise) = (alpha, 0.0);
        let before = simulation(config.clone(), clouds(5)).server().shared()[0].values().to_vec();
        let after = trained(config, 1).server().shared()[0].values().to_vec();
        before.iter().zip(after).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>()
    };
    let (wide, narrow) = (moved(10.0), moved(1e-5));
    assert!(narrow < 0.2 * wide, "moved {narrow} under the narrow prior, {wide} under the wide one");
}

/// One participant: the server's variances are that client's posterior where it chose, alpha elsewhere.
#[test]
fn variances_are_learned_where_a_subnetwork_was_chosen_and_alpha_elsewhere() {
    for spread in [VarianceAverage::Deviation, VarianceAverage::Variance, VarianceAverage::Selected] {
        let mut config = config("fedsi", 1);
        (config.fedsi.subnetwork, config.fedsi.alpha, config.fedsi.variance_average) = (0.25, 0.5, spread);
        config.fedsi.round_tolerance = 0.0;
        let simulation = trained(config, 1);
        let variance = simulation.server().shared()[0].variance().map(<[f32]>::to_vec).unwrap();
        let learned: Vec<f32> = variance.iter().copied().filter(|&v| v != 0.5).collect();
        assert_eq!(variance.len(), 56);
        assert_eq!(learned.len(), 14, "a quarter of 56");
        assert!(learned.iter().all(|&v| v > 0.0 && v < 0.5), "data narrows: {learned:?}");
    }
}

#[test]
fn a_round_tells_what_its_subnetworks_were_like() {
    let mut everything = config("fedsi", 5);
    everything.fedsi.subnetwork = 1.0;
    let record = simulation(everything, clouds(5)).round().unwrap();
    let told = record.subnetwork.unwrap();
    assert_eq!((told.overlap, told.zero_curvature), (1.0, 0.0), "everyone chose everything");
    assert!(told.mean_variance > 0.0 && told.mean_variance < 1.0, "{told:?}");
    assert!(told.rank > 0.0 && record.seconds.posterior > 0.0);

    let mut few = config("fedsi", 5);
    few.fedsi.subnetwork = 0.2;
    let record = simulation(few, clouds(5)).round().unwrap();
    assert!(record.subnetwork.unwrap().overlap < 0.5, "random fifths overlap little");
    let plain = simulation(config("fedbabu", 5), clouds(5)).round().unwrap();
    assert_eq!((plain.subnetwork, plain.seconds.posterior), (None, 0.0));
    assert!(record.bytes.up > plain.bytes.up && record.bytes.down > plain.bytes.down);
}

/// Between the rounds that infer, the server keeps its variances and participants send none.
#[test]
fn variances_are_sent_in_every_so_many_rounds() {
    let mut config = config("fedsi", 5);
    (config.fedsi.posterior_interval, config.fedsi.round_tolerance) = (2, 0.0);
    let mut simulation = simulation(config, clouds(5));
    let mut before = simulation.server().shared()[0].variance().map(<[f32]>::to_vec);
    for round in 1..=4 {
        let record = simulation.round().unwrap();
        let after = simulation.server().shared()[0].variance().map(<[f32]>::to_vec);
        let due = round % 2 == 0;
        assert_eq!((record.subnetwork.is_some(), after != before), (due, due), "round {round}");
        assert_eq!(record.seconds.posterior > 0.0, due, "round {round}");
        before = after;
    }
}

/// A network with dead units: the paper's rule chooses them first, and learns nothing of them.
#[test]
fn the_papers_rule_prefers_what_has_no_curvature() {
    let dead = |rule: &str| {
        let mut config = config("fedsi", 5);
        config.model.body[1] = fedsi_nn::LayerSpec::Relu;
        (config.fedsi.rule, config.fedsi.subnetwork, config.training.weight_noise) = (rule.into(), 0.1, 0.0);
        (config.training.learning_rate, config.training.epochs) = (0.3, 20); // kills units
        simulation(config, clouds(5)).round().unwrap().subnetwork.unwrap().zero_curvature
    };
    let (variance, live) = (dead("variance"), dead("live"));
    assert!(variance > live, "without curvature: {variance} by variance, {live} by live");
}

/// The variance of the outputs makes predictions less sure, never surer; the order of classes stays.
#[test]
fn a_posterior_makes_predictions_less_sure() {
    let confidence = |predictive: Predictive| {
        let mut config = config("fedsi", 5);
        config.fedsi.predictive = predictive;
        let all = evaluations(&trained(config, 3));
        let mut sum = 0.0;
        for client in &all {
            let Predictions::Classes { classes, probabilities, .. } = &client.predictions else {
                panic!("classes")
            };
            for row in probabilities.chunks_exact(*classes) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
                sum += row.iter().copied().fold(0.0, f32::max);
            }
        }
        sum
    };
    let map = confidence(Predictive::Map);
    for predictive in [Predictive::Probit, Predictive::Differences, Predictive::MonteCarlo] {
        assert!(confidence(predictive) < map, "{predictive} is surer than the point model");
    }
}

/// A client that joins later with a known client's number and data gets that client's model.
#[test]
fn a_novel_client_is_personalised_like_everyone() {
    for method in fedsi_fl::methods::METHODS.iter().filter(|method| method.name != "local") {
        let config = given_prior(method.name, 3);
        let simulation = trained(config.clone(), 2);
        let data = LocalData::all(clouds(5).samples(4, Split::Train));
        let novel = simulation.join(9, &data).unwrap();
        let tuned = novel.parameters().values() != global_values(&simulation);
        assert!(tuned, "{}: a novel client tunes something", method.name);
        let procedure = (method.declare)(&config);
        assert_eq!(
            !matches!(novel.parameters(), Parameters::Point(_)),
            procedure.uncertainty != Uncertainty::None,
            "{}",
            method.name
        );
        if procedure.kept == fedsi_fl::Part::Nothing && !procedure.personalise.is_empty() {
            assert_eq!(simulation.join(4, &data).unwrap(), models(&simulation)[4], "{}", method.name);
        }
    }
}

/// Far from the data the outputs spread more than near it.
#[test]
fn the_spread_grows_away_from_the_data() {
    let mut config = config("fedsi", 5);
    config.fedsi.subnetwork = 1.0;
    let simulation = trained(config, 5);
    let model = models(&simulation).remove(0);
    let near = clouds(5).samples(0, Split::Test).inputs;
    let far: Vec<f32> = near.iter().map(|x| -3.0 * x).collect();
    let mean = |inputs: &[f32]| {
        let spread = simulation.client().spread(&model, inputs).unwrap();
        spread.iter().sum::<f64>() / spread.len() as f64
    };
    assert!(mean(&far) > 1.5 * mean(&near), "far {}, near {}", mean(&far), mean(&near));
}

#[test]
fn the_paper_profile_is_the_papers() {
    let registry = fedsi_fl::Registry::builtin();
    let defaults = |method, dataset, profile| {
        registry.profile_defaults(method, dataset, fedsi_data::Size::Small, profile).unwrap()
    };
    let paper = defaults("fedsi", "mnist", Profile::Paper);
    assert_eq!((paper.fedsi.alpha, paper.training.learning_rate, paper.fedsi.subnetwork), (1e-4, 1e-2, 0.05));
    assert_eq!((paper.tuning.learning_rate, paper.rounds), (1e-2, 800), "one learning rate, 800 rounds");
    assert_eq!((paper.fedsi.rule.as_str(), paper.fedsi.predictive), ("variance", Predictive::Probit));
    assert_eq!(
        (paper.fedsi.variance_average, paper.training.weight_noise),
        (VarianceAverage::Deviation, 0.0)
    );
    assert_eq!(paper.fedsi.posterior_interval, 1);
    assert_eq!(paper.fedsi.prior_variance, FinalPrior::Named(NamedPrior::Server));
    assert_eq!(defaults("fedsi", "cifar-10", Profile::Paper).fedsi.subnetwork, 0.07);
    let mut changed = defaults("fedavg", "mnist", Profile::Paper);
    changed.profile = Profile::Calibrated;
    assert_eq!(
        changed,
        defaults("fedavg", "mnist", Profile::Calibrated),
        "other methods have one set of defaults"
    );
}

/// The other reading of the paper's algorithm: a prior variance v pulls as its root does in the usual one.
#[test]
fn a_pull_by_deviations_is_that_of_their_variances() {
    let means = |scale, alpha| {
        let mut config = given_prior("fedsi", 3);
        (config.fedsi.prior_scale, config.fedsi.alpha, config.training.weight_noise) = (scale, alpha, 0.0);
        trained(config, 1).server().shared()[0].values().to_vec()
    };
    // Powers of two: roots are exact.
    let by_deviation = means(PriorScale::Deviation, 0.0625);
    assert_eq!(by_deviation, means(PriorScale::Variance, 0.25));
    assert_ne!(by_deviation, means(PriorScale::Variance, 0.0625));
}

/// For four fifths of the rounds a fifth of the data is set aside; then the prior variance is chosen by it, and the
/// data learned from.
#[test]
fn the_prior_variance_is_chosen_once_on_data_set_aside() {
    let mut auto = config("fedsi", 3);
    auto.rounds = 5;
    let mut simulation = simulation(auto.clone(), clouds(5));
    for round in 1..=5 {
        let record = simulation.round().unwrap();
        assert_eq!(record.calibration.len(), usize::from(round == 4), "round {round}");
        if let Some(calibration) = record.calibration.first() {
            let aside: usize = record.participants.iter().map(|client| (10 + client) / 5).sum();
            assert_eq!(calibration.samples, aside, "a fifth of each participant's data");
            assert_eq!(simulation.server().calibration().prior_variance, Some(calibration.chosen));
            let (first, last) = (calibration.candidates[0], *calibration.candidates.last().unwrap());
            assert!((first..=last).contains(&calibration.chosen), "{calibration:?}");
        }
    }
    let chosen = simulation.server().calibration().prior_variance.unwrap();
    for model in models(&simulation) {
        let prior = prior_variance(&model);
        assert!((prior - chosen).abs() < 1e-12, "client {}: {prior}, chosen {chosen}", model.client);
    }
    auto.fedsi.prior_variance = FinalPrior::Fixed(0.5);
    let mut fixed = support::simulation(auto, clouds(5));
    assert!((0..5).all(|_| fixed.round().unwrap().calibration.is_empty()), "nothing to choose");
    let given = prior_variance(&models(&fixed)[0]);
    assert_eq!(given, 0.5);
}

/// Tuning the whole network keeps the body near the server's mean, by the server's variances.
#[test]
fn the_whole_network_is_tuned_around_the_mean() {
    let moved = |alpha: f64| {
        let mut config = config("fedsi", 5);
        (config.fedsi.tune, config.fedsi.alpha) = (fedsi_fl::config::Tuned::All, alpha);
        let simulation = simulation(config, clouds(5)); // no round: every variance is alpha
        let before = global_values(&simulation);
        let model = models(&simulation).remove(0);
        let body = before.iter().zip(model.parameters().values()).take(56);
        body.map(|(a, b)| f64::from((a - b).abs())).sum::<f64>()
    };
    let (wide, narrow) = (moved(1.0), moved(1e-6));
    assert!(
        wide > 0.0 && narrow < 0.5 * wide,
        "moved {narrow} under the narrow prior, {wide} under the wide one"
    );
}

/// A client whose numbers explode has no posterior: it is named, and the server's Gaussian stays sound.
#[test]
fn a_client_that_diverges_spoils_no_variance() {
    let mut config = config("fedsi", 5);
    config.training.optimizer = fedsi_fl::config::OptimizerName::Sgd;
    config.model.body[1] = fedsi_nn::LayerSpec::Relu;
    let broken = Arc::new(Clouds { clients: 5, samples: 10, broken: Some(2) });
    let mut simulation = simulation(config, broken);
    let record = simulation.round().unwrap();
    assert_eq!(record.left_out.len(), 1);
    assert!(record.left_out[0].reason.contains("not finite"), "{:?}", record.left_out);
    let variance = simulation.server().shared()[0].variance().unwrap();
    assert!(variance.iter().all(|v| v.is_finite() && *v > 0.0));
}
