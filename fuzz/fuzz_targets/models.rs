#![no_main]
//! Personal models and predictions.
use fedsi_nn::{LayerSpec, Network};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let layers = [LayerSpec::Linear(3), LayerSpec::Tanh, LayerSpec::Linear(2)];
    if let Ok(network) = Network::new(&[4], &layers) {
        let _ = fedsi_fl::read_model(&network, bytes);
    }
    let _ = fedsi_fl::read_predictions(bytes);
});
