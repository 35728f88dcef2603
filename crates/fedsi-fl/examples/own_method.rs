//! A method of one's own: FedRep's training with FedSI's posterior, beside both, on the built-in digits.
//!
//! A method is a declaration: what is shared, what a client keeps, which phases of training a round has, what is known of
//! parameters beyond their values. Client, server, messages, prior search and prediction follow from it.
//!
//! `cargo run --release -p fedsi-fl --example own_method`

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use fedsi_fl::config::{Overrides, Setting};
use fedsi_fl::methods::{Laplace, Method, Objective, Participation, Phase, Prior, Procedure, Uncertainty};
use fedsi_fl::scores::Scores;
use fedsi_fl::{Part, Registry, Simulation};

/// `method_settings.head_share`: the share of a round's epochs that train the head.
const HEAD_SHARE: Setting<f64> =
    Setting::new("head_share", 0.2).checked(|share| (0.0..1.0).contains(share), "0 up to, not including, 1");

/// The server holds a Gaussian over the body; heads are personal. In a round a client first fits its head to the body
/// it received, then the body to that head under the server's Gaussian as prior, and infers a Laplace posterior over a
/// subnetwork of the body. At the end it tunes its head and predicts with a posterior around its own model.
const FEDREP_LAPLACE: Method = Method {
    name: "fedrep-laplace",
    title: "FedRep-Laplace",
    idea: "FedRep's alternating training with FedSI's posterior over the body",
    evaluated: "the newest global body with the client's kept head, tuned, averaged over the body's posterior",
    declare: |config| {
        let epochs = config.training.epochs;
        let head = (config.method_settings.get(&HEAD_SHARE) * epochs as f64).round() as usize;
        let weight_noise = config.training.weight_noise;
        Procedure {
            shared: Part::Body,
            kept: Part::Head,
            participation: Participation::Sampled,
            local: vec![
                Phase::train(Part::Head, head, config),
                Phase::train(Part::Body, epochs - head, config).with_objective(Objective::Point {
                    prior: Prior::Server(config.fedsi.prior_scale),
                    weight_noise,
                }),
            ],
            personalise: vec![Phase::tune(Part::Head, config)],
            uncertainty: Uncertainty::Laplace(Laplace::of(config)),
            ..Procedure::default()
        }
    },
    defaults: |config, dataset| config.training.weight_noise = dataset.weight_noise,
    settings: &[&HEAD_SHARE],
    ..Method::EMPTY
};

fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builtin().with_method(FEDREP_LAPLACE);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<24}  accuracy       ECE    MCE 1%     Brier       NLL", "method")?;
    for (title, settings) in [
        ("fedsi", "method = 'fedsi'"),
        ("fedrep", "method = 'fedrep'"),
        ("fedrep-laplace", "method = 'fedrep-laplace'"),
        ("fedrep-laplace, head 0.5", "method = 'fedrep-laplace'\nmethod_settings.head_share = 0.5"),
    ] {
        let scores = run(&registry, settings)?;
        let figures: String = scores.figures().iter().map(|figure| format!("{figure:>10}")).collect();
        writeln!(out, "{title:<24}{figures}")?;
    }
    Ok(())
}

/// Twelve rounds on six clients with five of the ten classes each.
fn run(registry: &Registry, settings: &str) -> Result<Scores, Box<dyn Error>> {
    let settings =
        Overrides::from_text("own_method.rs", &format!("rounds = 12\npartition.clients = 6\n{settings}"))?;
    let config = registry.check(registry.resolve(&[settings])?)?;
    let mut simulation = Simulation::new(&config, Arc::from(config.open_data()?))?;
    Ok(simulation.run()?.scores()?)
}
