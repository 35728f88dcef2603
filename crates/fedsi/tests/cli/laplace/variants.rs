//! What `fedsi laplace` can do besides a subnetwork of the body: the head, the last layers, a prior variance that is
//! chosen, scores and a page, layers that do nothing.

use std::collections::BTreeMap;
use std::fs;

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::case;
use crate::bad_input::refuses;
use crate::support::{Scratch, arrays};

/// Arrays by name: type, shape and numbers.
type Arrays = BTreeMap<String, (Dtype, Vec<usize>, Vec<f64>)>;

/// A case that can be changed: `case-mlp`, five inputs, layers of 6, 4 and 1.
struct Changed {
    description: Value,
    model: Arrays,
    data: Arrays,
}

impl Changed {
    fn mlp() -> Self {
        let read = |name: &str| fs::read(case("case-mlp").join(name)).unwrap();
        Self {
            description: serde_json::from_slice(&read("case.json")).unwrap(),
            model: arrays(&read("model.safetensors")),
            data: arrays(&read("data.safetensors")),
        }
    }

    fn set(arrays: &mut Arrays, name: &str, shape: &[usize], values: &[f64]) {
        arrays.insert(name.to_owned(), (Dtype::F64, shape.to_vec(), values.to_vec()));
    }

    fn write(&self, scratch: &Scratch, folder: &str) {
        scratch.write(&format!("{folder}/case.json"), self.description.to_string());
        for (name, arrays) in [("model", &self.model), ("data", &self.data)] {
            let bytes = arrays.iter().map(|(name, (kind, shape, values))| {
                let bytes: Vec<u8> = match kind {
                    Dtype::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                    Dtype::I64 => values.iter().flat_map(|value| (*value as i64).to_le_bytes()).collect(),
                    other => panic!("{other:?}"),
                };
                (name, kind, shape, bytes)
            });
            let bytes: Vec<_> = bytes.collect();
            let views = bytes.iter().map(|(name, kind, shape, bytes)| {
                (name.as_str(), TensorView::new(**kind, (*shape).clone(), bytes).unwrap())
            });
            let text = safetensors::serialize(views, None).unwrap();
            scratch.write(&format!("{folder}/{name}.safetensors"), text);
        }
    }
}

/// Runs it and reads what it wrote and said.
fn run(scratch: &Scratch, folder: &str, more: &[&str]) -> (Arrays, Value) {
    let typed = [&["laplace", "--case", folder, "--out", "out", "--json", "--exact"], more].concat();
    let said = scratch.succeeds(&typed).json();
    (arrays(&scratch.bytes("out")), said)
}

/// The largest difference of two arrays.
fn gap(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).fold(0.0, |most, (a, b)| f64::max(most, (a - b).abs()))
}

/// The inverse of a small matrix, by Gauss and Jordan.
fn inverse(matrix: &[f64], size: usize) -> Vec<f64> {
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|row| {
            let unit = (0..size).map(|column| if column == row { 1.0 } else { 0.0 });
            matrix[row * size..(row + 1) * size].iter().copied().chain(unit).collect()
        })
        .collect();
    for pivot in 0..size {
        let best =
            (pivot..size).max_by(|&a, &b| rows[a][pivot].abs().total_cmp(&rows[b][pivot].abs())).unwrap();
        rows.swap(pivot, best);
        let scale = rows[pivot][pivot];
        rows[pivot].iter_mut().for_each(|value| *value /= scale);
        for row in (0..size).filter(|&row| row != pivot) {
            let (factor, own) = (rows[row][pivot], rows[pivot].clone());
            rows[row].iter_mut().zip(own).for_each(|(value, own)| *value -= factor * own);
        }
    }
    rows.iter().flat_map(|row| row[size..].to_vec()).collect()
}

