//! Forward pass, loss, gradient and optimiser steps against values from PyTorch. `golden/make_training_step.py`
//! made them; run it again with `python make_training_step.py` in an environment that has torch.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use fedsi_nn::{LayerSpec, Loss, Network, OptimizerSpec, Scalar, Tape, Targets, Trainer};
use serde_json::Value;
use support::relative_error;

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn optimizer(spec: &Value) -> OptimizerSpec {
    let rate = spec["lr"].as_f64().unwrap();
    match spec["kind"].as_str().unwrap() {
        "adam" => OptimizerSpec::adam(rate),
        "sgd" => OptimizerSpec::Sgd { rate, momentum: spec["momentum"].as_f64().unwrap_or(0.0) },
        other => panic!("unknown optimiser {other} in the golden file"),
    }
}

fn check<T: Scalar>(tolerance: f64) {
    let text = include_str!("golden/training_step.json");
    let golden: Value = serde_json::from_str(text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let name = &case["name"];
        let layers: Vec<LayerSpec> = serde_json::from_value(case["layers"].clone()).unwrap();
        let input: Vec<usize> = serde_json::from_value(case["input"].clone()).unwrap();
        let network = Network::new(&input, &layers).unwrap();
        let of = |values: Vec<f64>| values.into_iter().map(T::of).collect::<Vec<T>>();
        let (start, inputs) = (of(floats(&case["parameters"])), of(floats(&case["inputs"])));
        let classes: Vec<u32>;
        let values: Vec<T>;
        let (loss, targets) = if case["task"] == "classification" {
            classes = serde_json::from_value(case["targets"].clone()).unwrap();
            (Loss::CrossEntropy, Targets::Classes(&classes))
        } else {
            values = of(floats(&case["targets"]));
            (Loss::Gaussian { noise: 1.0 }, Targets::Values(&values))
        };
        let batch = inputs.len() / network.inputs();
        let rows: Vec<u32> = (0..batch as u32).collect();
        let close = |found: &[T], expected: &Value, what: &str| {
            let found: Vec<f64> = found.iter().map(|&x| x.double()).collect();
            let error = relative_error(&found, &floats(expected));
            assert!(error < tolerance, "{name}: {what} is off by {error:e}");
        };

        let mut tape = Tape::new(&network, batch);
        tape.inputs_mut(&network, batch).copy_from_slice(&inputs);
        close(tape.forward(&network, &start), &case["logits"], "the output");

        for trained in case["trained"].as_array().unwrap() {
            let spec = optimizer(&trained["optimiser"]);
            let mut parameters = start.clone();
            let mut trainer = Trainer::new(&network, network.all_layers(), loss, spec, batch);
            for step in 0..trained["steps"].as_u64().unwrap() {
                let found = trainer.step(&network, &mut parameters, &inputs, targets, &rows);
                if step == 0 {
                    let expected = case["loss"].as_f64().unwrap();
                    assert!((found - expected).abs() < tolerance * expected, "{name}: loss {found}");
                    close(trainer.gradient(), &case["gradient"], "the gradient");
                }
            }
            close(&parameters, &trained["parameters"], &format!("{spec:?} after {} steps", trained["steps"]));
        }
    }
}

#[test]
fn double_precision_agrees() {
    check::<f64>(1e-12);
}

#[test]
fn single_precision_agrees() {
    check::<f32>(3e-5);
}
