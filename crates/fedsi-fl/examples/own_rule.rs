//! A selection rule of one's own: which parameters of a client's network have a distribution.
//!
//! FedSI gives a small share of the body a full-covariance posterior; the rule says which. This one takes those that
//! would cost most to remove: setting parameter r to 0 raises the loss by about `theta_r^2 h_r / 2`, where `h` is the
//! diagonal of the generalised Gauss-Newton matrix ("Optimal Brain Damage", 1989). It runs beside two
//! built-in rules on the digits: `random`, the default, and `variance`, the paper's. The last columns say what the rule took:
//! the rank of what the data adds to the prior, and the share of parameters that the data says nothing about.
//!
//! `cargo run --release -p fedsi-fl --example own_rule`

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;

use fedsi_bayes::{Candidates, SelectionError, SelectionRule, Subnetwork};
use fedsi_fl::client::{LaplaceSummary, PosteriorSummary};
use fedsi_fl::config::Overrides;
use fedsi_fl::{Registry, Simulation};

/// The parameters that would cost most to remove.
#[derive(Debug)]
struct RemovalCost;

impl SelectionRule for RemovalCost {
    fn name(&self) -> &str {
        "removal-cost"
    }

    fn summary(&self) -> &str {
        "The largest increase of the loss if the parameter were 0: squared value times curvature."
    }

    fn select(
        &self,
        candidates: &Candidates<'_>,
        size: usize,
        _: &mut dyn rand::Rng,
    ) -> Result<Subnetwork, SelectionError> {
        let curvature = &candidates.curvature().ggn;
        let costs = candidates.values().iter().zip(curvature).map(|(value, h)| 0.5 * value * value * h);
        candidates.largest(costs, size)
    }
}

/// The prior variance is the same for all, so that only the rule makes a difference.
const SETTINGS: &str = "
rounds = 12
partition.clients = 6
fedsi.prior_variance = 0.5";

fn main() -> Result<(), Box<dyn Error>> {
    let registry = Registry::builtin().with_rule(Arc::new(RemovalCost))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "rule            accuracy       ECE    MCE 1%     Brier       NLL   rank  no curvature")?;
    for rule in ["random", "variance", "removal-cost"] {
        let settings = format!("{SETTINGS}\nfedsi.rule = '{rule}'");
        let config = registry.resolve(&[Overrides::from_text("own_rule.rs", &settings)?])?;
        let config = registry.check(config)?;
        let evaluation = Simulation::new(&config, Arc::from(config.open_data()?))?.run()?;
        let figures: String = evaluation.scores()?.figures().iter().map(|f| format!("{f:>10}")).collect();
        let posteriors: Vec<_> = evaluation.clients.iter().filter_map(|client| client.posterior).collect();
        let laplace = PosteriorSummary::of(&posteriors).and_then(|posterior| posterior.laplace);
        let LaplaceSummary { rank, zero_curvature, .. } = laplace.ok_or("no client has a posterior")?;
        writeln!(out, "{rule:<14}{figures}{rank:>7.1}{:>13.1}%", 100.0 * zero_curvature)?;
    }
    Ok(())
}
