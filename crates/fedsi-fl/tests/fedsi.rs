//! FedSI round by round: prior, subnetwork, aggregation, personal posteriors, clients that join later.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};

use fedsi_bayes::{Predictive, Rule};
use fedsi_data::{Federation as _, Split};
use fedsi_fl::aggregate::SpreadAverage;
use fedsi_fl::belief::{Belief, PersonalModel};
use fedsi_fl::config::{FinalPrior, NamedPrior, Profile};
use fedsi_fl::methods::Uncertainty;
use fedsi_fl::predict::Predictions;
use fedsi_fl::simulation::Evaluated;
use fedsi_fl::work::LocalData;
use fedsi_fl::{Config, Simulation};
use support::{Clouds, clouds, config, simulation};

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

/// All personal models with their posteriors, and what they predict.
fn models(simulation: &Simulation) -> Vec<(PersonalModel, Predictions)> {
    let models = Mutex::new(Vec::new());
    let save = |client: &Evaluated| {
        models.lock().unwrap().push((client.model.clone(), client.predictions.clone()));
        Ok(())
    };
    simulation
        .evaluate(save, |client| {
            assert_eq!(client.model.belief, Belief::Point, "kept in memory");
            Ok(())
        })
        .unwrap();
    let mut models = models.into_inner().unwrap();
    models.sort_by_key(|(model, _)| model.client);
    models
}

/// Under a prior that says nothing, without noise, FedSI trains FedBABU's body.
#[test]
fn with_a_flat_prior_the_means_are_fedbabus() {
    let mut flat = given_prior("fedsi", 3);
    (flat.fedsi.alpha, flat.fedsi.noise) = (1e30, 0.0);
    // A posterior variance sent by one participant would be a prior for the next round: one round is enough.
    let (fedsi, fedbabu) = (trained(flat, 1), trained(config("fedbabu", 3), 1));
    assert_eq!(fedsi.server().shared().values, fedbabu.server().shared().values);
}

#[test]
fn a_narrow_prior_holds_the_body_where_it_was() {
    let moved = |alpha: f64| {
        let mut config = config("fedsi", 5);
        (config.fedsi.alpha, config.fedsi.noise) = (alpha, 0.0);
        let before = simulation(config.clone(), clouds(5)).server().shared().values.clone();
        let after = trained(config, 1).server().shared().values.clone();
        before.iter().zip(after).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>()
    };
    let (wide, narrow) = (moved(10.0), moved(1e-5));
    assert!(narrow < 0.2 * wide, "moved {narrow} under the narrow prior, {wide} under the wide one");
}

