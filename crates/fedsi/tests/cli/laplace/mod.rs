//! `fedsi laplace` against what PyTorch finds the slow way (see make.py), and on cases it must refuse.

mod variants;

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use crate::support::Scratch;

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/laplace").join(name)
}

/// A tensor's values, whatever their kind.
fn values(tensors: &SafeTensors<'_>, name: &str) -> (Dtype, Vec<usize>, Vec<f64>) {
    let found = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let words = found.data().as_chunks::<8>().0;
    let values = match found.dtype() {
        Dtype::F64 => words.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect(),
        Dtype::I64 => words.iter().map(|&bytes| i64::from_le_bytes(bytes) as f64).collect(),
        other => panic!("{name} is {other:?}"),
    };
    (found.dtype(), found.shape().to_vec(), values)
}

/// Largest difference of each array relative to its largest value.
fn differences(found: &[u8], expected: &[u8]) -> Vec<(String, f64)> {
    let (found, expected) =
        (SafeTensors::deserialize(found).unwrap(), SafeTensors::deserialize(expected).unwrap());
    let mut names: Vec<&str> = expected.names();
    names.sort_unstable();
    let mut written: Vec<&str> = found.names();
    written.sort_unstable();
    assert_eq!(written, names);
    let gap = |name: &str| {
        let ((kind, shape, a), (right_kind, right_shape, b)) =
            (values(&found, name), values(&expected, name));
        assert_eq!((kind, shape), (right_kind, right_shape), "{name}");
        let largest = b.iter().fold(0.0_f64, |top, value| top.max(value.abs()));
        a.iter().zip(&b).fold(0.0_f64, |top, (a, b)| top.max((a - b).abs())) / largest
    };
    names.into_iter().map(|name| (name.to_owned(), gap(name))).collect()
}

#[test]
fn every_array_is_what_pytorch_finds() {
    for name in ["case-cnn", "case-mlp"] {
        let (scratch, folder) = (Scratch::new(), case(name));
        let typed = ["laplace", "--case", folder.to_str().unwrap(), "--out", "found.safetensors", "--exact"];
        let ended = scratch.succeeds(&typed);
        assert!(ended.stdout.contains("subnetwork by variance"), "{}", ended.stdout);
        let expected = fs::read(folder.join("expected.safetensors")).unwrap();
        for (array, gap) in differences(&fs::read(scratch.path("found.safetensors")).unwrap(), &expected) {
            assert!(gap < 1e-12, "{name}: {array} is off by {gap:.1e}");
        }
        let told = scratch.succeeds(&[&typed[..], &["--json"]].concat()).json();
        assert_eq!(told["certificate"], 0.0);
        assert!(told["log_marginal_likelihood"].as_f64().unwrap() < told["log_likelihood"].as_f64().unwrap());
    }
}

/// With a tolerance the covariance differs by no more than it, and the rest not at all.
#[test]
fn a_tolerance_is_kept_and_certified() {
    let (scratch, folder) = (Scratch::new(), case("case-mlp"));
    let folder_name = folder.to_str().unwrap();
    let typed = ["laplace", "--case", folder_name, "--out", "found", "--tolerance", "0.5", "--json"];
    let told = scratch.succeeds(&typed).json();
    assert!(told["certificate"].as_f64().unwrap() <= 0.5, "{told}");
    let expected = fs::read(folder.join("expected.safetensors")).unwrap();
    for (array, gap) in differences(&fs::read(scratch.path("found")).unwrap(), &expected) {
        let allowed =
            if ["covariance", "functional_variance", "predictive_variance"].contains(&array.as_str()) {
                0.5
            } else {
                1e-12
            };
        assert!(gap <= allowed, "{array} is off by {gap:.1e}");
    }
}

#[test]
fn rules_and_sizes_can_be_chosen() {
    let (scratch, folder) = (Scratch::new(), case("case-cnn"));
    let folder = folder.to_str().unwrap();
    let chosen = |arguments: &[&str]| {
        let typed = [&["laplace", "--case", folder, "--out", "out", "--json"], arguments].concat();
        scratch.succeeds(&typed).json()["subnetwork"]["size"].as_u64().unwrap()
    };
    for rule in ["variance", "live", "predictive", "leverage", "random", "magnitude"] {
        assert_eq!(chosen(&["--rule", rule, "--subnetwork", "7"]), 7, "{rule}");
    }
    assert_eq!(chosen(&["--subnetwork", "50%"]), 49, "half of 98");
    assert_eq!(chosen(&["--rule", "layers:2"]), 26, "all of layer 2");
    assert_eq!(chosen(&["--rule", "layers:2.bias,6"]), 17);
}

