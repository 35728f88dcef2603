//! What a method's messages weigh, known before anything runs.

use std::sync::Arc;

use fedsi_bayes::Rules;
use fedsi_nn::Layout;

use super::{Laplace, Procedure, StructureError, Uncertainty, WarmStart};
use crate::parameters::{Gaussian, Part, SharedParameters};
use crate::wire::{Download, Traffic, Upload, Variances};

impl Procedure {
    /// The bytes that one participant sends and receives in a round, the mean over rounds: of a network with this layout.
    /// Nothing where nothing is shared. After a warm start a client's first download is larger, which is not counted.
    ///
    /// # Errors
    /// A subnetwork that cannot be selected.
    pub fn traffic(&self, layout: &Layout, rules: &Rules) -> Result<Traffic, StructureError> {
        if self.shared == Part::Nothing {
            return Ok(Traffic::default());
        }
        if let Some(WarmStart { rounds, of }) = self.warm_start {
            let stage = |shared| Self { shared, warm_start: None, ..self.clone() }.traffic(layout, rules);
            let (first, then) = (stage(Part::All)?, stage(self.shared)?);
            let mean = |first: u64, then: u64| (first * rounds + then * (of - rounds)) / of;
            return Ok(Traffic { up: mean(first.up, then.up), down: mean(first.down, then.down) });
        }
        let size = self.shared.range(layout).len();
        let values = vec![0.0; size];
        let plain = Upload {
            round: 1,
            client: 0,
            samples: 1,
            loss: Some(0.5),
            shared: values.clone(),
            variances: None,
        };
        let with = |selected: Option<Vec<u32>>| {
            let count = selected.as_ref().map_or(size, Vec::len);
            let variances = Some(Variances { selected, values: vec![1.0; count] });
            Upload { variances, ..plain.clone() }.encoded_len() as u64
        };
        let alone = plain.encoded_len() as u64;
        let (shared, up) = match &self.uncertainty {
            Uncertainty::None | Uncertainty::Samples(_) => (SharedParameters::Point(values), alone),
            Uncertainty::MeanField(_) => {
                (SharedParameters::Gaussian(Gaussian::uniform(values, 1.0)), with(None))
            }
            Uncertainty::Laplace(laplace) => {
                let extra = with(selection(laplace, self.shared, layout, rules)?) - alone;
                (
                    SharedParameters::Gaussian(Gaussian::uniform(values, 1.0)),
                    alone + extra / laplace.posterior_interval,
                )
            }
        };
        Ok(Traffic { up, down: Download::new(1, Arc::new(shared)).encoded_len() as u64 })
    }
}

/// As many indices as a participant would send; none where it sends variances of all.
fn selection(
    laplace: &Laplace,
    part: Part,
    layout: &Layout,
    rules: &Rules,
) -> Result<Option<Vec<u32>>, StructureError> {
    let range = part.range(layout);
    let size = laplace.structure.check(layout, range.clone(), rules)?;
    Ok((size < range.len()).then(|| vec![0; size]))
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::methods::find;
    use crate::wire::Traffic;
    use fedsi_bayes::Rules;
    use fedsi_data::Size;
    use fedsi_nn::Network;

    /// Values are 4 bytes, and a Gaussian has two; a twentieth of them with an index beside it, every tenth round.
    #[test]
    fn bytes_follow_what_is_shared() {
        let config = Config::defaults("fedsi", "mnist", Size::Small).unwrap();
        let mut layers = config.model.body.clone();
        layers.push(fedsi_nn::LayerSpec::Linear(10));
        let network = Network::new(&[1, 28, 28], &layers).unwrap();
        let of = |name| {
            (find(name).unwrap().declare)(&config).traffic(network.layout(), &Rules::builtin()).unwrap()
        };
        let near = |bytes: u64, values: f64| (bytes as f64 / 4.0 - values).abs() < 120.0;
        let (body, all) = (78_500.0, 79_510.0);
        for (name, up, down) in [
            ("fedavg", all, all),
            ("fedper", body, body),
            ("lg-fedavg", 0.75 * all + 0.25 * 1010.0, 0.75 * all + 0.25 * 1010.0),
            ("fedsi", body + 2.0 * 3925.0 / 10.0, 2.0 * body),
            ("fedsi-fac", 1.1 * body, 2.0 * body),
            ("pfedbayes", 2.0 * all, 2.0 * all),
            ("bpfed", 2.0 * body, 2.0 * body),
            ("fedpop", body, body),
        ] {
            let found = of(name);
            assert!(
                near(found.up, up) && near(found.down, down),
                "{name}: {found:?}, expected {up}, {down} values"
            );
        }
        assert_eq!(of("local"), Traffic::default());
    }
}
