//! Does a model trained on MNIST know that Fashion-MNIST is something else?
//!
//! `out_of_distribution DATA_DIR [ROUNDS] [SEED]` trains FedSI and FedBABU on MNIST (small) and shows every client
//! its MNIST test images and as many of Fashion-MNIST. Printed: mean entropy of the predictions on both, and the
//! area under the ROC curve with which the entropy, or the spread of the outputs over the posterior, tells the
//! strange images from the familiar ones (0.5: not at all, 1: always).
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::sync::Arc;

use fedsi_data::{DataSpec, Datasets, Size, Split};
use fedsi_fl::parameters::Parameters;
use fedsi_fl::{Config, Simulation};
use fedsi_metrics::auroc;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("say where the datasets are")?);
    let rounds: usize = arguments.next().map_or(Ok(150), |text| text.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let open = |dataset| {
        let data = DataSpec { dir: directory.clone(), ..DataSpec::defaults(dataset, Size::Small) };
        let datasets = Datasets::builtin();
        datasets.open(&data, &datasets.find(dataset)?.defaults(Size::Small).partition, seed)
    };
    let familiar: Arc<dyn fedsi_data::Federation> = Arc::from(open("mnist")?);
    let strange = open("fashion-mnist")?;
    for method in ["fedsi", "fedbabu"] {
        let mut config = Config::defaults(method, "mnist", Size::Small)?;
        (config.rounds, config.seed) = (rounds, seed);
        let mut simulation = Simulation::new(&config.check()?, Arc::clone(&familiar))?;
        let models: Vec<_> =
            simulation.run()?.clients.into_iter().filter_map(|client| client.model).collect();
        let client = simulation.client();
        let (mut entropies, mut spreads) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for model in &models {
            let known = familiar.samples(model.client, Split::Test).inputs;
            let unknown = strange.samples(model.client, Split::Test).inputs;
            for (which, inputs) in [known, unknown].iter().enumerate() {
                let classes = client.network().output_size();
                let rows = client.probabilities(model, inputs)?;
                entropies[which].extend(rows.chunks_exact(classes).map(entropy));
                spreads[which].extend(client.spread(model, inputs)?);
            }
        }
        let told = |scores: &[Vec<f64>; 2]| -> Result<String, Failure> {
            let area = auroc(&scores[0], &scores[1])?;
            Ok(area.map_or_else(|| "-".to_owned(), |area| format!("{area:.4}")))
        };
        let has_posterior = models.iter().any(|model| !matches!(model.parameters(), Parameters::Point(_)));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        println!(
            "{method}: mean entropy {:.3} on MNIST, {:.3} on Fashion-MNIST; AUROC of entropy {}, of spread {}",
            mean(&entropies[0]),
            mean(&entropies[1]),
            told(&entropies)?,
            if has_posterior { told(&spreads)? } else { "-".to_owned() }
        );
    }
    Ok(())
}

fn entropy(row: &[f64]) -> f64 {
    -row.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}