#[test]
fn equal_calls_give_equal_bytes() {
    let (scratch, folder) = (Scratch::new(), case("case-cnn"));
    for out in ["one", "two"] {
        let folder = folder.to_str().unwrap();
        scratch.succeeds(&[
            "laplace", "--case", folder, "--out", out, "--rule", "random", "--seed", "4", "--quiet",
        ]);
    }
    assert_eq!(fs::read(scratch.path("one")).unwrap(), fs::read(scratch.path("two")).unwrap());
}

#[test]
fn its_inputs_are_never_overwritten() {
    let (scratch, folder) = (Scratch::new(), case("case-mlp"));
    let names = ["case.json", "model.safetensors", "data.safetensors"];
    for name in names {
        scratch.write(&format!("case/{name}"), fs::read(folder.join(name)).unwrap());
    }
    fs::hard_link(scratch.path("case/data.safetensors"), scratch.path("link.safetensors")).unwrap();
    let before = scratch.everything();
    let inside = names.map(|name| format!("case/{name}"));
    for out in inside.iter().map(String::as_str).chain(["link.safetensors"]) {
        let ended = scratch.fedsi(&["laplace", "--case", "case", "--out", out]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("which is read; name another file"), "{}", ended.stderr);
    }
    assert_eq!(scratch.everything(), before);
}

#[test]
fn bad_cases_are_refused_in_a_line_that_names_the_fault() {
    let text = fs::read_to_string(case("case-mlp").join("case.json")).unwrap();
    let (model, data) =
        (case("case-mlp").join("model.safetensors"), case("case-mlp").join("data.safetensors"));
    // What is changed, how, what is typed besides, and what the error must say.
    let changes: [(&str, &str, &[&str], &str); 13] = [
        ("", "", &["--subnetwork", "0"], "at least one parameter"),
        ("", "", &["--subnetwork", "65"], "65"),
        ("", "", &["--subnetwork", "abc"], "--subnetwork abc"),
        ("", "", &["--subnetwork", "120%"], "120%"),
        ("", "", &["--rule", "wasserstein"], "wasserstein"),
        ("", "", &["--rule", "layers:9"], "9"),
        ("", "", &["--tolerance", "-1"], "--tolerance -1"),
        ("\"linear\": 6", "\"linear\": 7", &[], "body_parameters"),
        ("\"noise_std\": 0.4", "\"noise_std\": 0", &[], "noise_std"),
        ("\"task\"", "\"tusk\"", &[], "task"),
        ("[5]", "[6]", &[], "body_parameters"),
        ("regression", "classification", &[], "train_y"),
        ("{\"linear\": 1}", "\"relu\"", &[], "must be `linear`"),
    ];
    for (from, to, typed, word) in changes {
        let scratch = Scratch::new();
        scratch.write("case/case.json", text.replacen(from, to, usize::from(!from.is_empty())));
        scratch.write("case/model.safetensors", fs::read(&model).unwrap());
        scratch.write("case/data.safetensors", fs::read(&data).unwrap());
        let ended = scratch.fedsi(&[&["laplace", "--case", "case", "--out", "out"], typed].concat());
        assert_eq!(ended.code, Some(2), "{from} -> {to} {typed:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(word), "{from} -> {to} {typed:?}: no `{word}` in {}", ended.stderr);
        assert!(!scratch.path("out").exists(), "{typed:?}: something was written");
    }
    let scratch = Scratch::new();
    let good = case("case-mlp");
    let ended = scratch.fedsi(&["laplace", "--case", good.to_str().unwrap(), "--out", "no/such/out"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no folder no/such"), "{}", ended.stderr);
    let ended = scratch.fedsi(&["laplace", "--case", "nowhere", "--out", "out"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("nowhere/case.json"), "{}", ended.stderr);
    scratch.write("case/case.json", &text);
    scratch.write("case/model.safetensors", b"not a model");
    scratch.write("case/data.safetensors", b"");
    let ended = scratch.fedsi(&["laplace", "--case", "case", "--out", "out"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("model.safetensors"), "{}", ended.stderr);
}