#[test]
fn the_head_and_the_last_layers_have_a_posterior_too() {
    let scratch = Scratch::new();
    let mut mlp = Changed::mlp();
    Changed::set(&mut mlp.data, "prior_variance", &[1], &[0.7]);
    mlp.write(&scratch, "mlp");
    let (head, said) = run(&scratch, "mlp", &["--subnetwork", "head"]);
    // 64 parameters in the body, 4 weights and a bias in the head.
    assert_eq!(head["subnetwork"].2, [64.0, 65.0, 66.0, 67.0, 68.0]);
    assert_eq!((said["rule"].as_str().unwrap(), head["diag_ggn"].1.as_slice()), ("head", &[5][..]));
    let mut precision = head["ggn"].2.clone();
    (0..5).for_each(|place| precision[place * 6] += 1.0 / 0.7);
    assert!(gap(&inverse(&precision, 5), &head["covariance"].2) < 1e-12);
    // The last of the GGN is the bias': a one for each of 12 samples, over the noise's variance.
    assert!((head["ggn"].2[24] - 12.0 / 0.16).abs() < 1e-9, "{:?}", head["ggn"].2);
    for same in [&["--last-layers", "1"][..], &["--rule", "layers:4"]] {
        let (other, _) = run(&scratch, "mlp", same);
        for name in ["subnetwork", "ggn", "covariance", "functional_variance", "predictive_variance"] {
            assert_eq!(other[name], head[name], "{same:?}: {name}");
        }
    }
    let size = |more: &[&str]| run(&scratch, "mlp", more).0["subnetwork"].2.len();
    assert_eq!(size(&["--last-layers", "2"]), 5 + 28);
    assert_eq!(size(&["--last-layers", "3"]), 69);
    assert_eq!(size(&["--subnetwork", "all"]), 69);
    assert_eq!(size(&["--rule", "layers:2,4.bias"]), 28 + 1);
    // With a variance for each of the body's the head has none, with one for each of all it has.
    let mut body = Changed::mlp();
    body.write(&scratch, "body");
    Changed::set(&mut body.data, "prior_variance", &[69], &[0.7; 69]);
    body.write(&scratch, "each");
    assert_eq!(run(&scratch, "each", &["--subnetwork", "head"]).0["covariance"], head["covariance"]);
    refuses(
        &scratch,
        &["laplace", "--out", "other", "--case"],
        &[
            (&["body", "--subnetwork", "head"], &["`prior_variance`", "64 body parameters", "all 69"]),
            (&["mlp", "--subnetwork", "head", "--rule", "random"], &["--rule random", "leave --rule out"]),
            (&["mlp", "--last-layers", "0"], &["--last-layers 0", "1 to 3"]),
            (&["mlp", "--last-layers", "4"], &["--last-layers 4", "1 to 3"]),
            (&["mlp", "--rule", "layers:5"], &["5", "4.weight"]),
            (&["mlp", "--subnetwork", "heads"], &["--subnetwork heads", "head or all"]),
        ],
    );
}

