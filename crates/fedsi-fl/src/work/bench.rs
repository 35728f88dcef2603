//! Memory for local work, kept from one client to the next.

use fedsi_nn::{Langevin, Network, NetworkError, Trainer, VariationalTrainer};

use super::Trade;
use crate::methods::Phase;
use crate::part::Part;

/// Trainers and scratch memory, made when first needed. None of it shows in a result.
#[derive(Debug, Default)]
pub struct Workbench {
    points: Vec<(Part, f64, Trainer<f32>)>,
    variational: Vec<(Part, f64, VariationalTrainer<f32>)>,
    ensembles: Vec<(usize, f64, Ensemble)>,
    chain: Option<Langevin<f32>>,
    pub(super) order: Vec<u32>,
    /// How long the last work took.
    pub busy: Busy,
}

/// How long a client's work took, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// The phases.
    pub train: f64,
    /// The posterior.
    pub posterior: f64,
}

/// A body under several heads.
#[derive(Debug)]
pub(super) struct Ensemble {
    pub(super) network: Network,
    pub(super) trainer: Trainer<f32>,
}

impl Workbench {
    /// A trainer for this phase with fresh optimiser state and room for the batch, and room for the order of
    /// samples. `network` is the head alone where the phase trains no more.
    pub(super) fn point(
        &mut self,
        trade: &Trade,
        network: &Network,
        phase: Phase,
        batch: usize,
    ) -> (&mut Trainer<f32>, &mut Vec<u32>) {
        let trainer = reuse(
            &mut self.points,
            (phase.part, phase.rate),
            |trainer| trainer.capacity() >= batch,
            || {
                let alone = phase.part == Part::Head;
                let layers = if alone { network.all_layers() } else { phase.part.layers(network) };
                Trainer::new(network, layers, trade.loss, trade.training.optimizer(phase.rate), batch)
            },
        );
        trainer.reset();
        (trainer, &mut self.order)
    }

    /// A trainer of distributions for this phase; it still has to begin.
    pub(super) fn variational(
        &mut self,
        trade: &Trade,
        phase: Phase,
        batch: usize,
    ) -> (&mut VariationalTrainer<f32>, &mut Vec<u32>) {
        let trainer = reuse(
            &mut self.variational,
            (phase.part, phase.rate),
            |trainer| trainer.capacity() >= batch,
            || {
                let (layers, optimizer) =
                    (phase.part.layers(&trade.network), trade.training.optimizer(phase.rate));
                VariationalTrainer::new(&trade.network, layers, trade.loss, optimizer, batch)
            },
        );
        (trainer, &mut self.order)
    }

    /// The body under `heads` heads, and a trainer of it with fresh optimiser state.
    ///
    /// # Errors
    /// More outputs than a network may have.
    pub(super) fn ensemble(
        &mut self,
        trade: &Trade,
        heads: usize,
        rate: f64,
        batch: usize,
    ) -> Result<(&mut Ensemble, &mut Vec<u32>), NetworkError> {
        let network = trade.network.under_heads(heads)?;
        let ensemble = reuse(
            &mut self.ensembles,
            (heads, rate),
            |ensemble| ensemble.trainer.capacity() >= batch,
            || {
                let (layers, optimizer) = (network.body_layers(), trade.training.optimizer(rate));
                let trainer = Trainer::new(&network, layers, trade.loss, optimizer, batch).with_heads(heads);
                Ensemble { network, trainer }
            },
        );
        ensemble.trainer.reset();
        Ok((ensemble, &mut self.order))
    }

    /// A chain of the head.
    pub(super) fn chain(&mut self, trade: &Trade) -> &mut Langevin<f32> {
        self.chain.get_or_insert_with(|| Langevin::new(&trade.head, trade.loss, super::FORWARD_BATCH))
    }
}

/// What there is for this key where it still fits, else a new one in its place.
fn reuse<A: PartialEq + Copy, B: PartialEq + Copy, V>(
    kept: &mut Vec<(A, B, V)>,
    (first, second): (A, B),
    fits: impl Fn(&V) -> bool,
    make: impl FnOnce() -> V,
) -> &mut V {
    let known = kept.iter().position(|(a, b, _)| *a == first && *b == second);
    let index = match known {
        Some(index) if fits(&kept[index].2) => index,
        Some(index) => {
            kept[index].2 = make();
            index
        }
        None => {
            kept.push((first, second, make()));
            kept.len() - 1
        }
    };
    &mut kept[index].2
}
