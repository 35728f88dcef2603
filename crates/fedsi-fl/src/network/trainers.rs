//! Trainers and scratch memory, kept from one client to the next. None of it shows in a result.

use fedsi_nn::{Langevin, LayerSet, Loss, Network, NetworkError, OptimizerSpec, Trainer, VariationalTrainer};

use crate::parameters::Part;

/// What a trainer is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TrainerKey {
    pub(super) part: Part,
    pub(super) optimizer: OptimizerSpec,
    pub(super) loss: Loss,
}

/// One thread's trainers, made when first needed.
#[derive(Debug, Default)]
pub(super) struct TrainerCache {
    point: Vec<(TrainerKey, Trainer<f32>)>,
    gaussian: Vec<(TrainerKey, VariationalTrainer<f32>)>,
    heads: Vec<((usize, TrainerKey), HeadsTrainer)>,
    chain: Option<(Loss, Langevin<f32>)>,
}

/// A body under several heads, and its trainer.
#[derive(Debug)]
pub(super) struct HeadsTrainer {
    pub(super) network: Network,
    pub(super) trainer: Trainer<f32>,
}

impl TrainerCache {
    /// A trainer with fresh optimiser state and room for the batch.
    pub(super) fn point(
        &mut self,
        key: TrainerKey,
        network: &Network,
        layers: LayerSet,
        batch: usize,
    ) -> &mut Trainer<f32> {
        let trainer = reuse(
            &mut self.point,
            key,
            |trainer| trainer.capacity() >= batch,
            || Trainer::new(network, layers, key.loss, key.optimizer, batch),
        );
        trainer.reset();
        trainer
    }

    /// A trainer of Gaussians; it still has to begin.
    pub(super) fn gaussian(
        &mut self,
        key: TrainerKey,
        network: &Network,
        batch: usize,
    ) -> &mut VariationalTrainer<f32> {
        reuse(
            &mut self.gaussian,
            key,
            |trainer| trainer.capacity() >= batch,
            || VariationalTrainer::new(network, key.part.layers(network), key.loss, key.optimizer, batch),
        )
    }

    /// The body under `heads` heads, and a trainer of it with fresh optimiser state.
    ///
    /// # Errors
    /// More outputs than a network may have.
    pub(super) fn under_heads(
        &mut self,
        key: TrainerKey,
        network: &Network,
        heads: usize,
        batch: usize,
    ) -> Result<&mut HeadsTrainer, NetworkError> {
        let network = network.under_heads(heads)?;
        let found = reuse(
            &mut self.heads,
            (heads, key),
            |found| found.trainer.capacity() >= batch,
            || {
                let layers = network.body_layers();
                let trainer =
                    Trainer::new(&network, layers, key.loss, key.optimizer, batch).with_heads(heads);
                HeadsTrainer { network, trainer }
            },
        );
        found.trainer.reset();
        Ok(found)
    }

    /// A Langevin chain of the head.
    pub(super) fn chain(&mut self, head: &Network, loss: Loss, batch: usize) -> &mut Langevin<f32> {
        if self.chain.as_ref().is_none_or(|(known, _)| *known != loss) {
            self.chain = None;
        }
        &mut self.chain.get_or_insert_with(|| (loss, Langevin::new(head, loss, batch))).1
    }
}

/// What there is for this key where it still fits, else a new one in its place.
fn reuse<K: PartialEq, V>(
    kept: &mut Vec<(K, V)>,
    key: K,
    fits: impl Fn(&V) -> bool,
    make: impl FnOnce() -> V,
) -> &mut V {
    let index = match kept.iter().position(|(known, _)| *known == key) {
        Some(index) if fits(&kept[index].1) => index,
        Some(index) => {
            kept[index].1 = make();
            index
        }
        None => {
            kept.push((key, make()));
            kept.len() - 1
        }
    };
    &mut kept[index].1
}
