//! Noise with labels: training takes the same time on it as on pictures.

use fedsi_data::{Federation, Samples, Scaling, Split, Targets, Task};
use fedsi_random::{Purpose, Streams};
use rand::RngExt as _;

/// Classes in all, and of one client.
const CLASSES: u32 = 10;
const OWN_CLASSES: u32 = 5;

/// Clients that all have the same number of random samples of five classes each.
pub(crate) struct RandomFederation {
    clients: usize,
    samples: usize,
    shape: Vec<usize>,
}

impl RandomFederation {
    pub(crate) const fn new(clients: usize, samples: usize, shape: Vec<usize>) -> Self {
        Self { clients, samples, shape }
    }
}

impl Federation for RandomFederation {
    fn clients(&self) -> usize {
        self.clients
    }

    fn client_name(&self, _client: usize) -> Option<&str> {
        None
    }

    fn input_shape(&self) -> &[usize] {
        &self.shape
    }

    fn task(&self) -> Task {
        Task::Classification { classes: CLASSES as usize }
    }

    fn class_names(&self) -> Option<&[String]> {
        None
    }

    fn count(&self, _client: usize, _split: Split) -> usize {
        self.samples
    }

    fn samples(&self, client: usize, _split: Split) -> Samples {
        let mut rng = Streams::new(1).stream(Purpose::Digits, client as u64, 0);
        let features: usize = self.shape.iter().product();
        let inputs = (0..self.samples * features).map(|_| 2.0 * rng.random::<f32>() - 1.0).collect();
        let first = OWN_CLASSES * client as u32;
        let labels = (0..self.samples as u32).map(|row| (first + row % OWN_CLASSES) % CLASSES).collect();
        Samples { count: self.samples, inputs, targets: Targets::Classes(labels) }
    }

    fn label_counts(&self, _client: usize, _split: Split) -> Vec<usize> {
        vec![self.samples / OWN_CLASSES as usize; CLASSES as usize]
    }

    fn target_scaling(&self) -> Option<&Scaling> {
        None
    }
}