#[test]
fn the_prior_variance_can_be_chosen() {
    let scratch = Scratch::new();
    let mut mlp = Changed::mlp();
    mlp.data.remove("prior_variance");
    mlp.write(&scratch, "mlp");
    let at = |text: &str| run(&scratch, "mlp", &["--subnetwork", "all", "--prior-variance", text]);
    let (_, chosen) = at("marginal-likelihood");
    let variance = chosen["prior_variance"]["variance"].as_f64().unwrap();
    assert_eq!(chosen["prior_variance"]["chosen_by"], "marginal-likelihood");
    let evidence = |variance: f64| at(&variance.to_string()).1["log_marginal_likelihood"].as_f64().unwrap();
    let best = chosen["log_marginal_likelihood"].as_f64().unwrap();
    assert!((evidence(variance) - best).abs() < 1e-9 * best.abs());
    for factor in [0.01, 0.8, 1.25, 100.0] {
        assert!(evidence(factor * variance) < best, "{factor} times {variance} is better");
    }
    // A number is what one value in the data is.
    let (number, _) = at("0.7");
    Changed::set(&mut mlp.data, "prior_variance", &[1], &[0.7]);
    mlp.write(&scratch, "given");
    assert_eq!(run(&scratch, "given", &["--subnetwork", "all"]).0, number);

    let (_, held) = at("held-out");
    assert_eq!(held["prior_variance"]["held_out"]["rows"], 2, "a fifth of 12");
    assert_eq!(held["prior_variance"]["held_out"]["unseen"], false);
    let says = |folder: &str| {
        let typed = [
            "laplace",
            "--case",
            folder,
            "--out",
            "out",
            "--subnetwork",
            "all",
            "--prior-variance",
            "held-out",
        ];
        scratch.succeeds(&typed).stdout
    };
    assert!(says("mlp").contains("held out: 2 rows of `train_x`, which the network was trained on"));
    assert_eq!(at("held-out").1["prior_variance"], held["prior_variance"], "the same rows again");
    // Rows of its own: their NLL, as it is reported, is that of predictions of them as test rows.
    let (inputs, targets) = (mlp.data["train_x"].clone(), mlp.data["train_y"].clone());
    mlp.data.insert("held_out_x".to_owned(), inputs.clone());
    mlp.data.insert("held_out_y".to_owned(), targets.clone());
    mlp.data.insert("test_x".to_owned(), inputs);
    mlp.data.insert("test_y".to_owned(), targets);
    mlp.write(&scratch, "own");
    let (_, own) = run(&scratch, "own", &["--subnetwork", "all", "--prior-variance", "held-out"]);
    assert!(says("own").contains("held out: 12 rows of `held_out_x`, taken as never trained on"));
    assert_eq!(
        (&own["prior_variance"]["held_out"]["rows"], &own["prior_variance"]["held_out"]["unseen"]),
        (&12.into(), &true.into())
    );
    let [there, here] = [&own["prior_variance"]["held_out"]["nll"], &own["scores"]["nll"]]
        .map(|value| value.as_f64().unwrap());
    assert!((there - here).abs() < 1e-6, "{there} and {here}");
    refuses(
        &scratch,
        &["laplace", "--out", "other", "--case", "mlp", "--subnetwork", "5"],
        &[
            (&[], &["no `prior_variance`", "--prior-variance"]),
            (&["--prior-variance", "-1"], &["--prior-variance -1", "above 0", "held-out"]),
            (&["--prior-variance", "evidence"], &["--prior-variance evidence", "marginal-likelihood"]),
            (&["--prior-variance", "held-out", "--held-out", "1"], &["--held-out 1", "below 1"]),
            (&["--prior-variance", "held-out", "--held-out", "0.99"], &["too few"]),
        ],
    );
}

#[test]
fn test_labels_give_scores_and_a_page() {
    let scratch = Scratch::new();
    let mut mlp = Changed::mlp();
    let targets = [0.5, -0.5, 1.0, 0.0, 0.25];
    Changed::set(&mut mlp.data, "test_y", &[5, 1], &targets);
    mlp.write(&scratch, "mlp");
    let (found, said) = run(&scratch, "mlp", &["--report", "page"]);
    let errors = found["logits"].2.iter().zip(targets).map(|(mean, target)| (target - mean).powi(2));
    let rmse = (errors.sum::<f64>() / 5.0).sqrt();
    assert!((said["scores"]["rmse"].as_f64().unwrap() - rmse).abs() < 1e-12);
    assert!(scratch.text("page/report.html").contains("data-plot=\"interval-coverage\""));
    let text = scratch.succeeds(&["laplace", "--case", "mlp", "--out", "out"]).stdout;
    assert!(text.contains("test rows: rmse ") && text.contains("(5)"), "{text}");
    Changed::mlp().write(&scratch, "unlabelled");
    Changed::set(&mut mlp.data, "test_y", &[4, 1], &targets[..4]);
    mlp.write(&scratch, "short");
    refuses(
        &scratch,
        &["laplace", "--out", "other", "--case"],
        &[
            (&["unlabelled", "--report", "new"], &["--report", "`test_y`"]),
            (&["mlp", "--report", "mlp"], &["--report mlp", "`case.json`"]),
            (&["short"], &["`test_y`", "[4, 1]", "5 rows"]),
        ],
    );
}

