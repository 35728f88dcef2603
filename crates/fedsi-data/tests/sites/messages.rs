//! Bytes from another machine are refused or harmless, whatever they are.

use fedsi_data::FilesSpec;
use fedsi_data::site::{Agreement, SiteDescription};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::hospitals::{admissions, at_sites, describe, partition, settings};

/// A description and an agreement of tables, as bytes.
fn messages() -> (Vec<u8>, Vec<u8>) {
    let (dir, table) = (tempfile::tempdir().unwrap(), admissions());
    let of = |site| FilesSpec { train: table.own(dir.path(), "own.csv", site), ..settings() };
    let description = describe(&of(2), &partition(), 2, "Turku").to_bytes();
    let (agreement, _) = at_sites(&table.names, &[of(0), of(1), of(2)], &partition());
    (description, agreement.to_bytes())
}

fn refusals(bytes: &[u8]) -> [Option<String>; 2] {
    [
        SiteDescription::from_bytes(bytes).err().map(|error| error.to_string()),
        Agreement::from_bytes(bytes).err().map(|error| error.to_string()),
    ]
}

#[test]
fn truncated_bytes_are_refused() {
    let (description, agreement) = messages();
    for bytes in [&description, &agreement] {
        for end in 0..bytes.len() {
            assert!(refusals(&bytes[..end]).iter().all(Option::is_some), "{end} of {} bytes", bytes.len());
        }
    }
    assert!(refusals(&agreement)[0].is_some(), "an agreement is no description");
    assert!(refusals(&description)[1].is_some(), "a description is no agreement");
    let text = refusals(b"rows")[0].clone().unwrap();
    assert!(text.starts_with("a site's description: found ") && text.contains("make it again"), "{text}");
}

/// Changes one place of a message and says what is then refused.
fn changed(bytes: &[u8], pointer: &str, value: Value) -> String {
    let mut message: Value = serde_json::from_slice(bytes).unwrap();
    *message.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
    let bytes = serde_json::to_vec(&message).unwrap();
    let [description, agreement] = refusals(&bytes);
    let text = description.filter(|_| pointer_is_of_description(&message)).or(agreement);
    text.unwrap_or_else(|| panic!("{pointer} was read"))
}

fn pointer_is_of_description(message: &Value) -> bool {
    message.get("train_rows").is_some()
}

#[test]
fn what_cannot_be_is_refused_before_it_is_used() {
    let (description, agreement) = messages();
    let cases = [
        ("/version", json!(2), "found version 2, expected version 1"),
        ("/name", json!("a\u{7}"), "the site's name"),
        ("/client", json!(1 << 30), "client number"),
        ("/train_rows", json!(5_000_000_000_u64), "training rows"),
        ("/test_rows", json!(-1), "JSON"),
        ("/data/table/summary/rows", json!(3), "counts within the rows"),
        ("/data/table/summary/columns/0/numbers/std", json!(-1.0), "as no table has it"),
        ("/data/table/summary/columns/0/name", json!("age"), "column \"age\" twice"),
        ("/data/table/summary/columns", json!([]), "no column"),
        (
            "/data/table/summary/targets",
            json!([{ "count": 1, "mean": 0, "std": 0, "median": 0 }]),
            "moments of 1 targets",
        ),
        ("/data/table/shape", json!([0]), "inputs of shape [0]"),
        ("/data/table/target/classes/names", json!(["a", "a"]), "1 of them different"),
        ("/data/table/target/classes/names", json!([]), "0 names of classes"),
        ("/data", json!({ "rows": [] }), "JSON"),
    ];
    for (pointer, value, expected) in cases {
        let text = changed(&description, pointer, value);
        assert!(text.contains(expected), "{pointer}: {text}");
    }
    let cases = [
        ("/version", json!(0), "found version 0"),
        ("/sites", json!([]), "0 sites"),
        ("/sites/1", json!("Aarhus"), "two sites named \"Aarhus\""),
        ("/input_shape", json!([1_u64 << 60]), "inputs of shape"),
        ("/input_shape", json!([1]), "an encoding of"),
        ("/task", json!({ "classification": { "classes": 4_000_000_000_u64 } }), "4000000000 classes"),
        ("/task", json!({ "classification": { "classes": 2 } }), "3 names of classes"),
        ("/class_names", Value::Null, "names of classes"),
        ("/class_names/0", json!(""), "none empty"),
        ("/target_scaling", json!({ "mean": [0.0], "std": [1.0] }), "a scale of 1 targets"),
        ("/data/table/encoding/columns/0/std", json!(0.0), "an encoding of"),
        ("/data/table/encoding/columns/0/mean", Value::Null, "JSON"),
        ("/data/table/targets", json!(["a", "b"]), "2 columns of targets"),
    ];
    for (pointer, value, expected) in cases {
        let text = changed(&agreement, pointer, value);
        assert!(text.contains(expected), "{pointer}: {text}");
    }
}

#[test]
fn a_field_of_another_version_is_said_to_be_one() {
    let (description, _) = messages();
    let mut message: Value = serde_json::from_slice(&description).unwrap();
    message["version"] = json!(9);
    message["weather"] = json!("fair");
    let text = refusals(&serde_json::to_vec(&message).unwrap())[0].clone().unwrap();
    assert!(text.contains("found version 9, expected version 1"), "{text}");
    message["version"] = json!(1);
    let text = refusals(&serde_json::to_vec(&message).unwrap())[0].clone().unwrap();
    assert!(text.contains("unknown field `weather`"), "{text}");
}

/// Deeply nested text must not exhaust the stack.
#[test]
fn nested_text_is_refused() {
    for text in ["[".repeat(100_000), "{\"data\":".repeat(100_000)] {
        assert!(refusals(text.as_bytes()).iter().all(Option::is_some));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(refusals(&bytes).iter().all(Option::is_some));
    }
}

/// What can be read of damaged bytes can be agreed on or refused, without a panic.
#[test]
fn damaged_bytes_are_refused_or_harmless() {
    let (description, agreement) = messages();
    for (bytes, other) in [(&description, b"9"), (&agreement, b"0")] {
        for at in 0..bytes.len() {
            for new in [other[0], b'-', b'"', bytes[at] ^ 1] {
                let mut damaged = bytes.clone();
                damaged[at] = new;
                if let Ok(site) = SiteDescription::from_bytes(&damaged) {
                    let _ = Agreement::of(&[site]);
                }
                if let Ok(agreed) = Agreement::from_bytes(&damaged) {
                    assert_eq!(Agreement::from_bytes(&agreed.to_bytes()).unwrap(), agreed);
                }
            }
        }
    }
}