/// One participant: the server's variances are that client's posterior where it chose, alpha elsewhere.
#[test]
fn variances_are_learned_where_a_subnetwork_was_chosen_and_alpha_elsewhere() {
    for spread in [SpreadAverage::Deviation, SpreadAverage::Variance, SpreadAverage::Selected] {
        let mut config = config("fedsi", 1);
        (config.fedsi.subnetwork, config.fedsi.alpha, config.fedsi.spread) = (0.25, 0.5, spread);
        config.fedsi.round_tolerance = 0.0;
        let simulation = trained(config, 1);
        let variance = simulation.server().shared().variance.clone().unwrap();
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
    (config.fedsi.every, config.fedsi.round_tolerance) = (2, 0.0);
    let mut simulation = simulation(config, clouds(5));
    let mut before = simulation.server().shared().variance.clone();
    for round in 1..=4 {
        let record = simulation.round().unwrap();
        let after = simulation.server().shared().variance.clone();
        let due = round % 2 == 0;
        assert_eq!((record.subnetwork.is_some(), after != before), (due, due), "round {round}");
        assert_eq!(record.seconds.posterior > 0.0, due, "round {round}");
        before = after;
    }
}

/// A network with dead units: the paper's rule chooses them first, and learns nothing of them.
#[test]
fn the_papers_rule_prefers_what_has_no_curvature() {
    let dead = |rule: Rule| {
        let mut config = config("fedsi", 5);
        config.model.body[1] = fedsi_nn::LayerSpec::Relu;
        (config.fedsi.rule, config.fedsi.subnetwork, config.fedsi.noise) = (rule, 0.1, 0.0);
        (config.training.rate, config.training.epochs) = (0.3, 20); // kills units
        simulation(config, clouds(5)).round().unwrap().subnetwork.unwrap().zero_curvature
    };
    let (variance, live) = (dead(Rule::Variance), dead(Rule::Live));
    assert!(variance > live, "without curvature: {variance} by variance, {live} by live");
}

/// The variance of the outputs makes predictions less sure, never surer; the order of classes stays.
#[test]
fn a_posterior_makes_predictions_less_sure() {
    let confidence = |predictive: Predictive| {
        let mut config = config("fedsi", 5);
        config.fedsi.predictive = predictive;
        let all = models(&trained(config, 3));
        let mut sum = 0.0;
        for (_, predictions) in &all {
            let Predictions::Classes { classes, probabilities, .. } = predictions else { panic!("classes") };
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
        let novel = simulation.welcome(9, &data).unwrap();
        let tuned = novel.parameters != simulation.global_parameters();
        assert!(tuned, "{}: a novel client tunes something", method.name);
        let procedure = (method.declare)(&config);
        assert_eq!(
            novel.belief != Belief::Point,
            procedure.uncertainty != Uncertainty::None,
            "{}",
            method.name
        );
        if procedure.kept == fedsi_fl::Part::Nothing && !procedure.personalise.is_empty() {
            assert_eq!(simulation.welcome(4, &data).unwrap(), models(&simulation)[4].0, "{}", method.name);
        }
    }
}

/// Far from the data the outputs spread more than near it.
#[test]
fn the_spread_grows_away_from_the_data() {
    let mut config = config("fedsi", 5);
    config.fedsi.subnetwork = 1.0;
    let simulation = trained(config, 5);
    let (model, _) = models(&simulation).remove(0);
    let near = clouds(5).samples(0, Split::Test).inputs;
    let far: Vec<f32> = near.iter().map(|x| -3.0 * x).collect();
    let mean = |inputs: &[f32]| {
        let spread = simulation.predictor().spread(&model, inputs);
        spread.iter().sum::<f64>() / spread.len() as f64
    };
    assert!(mean(&far) > 1.5 * mean(&near), "far {}, near {}", mean(&far), mean(&near));
}

#[test]
fn the_paper_profile_is_the_papers() {
    let paper = Config::defaults("fedsi", fedsi_data::DatasetName::Mnist, fedsi_data::Size::Small)
        .with_profile(Profile::Paper);
    assert_eq!((paper.fedsi.alpha, paper.training.rate, paper.fedsi.subnetwork), (1e-4, 1e-2, 0.05));
    assert_eq!((&paper.fedsi.rule, paper.fedsi.predictive), (&Rule::Variance, Predictive::Probit));
    assert_eq!((paper.fedsi.spread, paper.fedsi.noise), (SpreadAverage::Deviation, 0.0));
    assert_eq!(paper.fedsi.every, 1);
    assert_eq!(paper.fedsi.prior_variance, FinalPrior::Named(NamedPrior::Server));
    let cnn = Config::defaults("fedsi", fedsi_data::DatasetName::Cifar10, fedsi_data::Size::Small);
    assert_eq!(cnn.with_profile(Profile::Paper).fedsi.subnetwork, 0.07);
    let other = Config::defaults("fedavg", fedsi_data::DatasetName::Mnist, fedsi_data::Size::Small);
    let mut changed = other.clone().with_profile(Profile::Paper);
    changed.profile = Profile::Calibrated;
    assert_eq!(changed, other, "other methods have one set of defaults");
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
        assert_eq!(record.calibration.is_some(), round == 4, "round {round}");
        if let Some(calibration) = record.calibration {
            let aside: usize = record.participants.iter().map(|client| (10 + client) / 5).sum();
            assert_eq!(calibration.samples, aside, "a fifth of each participant's data");
            assert_eq!(simulation.chosen_prior_variance(), Some(calibration.chosen));
            let (first, last) =
                (calibration.prior_variances[0], *calibration.prior_variances.last().unwrap());
            assert!((first..=last).contains(&calibration.chosen), "{calibration:?}");
        }
    }
    let chosen = simulation.chosen_prior_variance().unwrap();
    for (model, _) in models(&simulation) {
        let prior = model.belief.laplace().unwrap().posterior.prior_variance()[0];
        assert!((prior - chosen).abs() < 1e-12, "client {}: {prior}, chosen {chosen}", model.client);
    }
    auto.fedsi.prior_variance = FinalPrior::Fixed(0.5);
    let mut fixed = support::simulation(auto, clouds(5));
    assert!((0..5).all(|_| fixed.round().unwrap().calibration.is_none()), "nothing to choose");
    let given = models(&fixed).remove(0).0.belief.laplace().unwrap().posterior.prior_variance()[0];
    assert_eq!(given, 0.5);
}

/// Tuning the whole network keeps the body near the server's mean, by the server's variances.
#[test]
fn the_whole_network_is_tuned_around_the_mean() {
    let moved = |alpha: f64| {
        let mut config = config("fedsi", 5);
        (config.fedsi.tune, config.fedsi.alpha) = (fedsi_fl::config::Tuned::All, alpha);
        let simulation = simulation(config, clouds(5)); // no round: every variance is alpha
        let before = simulation.global_parameters();
        let (model, _) = models(&simulation).remove(0);
        let body = before.iter().zip(&model.parameters).take(56);
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
    let variance = simulation.server().shared().variance.as_ref().unwrap();
    assert!(variance.iter().all(|v| v.is_finite() && *v > 0.0));
}