/// The same network with layers in between that do nothing: the same numbers, under PyTorch's numbering of the longer list.
#[test]
fn layers_that_do_nothing_are_accepted_and_normalisation_is_folded() {
    let scratch = Scratch::new();
    let plain = Changed::mlp();
    plain.write(&scratch, "plain");
    let (expected, _) = run(&scratch, "plain", &[]);
    let mut padded = Changed::mlp();
    padded.description["layers"] = json!(
        ["dropout", {"linear": 6}, "identity", "relu", {"dropout": 0.5}, {"linear": 4}, "tanh", {"linear": 1}, "dropout"]
    );
    for (from, to) in [("4.", "7."), ("2.", "5."), ("0.", "1.")] {
        for end in ["weight", "bias"] {
            let own = padded.model.remove(&format!("{from}{end}")).unwrap();
            padded.model.insert(format!("{to}{end}"), own);
        }
    }
    padded.write(&scratch, "padded");
    assert_eq!(run(&scratch, "padded", &[]).0, expected);

    // Batch normalisation behind the first layer, by hand: s = w / sqrt(v + eps), W' = s W, b' = s (b - m) + shift.
    let (mean, variance, weight, shift) = (
        [0.1, -0.2, 0.3, 0.0, 0.5, -0.4],
        [1.5, 0.5, 0.9, 2.0, 0.1, 1.0],
        [1.1, 0.9, -0.5, 1.0, 2.0, 0.3],
        [0.0, 0.2, -0.1, 0.4, 0.0, -0.3],
    );
    let mut normalised = Changed::mlp();
    normalised.description["layers"] =
        json!([{"linear": 6}, {"batchnorm": {"eps": 0.001}}, "relu", {"linear": 4}, "tanh", {"linear": 1}]);
    for (from, to) in [("4.", "5."), ("2.", "3.")] {
        for end in ["weight", "bias"] {
            let own = normalised.model.remove(&format!("{from}{end}")).unwrap();
            normalised.model.insert(format!("{to}{end}"), own);
        }
    }
    for (name, values) in
        [("running_mean", mean), ("running_var", variance), ("weight", weight), ("bias", shift)]
    {
        Changed::set(&mut normalised.model, &format!("1.{name}"), &[6], &values);
    }
    normalised.write(&scratch, "normalised");
    let mut folded = Changed::mlp();
    for row in 0..6 {
        let scale = weight[row] / (variance[row] + 0.001_f64).sqrt();
        folded.model.get_mut("0.weight").unwrap().2[row * 5..(row + 1) * 5]
            .iter_mut()
            .for_each(|value| *value *= scale);
        let bias = &mut folded.model.get_mut("0.bias").unwrap().2[row];
        *bias = scale * (*bias - mean[row]) + shift[row];
    }
    folded.write(&scratch, "folded");
    let (a, b) = (run(&scratch, "normalised", &[]).0, run(&scratch, "folded", &[]).0);
    for name in ["logits", "covariance", "predictive_variance"] {
        assert!(gap(&a[name].2, &b[name].2) < 1e-12, "{name}");
    }
    assert!(gap(&a["logits"].2, &expected["logits"].2) > 1e-3, "it does something");
    // Without a bias before it, as many networks are made: the same as with zeros.
    let mut zeros = Changed { description: normalised.description.clone(), ..Changed::mlp() };
    zeros.model.clone_from(&normalised.model);
    Changed::set(&mut zeros.model, "0.bias", &[6], &[0.0; 6]);
    zeros.write(&scratch, "zeros");
    zeros.model.remove("0.bias");
    zeros.write(&scratch, "unbiased");
    assert_eq!(run(&scratch, "unbiased", &[]).0, run(&scratch, "zeros", &[]).0);
    zeros.model.remove("3.bias");
    zeros.write(&scratch, "too-few");

    let layers = |layers: Value, name: &str| {
        let mut changed = Changed::mlp();
        changed.description["layers"] = layers;
        changed.write(&scratch, name);
    };
    layers(json!([{"linear": 6}, "relu", "batchnorm", {"linear": 4}, "tanh", {"linear": 1}]), "late");
    layers(json!(["batchnorm", {"linear": 6}, "relu", {"linear": 4}, "tanh", {"linear": 1}]), "first");
    layers(json!([{"linear": 6}, "layernorm", {"linear": 4}, "tanh", {"linear": 1}]), "layernorm");
    layers(json!([{"linear": 6}, "relu", {"linear": 4}, "tanh", {"linear": 1}, "softmax"]), "softmax");
    layers(json!([{"linear": 6}, "swish", {"linear": 1}]), "unknown");
    layers(json!([{"linear": 6, "bias": false}, {"linear": 1}]), "two");
    layers(json!([{"linear": 6}, {"batchnorm": {"momentum": 0.1}}, {"linear": 1}]), "momentum");
    layers(json!(["dropout"]), "nothing");
    normalised.model.remove("1.running_var");
    normalised.write(&scratch, "incomplete");
    refuses(
        &scratch,
        &["laplace", "--out", "other", "--case"],
        &[
            (&["late"], &["layer 2 (batchnorm)", "behind `relu`", "folded exactly"]),
            (&["first"], &["layer 0 (batchnorm)", "first"]),
            (&["layernorm"], &["`layernorm`", "each input's own statistics"]),
            (&["softmax"], &["`softmax`", "logits"]),
            (&["unknown"], &["`swish`", "silu", "dropout"]),
            (&["two"], &["one name with its settings"]),
            (&["momentum"], &["momentum", "eps"]),
            (&["nothing"], &["makes no network"]),
            (&["incomplete"], &["model.safetensors", "1.running_var"]),
            (&["too-few"], &["model.safetensors", "has no `3.bias`"]),
        ],
    );
}

#[test]
fn gelu_is_pytorch_s() {
    let scratch = Scratch::new();
    let mut mlp = Changed::mlp();
    mlp.description = json!({ "task": "regression", "input": [1], "noise_std": 1.0, "subnetwork_size": 1,
        "layers": [{"linear": 1}, "gelu", {"linear": 1}] });
    mlp.model.clear();
    for (name, shape, value) in [
        ("0.weight", vec![1, 1], 1.0),
        ("0.bias", vec![1], 0.0),
        ("2.weight", vec![1, 1], 1.0),
        ("2.bias", vec![1], 0.0),
    ] {
        Changed::set(&mut mlp.model, name, &shape, &[value]);
    }
    mlp.data.clear();
    // torch.nn.functional.gelu of these.
    let (inputs, expected) =
        ([-1.0, 0.5, 2.0], [-0.158_655_253_931_457, 0.345_731_230_637_007, 1.954_499_736_103_642]);
    for name in ["train_x", "test_x"] {
        Changed::set(&mut mlp.data, name, &[3, 1], &inputs);
    }
    Changed::set(&mut mlp.data, "train_y", &[3, 1], &[0.0; 3]);
    Changed::set(&mut mlp.data, "prior_variance", &[1], &[1.0]);
    mlp.write(&scratch, "gelu");
    assert!(gap(&run(&scratch, "gelu", &[]).0["logits"].2, &expected) < 1e-12);
}

/// The schema is JSON, and the page explains every key of it and every array.
#[test]
fn the_schema_is_printed_and_the_page_has_every_key() {
    let scratch = Scratch::new();
    let schema = scratch.succeeds(&["laplace", "--schema"]).json();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/laplace.md")).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    assert_eq!(schema["required"], json!(["task", "layers", "input"]));
    let arrays = [
        "train_x",
        "train_y",
        "test_x",
        "test_y",
        "prior_variance",
        "prior_mean",
        "held_out_x",
        "held_out_y",
        "subnetwork",
        "diag_ggn",
        "ggn",
        "covariance",
        "logits",
        "functional_variance",
        "probit",
        "predictive_variance",
    ];
    for key in properties.keys().map(String::as_str).chain(arrays) {
        assert!(page.contains(&format!("`{key}`")), "docs/laplace.md says nothing of `{key}`");
    }
    for (key, property) in properties {
        assert!(
            property["description"].is_string() || property["$ref"].is_string(),
            "{key} is not explained: {property}"
        );
    }
    let text = schema.to_string();
    for layer in ["linear", "conv", "maxpool", "avgpool", "gelu", "identity", "dropout", "batchnorm"] {
        assert!(text.contains(layer) && page.contains(&format!("`{layer}`")), "{layer}");
    }
    let ended = scratch.fedsi(&["laplace", "--out", "x"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("--case"), "{}", ended.stderr);
}
